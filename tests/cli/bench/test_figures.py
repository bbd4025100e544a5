from dataclasses import replace

import pytest

from pairproxy.cli.bench.asking import Reply
from pairproxy.cli.bench.figures import bounds, figures, lower_bound, shares
from pairproxy.cli.bench.legs import Leg
from pairproxy.cli.bench.rig import NodeSpec, Rig, names, published
from pairproxy.cli.bench.rounds import Result
from pairproxy.cli.bench.workloads import WORKLOADS, Workload
from pairproxy.cli.bench.workloads import published as tasks
from pairproxy.core.models import BLOCK_TOKENS, NodeId
from pairproxy.core.workload import SimRequest

A = NodeId("A")


def leg(*ends: float) -> Leg:
    """Replies that began at once and ended then."""
    return Leg(tuple(Reply(0.0, 0.1, end, "A", 1, 10, 0, 10, "") for end in ends))


def test_the_bound_of_the_published_table_is_its_optimum() -> None:
    """Five tasks on laptop, Spark and 5090: three on the 5090, 3:47, one on each of the others, 3:36."""
    rig = Rig(published())
    assert lower_bound(tasks(5, names(rig.nodes)[:1], 0), rig) == pytest.approx(3 * 75.6, rel=0.001)


def test_a_shared_prefix_is_read_once_in_the_bound() -> None:
    """Of two prompts with the same 640 tokens at the start, only the first needs time for them."""
    rig = Rig((NodeSpec("only", 1, 100.0, 10.0),))
    request = SimRequest(0.0, A, 10 * BLOCK_TOKENS + 10, 10, blocks=tuple(range(10)))
    assert lower_bound(Workload("", "", (request, request)), rig) == pytest.approx(6.4 + 2 * (0.1 + 1.0))


def test_a_chain_is_bounded_by_its_steps_and_pauses() -> None:
    """However many nodes there are, the second step comes after the first and the tool."""
    rig = Rig((NodeSpec("a", 4, 100.0, 10.0), NodeSpec("b", 4, 100.0, 20.0)))
    first = SimRequest(0.0, A, 50, 20)
    made = Workload("", "", (first, replace(first, after=0, think_s=5.0)))
    assert lower_bound(made, rig) == pytest.approx(2 * (0.5 + 1.0) + 5.0)


def test_slots_that_share_an_engine_do_not_multiply_it() -> None:
    """Four slots with contention write less than four times the tokens of one, and the bound knows it."""
    node = NodeSpec("only", 4, 1e9, 10.0, beta=0.5)
    made = Workload("", "", (SimRequest(0.0, A, 1, 100),) * 8)
    assert lower_bound(made, Rig((node,))) == pytest.approx(800 / 16.0)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.slow
@pytest.mark.slow
def test_nothing_that_was_run_beats_the_bound(name: str, result: Result) -> None:
    """The measured legs end after it; and every workload has one above zero."""
    rig = result.plan.rig
    assert lower_bound(WORKLOADS[name](6, names(rig.nodes)[:1], 1), rig) > 0
    for one in result.figures:
        assert min(one.makespans_s) >= result.bounds.lower_s


def test_a_policy_is_judged_by_its_median_and_its_worst() -> None:
    """Speedup is against the best node alone, efficiency against the bound, spread over the rounds."""
    rig = Rig((NodeSpec("A", 1, 1e9, 10.0), NodeSpec("B", 1, 1e9, 10.0)))
    made = Workload("", "", (SimRequest(0.0, A, 1, 100),) * 2)
    limits = bounds(made, rig, [leg(10.0, 20.0)])
    assert (limits.alone_s, limits.waves, limits.capacity) == (20.0, 2.0, 2.0)
    found = figures("p", [leg(10.0), leg(12.0), leg(16.0)], limits, None)
    assert (found.makespan_s, found.speedup, found.worst_speedup) == (12.0, 20.0 / 12.0, 1.25)
    assert found.spread == 0.5
    assert found.efficiency == pytest.approx(limits.lower_s / 12.0)


def test_shares_name_who_did_most_first() -> None:
    """One line for a person."""
    assert shares({"laptop": 3, "gpu": 9}) == "gpu 9, laptop 3"
