from dataclasses import replace

import pytest

from pairproxy.core.advice.reading import prefill, prefix_routing, prompt_order
from pairproxy.core.advice.trials import Trials
from pairproxy.core.discipline import Finding
from pairproxy.core.models import ModelName, Rates
from pairproxy.core.workload import SimRequest
from tests.core.advice.looking import A, burst, faster, happens, look, node, prefixes

READS_SLOWLY = Rates(600.0, 50.0, 0.15)
ORDER = [0, 1, 1, 0, 2, 3, 3, 2, 0, 1, 2, 3, 1, 0, 3, 2]


def slow(*names: str) -> list[object]:
    """Nodes that take seconds to read a prompt of four thousand tokens."""
    return [node(name, 1, READS_SLOWLY) for name in names]


def test_a_policy_that_ignores_prefixes_is_found_out() -> None:
    """With the hit rate that was reached and the one possible; applied, a request is as much sooner."""
    nodes = [node("a", 1, READS_SLOWLY), node("b", 1, READS_SLOWLY), node("c", 1, READS_SLOWLY)]
    evidence = look(nodes, prefixes(ORDER, pause_s=8.0), "round-robin")
    (found,) = prefix_routing(evidence, Trials(evidence))
    assert (found.lever, found.helps) == ("prefix-routing", True)
    assert found.numbers["hits_reached"] < found.numbers["hits_possible"] - 0.1
    assert found.numbers["hits_possible"] == pytest.approx(0.75, abs=0.02)  # 4 of 16 must be read
    really = happens(nodes, prefixes(ORDER, pause_s=8.0), "fastest-finish")
    mean_s = sum(record.latency_s for record in really.records) / len(ORDER)
    assert found.numbers["request_after_s"] == pytest.approx(mean_s, rel=0.1)
    assert 'Set routing.policy = "fastest-finish"' in found.sentence


def test_what_begins_differently_needs_no_prefix_routing() -> None:
    """And one node alone has no routing at all."""
    for nodes in ([node("a")], [node("a"), node("b")]):
        evidence = look(nodes, burst(4))
        (found,) = prefix_routing(evidence, Trials(evidence))
        assert not found.helps
        assert "no beginning in common" in found.sentence


def test_hits_that_were_reached_are_told() -> None:
    """Ours, on a workload that it is made for."""
    evidence = look([node("a"), node("b")], prefixes(ORDER, pause_s=4.0))
    (found,) = prefix_routing(evidence, Trials(evidence))
    assert not found.helps
    assert found.numbers["hits_reached"] == pytest.approx(0.75, abs=0.05)


def test_a_blind_policy_that_loses_by_its_choice_of_nodes_is_no_matter_of_prefixes() -> None:
    """A slow node beside a fast one, in turn."""
    evidence = look([node("a"), node("b", 1, Rates(400.0, 5.0, 0.15))], burst(8), "round-robin")
    (found,) = prefix_routing(evidence, Trials(evidence))
    assert (found.lever, found.helps) == ("routing", True)
    assert found.gain_s is not None
    assert found.gain_s > 0.0


def diverging(lost_tokens: int = 3800) -> tuple[list[SimRequest], Finding]:
    """Prompts of four thousand tokens, alike but for their first line, and what is noticed of them."""
    requests = [
        SimRequest(
            8.0 * index,
            A,
            64 * 60 + 20,
            20,
            client="agent",
            blocks=tuple(range(1000 * index, 1000 * index + 60)),
        )
        for index in range(1, 9)
    ]
    return requests, Finding("agent", ModelName("m:latest"), "system prompt", 12, 7, lost_tokens)


def test_a_client_whose_prompts_part_early_is_told_where() -> None:
    """The byte, and what it would gain to put what changes at the end; applied, it does."""
    requests, finding = diverging()
    evidence = look([node("a", 1, READS_SLOWLY)], requests, findings=[finding])
    (found,) = prompt_order(evidence, Trials(evidence))
    assert found.helps
    assert found.numbers["diverges_at_byte"] == 12.0
    shared = tuple(range(1, 60))
    mended = [replace(one, blocks=(*shared, 1000 * index)) for index, one in enumerate(requests, 1)]
    really = happens([node("a", 1, READS_SLOWLY)], mended, "fastest-finish")
    mean_s = sum(record.latency_s for record in really.records) / len(requests)
    assert found.numbers["request_after_s"] == pytest.approx(mean_s, rel=0.1)


def test_a_finding_about_somebody_else_is_no_matter_of_this_run() -> None:
    """Another client, or another model."""
    requests, finding = diverging()
    others = [replace(finding, client="other"), replace(finding, model=ModelName("n"))]
    evidence = look([node("a", 1, READS_SLOWLY)], requests, findings=others)
    assert [*prompt_order(evidence, Trials(evidence))] == []


def test_long_prompts_with_nothing_in_common_are_a_matter_of_prefill() -> None:
    """Twice as fast, the run ends when it was said."""
    long = [replace(one, at=index * 1.0) for index, one in enumerate(burst(4, prompt=6000, output=30))]
    evidence = look([node("a", 1, READS_SLOWLY)], long)
    (found,) = prefill(evidence, Trials(evidence))
    assert found.helps
    really = happens([node("a", 1, faster(READS_SLOWLY, prefill=2.0))], long, "fastest-finish")
    assert found.numbers["simulated_after_s"] == pytest.approx(really.makespan_s, rel=0.1)
    assert found.numbers["best_read_s"] == pytest.approx(10.0, rel=0.05)


@pytest.mark.parametrize(
    ("nodes", "requests", "policy", "why"),
    [
        ([node("a")], burst(4), "fastest-finish", "soon enough"),
        (slow("a", "b", "c"), prefixes(ORDER, pause_s=8.0), "round-robin", "in common be read once"),
    ],
)
def test_why_faster_reading_is_not_the_lever(
    nodes: list[object], requests: list[SimRequest], policy: str, why: str
) -> None:
    """It is soon enough, or a cache helps first."""
    evidence = look(nodes, requests, policy)  # type: ignore[arg-type]
    (found,) = prefill(evidence, Trials(evidence))
    assert not found.helps
    assert why in found.sentence


def test_prompts_that_are_read_beside_others_gain_as_well() -> None:
    """Eight long ones at once on one machine: what each waits for is all of their reading."""
    requests = burst(8, prompt=2000)
    evidence = look([node("a", 8, READS_SLOWLY)], requests)
    (found,) = prefill(evidence, Trials(evidence))
    assert found.helps
    assert "the rest beside others there" in found.sentence
    really = happens([node("a", 8, faster(READS_SLOWLY, prefill=2.0))], requests, "fastest-finish")
    assert found.numbers["simulated_after_s"] == pytest.approx(really.makespan_s, rel=0.1)


def test_a_client_in_disorder_is_mended_before_reading_is_made_faster() -> None:
    """The one is free."""
    requests, finding = diverging()
    evidence = look([node("a", 1, READS_SLOWLY)], requests, findings=[finding])
    (found,) = prefill(evidence, Trials(evidence))
    assert not found.helps
    assert "what does not change" in found.sentence


def test_without_a_stream_nothing_is_said_of_reading() -> None:
    """Nobody knows when it ended."""
    evidence = look([node("a")], [replace(one, is_streaming=False) for one in burst(3)])
    assert evidence.timing.ttft_s is None
    assert [*prefill(evidence, Trials(evidence))] == []
