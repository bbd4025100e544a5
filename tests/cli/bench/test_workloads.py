import pytest

from pairproxy.cli.bench.model import modelled
from pairproxy.cli.bench.rig import Rig, names, unequal
from pairproxy.cli.bench.workloads import (
    COUNTS,
    PACES,
    WORKLOADS,
    burst,
    chains,
    one_chain,
    prefixes,
    published,
)
from pairproxy.core.models import BLOCK_TOKENS, NodeId

A, B = NodeId("A"), NodeId("B")


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_for_the_same_seed(name: str) -> None:
    """Numbers come from the seed alone; what is asked stays within the paced engine's window."""
    made = WORKLOADS[name](COUNTS[name], (A, B), 3)
    assert made == WORKLOADS[name](COUNTS[name], (A, B), 3)
    assert made.name == name
    for request in made.requests:
        assert 0 < request.prompt_tokens + request.output_tokens < 131072
        assert len(request.blocks) * BLOCK_TOKENS <= request.prompt_tokens


def test_requests_arrive_in_turn_at_the_origins() -> None:
    """Four requests at two nodes: two each."""
    assert [request.origin for request in burst(4, (A, B), 1).requests] == [A, B, A, B]
    assert burst(4, (A, B), 1).origins == (A, B)


def test_the_published_tasks_are_equal_and_at_one_machine() -> None:
    """Five of them, all at once."""
    requests = published(5, (A, B), 1).requests
    assert len(set(requests)) == 1
    assert len(requests) == 5


def test_agents_take_steps_and_share_their_beginning() -> None:
    """As many chains as asked for, with the same first blocks."""
    made = chains(3, (A, B), 1)
    first = [step for step in made.requests if not step.waits_for]
    assert len(first) == 3
    assert len({step.blocks[:100] for step in first}) == 1
    assert made.about == f"3 sub-agents, {len(made.requests)} steps"


def test_one_chain_is_one() -> None:
    """Each step waits for the one before."""
    made = one_chain(1, (A, B), 1).requests
    assert [step.after for step in made] == [None, *range(len(made) - 1)]


def test_prefixes_are_shared() -> None:
    """Sixteen requests begin in four ways at most, and each ends in its own."""
    made = prefixes(16, (A,), 1).requests
    assert 2 <= len({request.blocks[:40] for request in made}) <= 4
    assert len({request.blocks for request in made}) == 16


def test_chains_are_run_at_a_pace_at_which_they_can_move() -> None:
    """Five agents on unequal nodes are done sooner than on the best one alone, as they are in real life."""
    rig = Rig(unequal(), PACES["chains"])
    made = chains(COUNTS["chains"], names(rig.nodes)[:1], 0)
    ours = modelled(made, rig, "fastest-finish", 0)
    assert modelled(made, rig, "fastest-finish", 0, only="gpu").makespan_s > 1.2 * ours.makespan_s
    assert len(ours.per_node) > 1


def test_every_workload_has_its_count_and_its_pace() -> None:
    """A new one is not forgotten in either table."""
    assert COUNTS.keys() == PACES.keys() == WORKLOADS.keys()
