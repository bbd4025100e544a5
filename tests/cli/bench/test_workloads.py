from statistics import median

import pytest

from pairproxy.cli.bench.workloads import (
    BLOCK,
    COUNTS,
    LONGEST_OUTPUT,
    WORKLOADS,
    burst,
    chains,
    one_chain,
    prefixes,
)
from pairproxy.core.models import NodeId

A, B = NodeId("A"), NodeId("B")


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_for_the_same_seed(name: str) -> None:
    """Numbers come from the seed alone; what is asked stays within the engines' windows."""
    made = WORKLOADS[name](COUNTS[name], (A, B), 3)
    assert made == WORKLOADS[name](COUNTS[name], (A, B), 3)
    assert made.name == name
    for request in made.requests:
        assert 0 < request.prompt_tokens + request.output_tokens < 131072
        assert len(request.blocks) * BLOCK <= request.prompt_tokens


def test_a_longer_burst_begins_like_a_shorter_one() -> None:
    """So bursts of eight and of fifty can be compared."""
    assert burst(50, (A,), 1).requests[:8] == burst(8, (A,), 1).requests


def test_the_lengths_of_a_burst_are_those_of_chats() -> None:
    """A median of about 300 tokens, some ten times as long, none longer than the limit."""
    lengths = [request.output_tokens for request in burst(256, (A,), 1).requests]
    assert 230 < median(lengths) < 390
    assert 2000 < max(lengths) <= LONGEST_OUTPUT


def test_requests_arrive_in_turn_at_the_origins() -> None:
    """Four requests at two nodes: two each."""
    assert [request.origin for request in burst(4, (A, B), 1).requests] == [A, B, A, B]
    assert burst(4, (A, B), 1).origins == (A, B)


def test_a_step_of_a_chain_repeats_the_last_one_and_its_reply() -> None:
    """Its blocks begin with those of the step before, then those that the reply completed."""
    made = chains(6, (A, B), 1).requests
    followed = [(made[step.after], step) for step in made if step.after is not None]
    assert len(followed) > 15
    for before, step in followed:
        known = (*before.blocks, *before.reply_blocks)
        assert step.blocks[: len(known)] == known
        assert step.prompt_tokens >= before.prompt_tokens + before.output_tokens
        assert step.origin == before.origin


def test_chains_share_their_system_prompt_and_nothing_else() -> None:
    """The first 2,000 tokens are the same, what follows is each chain's own."""
    first, second = (step for step in chains(2, (A,), 1).requests if step.after is None)
    common = sum(one == other for one, other in zip(first.blocks, second.blocks, strict=False))
    assert common == 2000 // BLOCK


def test_one_chain_is_one() -> None:
    """Each step waits for the one before."""
    made = one_chain(1, (A, B), 1).requests
    assert [step.after for step in made] == [None, *range(len(made) - 1)]


def test_every_prefix_is_asked_for_more_than_once() -> None:
    """Sixteen requests over four prefixes, which differ from their first block on."""
    made = prefixes(16, (A,), 1).requests
    kinds = [request.blocks for request in made]
    assert sorted(map(kinds.count, set(kinds))) == [4] * 4
    assert len({blocks[0] for blocks in kinds}) == 4
