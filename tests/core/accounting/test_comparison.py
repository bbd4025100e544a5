from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.accounting.comparison import Comparison, LegResult, compare, explain
from pairproxy.core.accounting.services import Service, Tally
from pairproxy.core.models import NodeId
from tests.core.accounting.conversation import A, B, C, worked
from tests.core.accounting.schedules import Services, list_schedule, workloads


def leg(*services: Service, makespan_s: float | None = None) -> LegResult:
    """A leg that ends with its last request, or later."""
    return LegResult(makespan_s or max(service.end_s for service in services), services)


def in_turn(*lengths: float, node: NodeId = A) -> LegResult:
    """Requests one after the other on one node."""
    ends = [sum(lengths[: index + 1]) for index in range(len(lengths))]
    return leg(*(worked(node, end - length, end) for end, length in zip(ends, lengths, strict=True)))


def waves(nodes: list[NodeId], makespan_s: float, requests: int = 5) -> LegResult:
    """Requests of ten seconds in waves over nodes, in a leg that took this long."""
    begins = [(nodes[index % len(nodes)], 10.0 * (index // len(nodes))) for index in range(requests)]
    return leg(*(worked(node, start, start + 10.0) for node, start in begins), makespan_s=makespan_s)


ALONE = in_turn(10, 10, 10, 10, 10)


@pytest.mark.parametrize(
    ("nodes", "together_s", "speedup", "bound", "efficiency"),
    [([A, B, C], 50 / 2.05, 2.05, 2.5, 0.82), ([A, B], 50 / 1.66, 1.66, 5 / 3, 0.996)],
)
def test_the_worked_examples(
    nodes: list[NodeId], together_s: float, speedup: float, bound: float, efficiency: float
) -> None:
    """Five equal requests: 2.05 of 2.5 on three equal nodes is 82 %; 1.66 of 5/3 on two is 99.6 %."""
    result = compare([ALONE], [waves(nodes, together_s)], dict.fromkeys(nodes, 1))
    assert result.speedup == pytest.approx(speedup)
    assert result.bound_waves == pytest.approx(bound)
    assert result.efficiency == pytest.approx(efficiency)
    assert (result.efficiency_against, result.why) == ("waves", None)
    assert result.bound_provable == pytest.approx(bound)
    assert result.bound_capacity == pytest.approx(len(nodes))


def test_medians_decide() -> None:
    """One slow leg of three changes nothing, and the nodes' work is told of the leg in the middle."""
    slow = leg(worked(A, 0, 90), worked(B, 0, 90))
    middle = leg(worked(A, 0, 10, tokens=300), worked(B, 0, 11, tokens=100))
    fast = leg(worked(B, 0, 10), worked(B, 0, 9))
    alone = [in_turn(10, 10), in_turn(11, 11), in_turn(40, 40)]
    result = compare(alone, [slow, middle, fast], {A: 1, B: 1})
    assert (result.makespan_alone_s, result.makespan_together_s) == (22.0, 11.0)
    assert result.makespans_together_s == (90.0, 11.0, 10.0)
    assert result.per_node == {
        A: Tally(requests=1, prompt_tokens=10, output_tokens=300, busy_s=10.0, share=0.75),
        B: Tally(requests=1, prompt_tokens=10, output_tokens=100, busy_s=11.0, share=0.25),
    }


def test_unequal_pieces_can_beat_the_waves_bound() -> None:
    """The report then says why, and measures against the provable bound instead of above 100 %."""
    alone = in_turn(6, 3, 3, 3, 3)
    together = leg(*in_turn(6, 3).requests, *in_turn(3, 3, 3, node=B).requests, makespan_s=9.5)
    result = compare([alone], [together], {A: 1, B: 1})
    assert result.speedup == pytest.approx(18 / 9.5)
    assert result.speedup > result.bound_waves
    assert result.bound_provable == pytest.approx(2.0)
    assert result.efficiency_against == "provable"
    assert result.efficiency == pytest.approx(9 / 9.5)
    assert result.why is not None
    assert "the longest took 6.0 s, the shortest 3.0 s" in result.why
    assert result.pieces_alone_s == (6, 3, 3, 3, 3)


def test_noise_beyond_every_bound_is_called_noise() -> None:
    """A makespan shorter than its own pieces allow is an efficiency of 1, with the reason."""
    result = compare(
        [in_turn(10, 10)], [leg(worked(A, 0, 10), worked(B, 0, 10), makespan_s=9.9)], {A: 1, B: 1}
    )
    assert result.speedup > 2.0
    assert result.efficiency == 1.0
    assert result.why is not None
    assert "about equal" in result.why
    assert "within measuring noise of the provable bound" in result.why


def test_unequal_nodes_are_not_measured_by_waves() -> None:
    """On nodes of speeds 1 : 1/2 : 1/4 the waves bound is shown, and the efficiency is the provable one."""
    alone = in_turn(4, 4, 4, 4, 4)
    together = leg(*in_turn(4, 4, 4).requests, worked(B, 0, 8), worked(C, 0, 16), makespan_s=20.0)
    result = compare([alone], [together], {A: 1, B: 1, C: 1})
    assert result.speeds == {A: 1.0, B: 0.5, C: 0.25}
    assert result.bound_capacity == pytest.approx(1.75)
    assert result.bound_waves == pytest.approx(2.5)
    assert result.provable_makespan_s == pytest.approx(16.0)  # wherever the fifth goes, it ends at 16
    assert result.efficiency_against == "provable"
    assert result.efficiency == pytest.approx(0.8)
    assert result.why is not None
    assert "exact only for equal nodes" in result.why


def test_nodes_that_slow_each_other_alike_are_equal() -> None:
    """On a shared machine all nodes are slower together than one alone; that makes none of them unequal."""
    result = compare([in_turn(10, 10)], [leg(worked(A, 0, 15), worked(B, 0, 15))], {A: 1, B: 1})
    assert result.speeds == {A: 1.0, B: 1.0}
    assert result.efficiency_against == "waves"
    assert result.efficiency == pytest.approx(20 / 15 / 2)


def test_a_faster_other_node_is_said() -> None:
    """Speedup over a slow node is no speedup over the best one, and the notes say so."""
    alone = in_turn(10, 10)
    result = compare([alone], [leg(worked(B, 0, 2), worked(B, 2, 4))], {A: 1, B: 1})
    assert result.speedup == 5.0
    assert result.speeds == {B: 5.0}
    assert any("no speedup over the best single node" in note for note in result.notes)
    assert any("1 node of 2 did no work together" in note for note in result.notes)
    assert result.efficiency == 1.0


def test_a_node_alone_with_several_slots_is_not_measured_by_waves() -> None:
    """The waves bound counts one request at a time alone; an engine that batches does better than that."""
    alone = leg(*(worked(A, 0, 10) for _ in range(4)))
    together = leg(*(worked(node, 0, 8) for node in (A, A, B, B)))
    result = compare([alone], [together], {A: 4, B: 4})
    assert result.efficiency_against == "provable"
    assert result.why is not None
    assert "4 requests at once" in result.why


@pytest.mark.parametrize(
    ("alone", "together", "sentence"),
    [
        ([], [ALONE], "at least one leg"),
        ([ALONE], [], "at least one leg"),
        ([ALONE], [in_turn(1)], "the same requests"),
        ([LegResult(1.0, ())], [LegResult(1.0, ())], "at least one"),
        ([leg(worked(A, 0, 1), worked(B, 0, 1))], [in_turn(1, 1)], "on one node"),
        ([in_turn(1, 1)], [leg(worked(A, 0, 1), worked(A, 1, 1))], "no time"),
        ([LegResult(0.0, in_turn(1).requests)], [in_turn(1)], "no time"),
    ],
)
def test_legs_that_cannot_be_compared(
    alone: list[LegResult], together: list[LegResult], sentence: str
) -> None:
    """What is not the same job on one node and on all is refused with a reason."""
    with pytest.raises(ValueError, match=sentence):
        compare(alone, together, {A: 1, B: 1})


def test_the_explanation_is_plain() -> None:
    """Every number of the comparison appears in a sentence, measured next to its bounds."""
    lines = explain(compare([ALONE, ALONE, ALONE], [waves([A, B], 50 / 1.66)] * 3, {A: 1, B: 1}))
    provable = (
        "Provable bound 1.67: with every piece at the best seen on each node, no schedule ends before 30.00"
    )
    assert lines == [
        "Alone 50.00 s, together 30.12 s (medians of 3 legs and 3): speedup 1.66, measured.",
        "Waves bound 5/ceil(5/2) = 1.67: 5 equal requests on 2 equal slots go in 3 waves.",
        f"{provable} s.",
        "Efficiency 100% of the waves bound.",
        "Fewer than 8 requests: an anecdote, not a statistic.",
    ]


def test_the_explanation_of_unequal_nodes_names_their_speeds() -> None:
    """Names given by the caller stand for node ids, and the reason stands after the efficiency."""
    together = leg(*in_turn(4, 4, 4).requests, worked(B, 0, 8), worked(C, 0, 16), makespan_s=20.0)
    result = compare([in_turn(4, 4, 4, 4, 4)], [together], {A: 1, B: 1, C: 1})
    lines = explain(result, {A: "desk", B: "attic"})
    assert "Speed of one slot, the node alone being 1: desk 1.00, attic 0.50, c 0.25." in lines
    assert lines.index("Efficiency 80% of the provable bound.") < lines.index(result.why or "")


def test_it_is_json() -> None:
    """A comparison survives JSON, field by field."""
    result = compare([ALONE], [waves([A, B], 30.2)], {A: 1, B: 1})
    assert msgspec.json.decode(msgspec.json.encode(result), type=Comparison) == result


@given(workloads(most_requests=8, partial=False), st.integers(), st.integers(1, 3))
@settings(deadline=None)
def test_efficiency_is_a_part_of_the_possible(
    workload: tuple[Services, dict[NodeId, int]], seed: int, legs: int
) -> None:
    """Whatever the schedules of the legs, efficiency is in (0, 1] and no speedup beats the provable bound."""
    services, slots = workload
    random = Random(seed)
    alone = [
        leg(*list_schedule([{A: row[A]} for row in services], {A: slots[A]}, random)) for _ in range(legs)
    ]
    together = [leg(*list_schedule(services, slots, random)) for _ in range(legs)]
    result = compare(alone, together, slots)
    assert 0.0 < result.efficiency <= 1.0
    assert result.speedup <= result.bound_provable * (1 + 1e-9)
    assert (result.why is None) == (result.efficiency_against == "waves")
    assert sum(count.share for count in result.per_node.values()) == pytest.approx(1.0)
