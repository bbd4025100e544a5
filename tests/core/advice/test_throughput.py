from dataclasses import replace

import pytest

from pairproxy.core.accounting.verdict_nodes import LET_THEM
from pairproxy.core.advice.evidence import Elsewhere
from pairproxy.core.advice.throughput import fastest, idle_nodes, more_nodes, more_slots
from pairproxy.core.advice.trials import Trials
from pairproxy.core.models import EngineId, ModelName, Rates
from pairproxy.core.workload import MODEL, SimEngine, SimNode, SimRequest
from tests.core.advice.looking import CACHE, USUAL, A, B, burst, chain, happens, look, node

SHARING = Rates(2000.0, 50.0, 0.1)  # slots that hardly slow each other
JAMMED = Rates(2000.0, 50.0, 1.0)  # slots that only take turns


@pytest.mark.parametrize("count", [8, 16])
def test_more_slots_gain_what_is_said(count: int) -> None:
    """Applied to the same machines, the run ends when the advice said."""
    evidence = look([node("a", 1, SHARING), node("b", 1, SHARING)], burst(count))
    (found,) = more_slots(evidence, Trials(evidence))
    assert found.helps
    slots = int(found.numbers["slots_tried"]) // 2
    really = happens([node("a", slots, SHARING), node("b", slots, SHARING)], burst(count), "fastest-finish")
    assert found.numbers["simulated_after_s"] == pytest.approx(really.makespan_s, rel=0.1)
    assert found.gain_s == pytest.approx(
        found.numbers["simulated_before_s"] - found.numbers["simulated_after_s"]
    )
    assert "for it was not seen" in found.sentence


def test_more_slots_do_not_help_where_they_take_turns() -> None:
    """Much waits, and still nothing is gained: two at once take twice as long."""
    evidence = look([node("a", 1, JAMMED)], burst(8, prompt=20, output=200))
    (found,) = more_slots(evidence, Trials(evidence))
    assert not found.helps
    assert found.numbers["queue_s"] > found.numbers["latency_s"] / 2
    assert "slow each other" in found.sentence


def test_no_slot_is_missing_where_nothing_waits() -> None:
    """Which needs no simulation."""
    evidence = look([node("a", 4)], burst(3))
    (found,) = more_slots(evidence, Trials(evidence))
    assert not found.helps
    assert "none was missing" in found.sentence
    assert found.gain is None


def test_slots_are_missing_where_only_the_fast_nodes_are_full() -> None:
    """Nothing waits, for a slower node takes what does not fit; more slots, applied, spare that."""
    slow, fast = Rates(800.0, 60.0, 0.15), Rates(4000.0, 60.0, 0.15)

    def nodes(times: int) -> list[SimNode]:
        return [node("a", 4 * times, slow), node("b", 2 * times, fast), node("c", times, fast)]

    evidence = look(nodes(1), burst(4))
    (found,) = more_slots(evidence, Trials(evidence))
    assert found.helps
    assert found.numbers["queue_s"] < 0.05 * found.numbers["latency_s"]
    assert "the faster engines were full" in found.sentence
    really = happens(nodes(int(found.numbers["slots_tried"]) // 7), burst(4), "fastest-finish")
    assert found.numbers["simulated_after_s"] == pytest.approx(really.makespan_s, rel=0.1)


def test_a_node_more_gains_what_is_said() -> None:
    """Like the fastest there is."""
    fast = Rates(4000.0, 100.0, 0.15)
    evidence = look([node("a"), node("b", 1, fast)], burst(12))
    (found,) = more_nodes(evidence, Trials(evidence))
    assert found.helps
    assert "like node b" in found.sentence
    really = happens([node("a"), node("b", 1, fast), node("c", 1, fast)], burst(12), "fastest-finish")
    assert found.numbers["simulated_after_s"] == pytest.approx(really.makespan_s, rel=0.1)


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        (burst(1), "one request runs"),
        (chain(4), "waits for the reply"),
        (burst(2), "a slot for every request"),
    ],
)
def test_why_a_node_more_does_not_help(requests: list[object], why: str) -> None:
    """One request, one chain, or enough slots: each is said."""
    alone = Rates(2000.0, 50.0, 0.0)
    evidence = look([node("a", 2, alone)], requests)  # type: ignore[arg-type]
    (found,) = more_nodes(evidence, Trials(evidence))
    assert not found.helps
    assert why in found.sentence


def test_a_node_without_the_model_would_take_its_part() -> None:
    """As fast as is known of it by another model, else as the fastest one here."""
    half = Elsewhere(B, "ben", 1, ("m:latest",), times=0.5)
    for there, rates in ((half, Rates(1000.0, 25.0, 0.15)), (Elsewhere(B, "ben", 1, ("m:latest",)), USUAL)):
        evidence = look([node("a")], burst(9), elsewhere=(there,))
        (found,) = idle_nodes(evidence, Trials(evidence))
        assert found.helps
        really = happens([node("a"), node("b", 1, rates)], burst(9), "fastest-finish")
        assert found.numbers["simulated_after_s"] == pytest.approx(really.makespan_s, rel=0.1)
        assert "ben is paired and lacks m:latest" in found.sentence


def test_a_node_that_hardly_works_can_be_spared() -> None:
    """Without it the run ends no later; what gains nothing is no help, and still said."""
    evidence = look([node("a", 2, Rates(2000.0, 50.0, 0.0)), node("b", 1, Rates(200.0, 5.0, 0.15))], chain(4))
    (found,) = idle_nodes(evidence, Trials(evidence))
    assert not found.helps
    assert "node b worked 0 % of its slots' time" in found.sentence
    assert found.sentence.endswith("it can be spared.")
    busy = look([node("a"), node("b")], burst(8))
    assert [*idle_nodes(busy, Trials(busy))] == []


def test_the_fastest_node_is_that_with_all_slots_in_use() -> None:
    """Four slots of 30 tokens/s are more than one of 50."""
    found = fastest(look([node("a"), node("b", 4, Rates(2000.0, 30.0, 0.1))], burst(6)))
    assert found is not None
    assert found.node == B
    assert fastest(look([node("a")], burst(2))).node == A  # type: ignore[union-attr]


def test_a_node_that_has_the_model_and_may_not_is_no_node_more() -> None:
    """What keeps requests from it keeps them from another one; let go, it takes its part."""
    there = Elsewhere(B, "ben", 1, (), times=1.0)
    evidence = look([node("a")], burst(9), elsewhere=(there,))
    trials = Trials(evidence)
    (found,) = idle_nodes(evidence, trials)
    assert found.helps
    really = happens([node("a"), node("b")], burst(9), "fastest-finish")
    assert found.numbers["simulated_after_s"] == pytest.approx(really.makespan_s, rel=0.1)
    assert "ben has a model of these requests, and none of them could go there" in found.sentence
    assert found.sentence.endswith(LET_THEM)
    assert not [*more_nodes(evidence, trials)]


def test_a_model_that_only_one_of_the_nodes_has_would_be_shared() -> None:
    """Sixteen requests for it wait there while the other node is idle; fetched, they end when it is said."""
    two = ModelName("two:latest")
    both = SimEngine(EngineId("gpu"), 2, {MODEL: USUAL, two: USUAL}, cache_tokens=CACHE)
    lacking = replace(both, rates={MODEL: USUAL})
    requests = [SimRequest(0.0, A, 800, 100, model=two) for _ in range(16)] + burst(4)
    evidence = look([SimNode(A, (lacking,)), SimNode(B, (both,))], requests)
    (found,) = (one for one in idle_nodes(evidence, Trials(evidence)) if "two:latest" in one.sentence)
    assert found.helps
    assert found.sentence.startswith("Idle nodes: node a lacks two:latest, which one node has.")
    really = happens([SimNode(A, (both,)), SimNode(B, (both,))], requests, "fastest-finish")
    assert found.numbers["simulated_after_s"] == pytest.approx(really.makespan_s, rel=0.1)
    (more,) = more_nodes(evidence, Trials(evidence))
    assert "like node b" in more.sentence  # one like the other would lack it, too
    assert more.helps
