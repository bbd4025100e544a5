from random import Random
from statistics import median

import pytest

from pairproxy.core.models import NodeId, Outcome, Rates
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode
from pairproxy.core.workloads.chains import (
    Chain,
    Step,
    chat,
    ends_of,
    fan_out,
    played,
    shared_prefixes,
    sub_agent,
    zipf,
)

A, B = NodeId("a"), NodeId("b")
NODE = SimNode.of("a", 4, Rates(prefill=5000.0, decode=100.0, beta=0.05), cache_tokens=10_000_000)


def test_each_prompt_goes_on_where_the_last_reply_ended() -> None:
    """Its blocks begin with those of the prompt before and of the reply to it."""
    first, second = played([Chain((Step(640, 64), Step(1000, 10, 2.0)))], [A])
    assert second.blocks[:11] == (*first.blocks, *first.reply_blocks)
    assert (len(first.blocks), len(second.blocks)) == (10, 15)
    assert (first.after, second.after, second.think_s) == (None, 0, 2.0)


def test_a_prompt_that_was_edited_keeps_its_start() -> None:
    """Only that part of it is known."""
    first, second = played([Chain((Step(640, 64), Step(640, 10, 0.0, shared_tokens=320)))], [A])
    assert second.blocks[:5] == first.blocks[:5]
    assert not set(second.blocks[5:]) & {*first.blocks, *first.reply_blocks}


def test_chains_of_one_start_have_it_in_common() -> None:
    """And nothing else; each comes from an origin in turn."""
    chains = [Chain((Step(640, 1), Step(700, 1)), 3, 320) for _ in range(2)]
    requests = played(chains, [A, B])
    assert requests[0].blocks[:5] == requests[2].blocks[:5]
    assert not set(requests[0].blocks[5:]) & set(requests[2].blocks[5:])
    assert [one.origin for one in requests] == [A, A, B, B]
    assert ends_of(chains) == [1, 3]


def test_generated_sub_agents_are_like_the_recorded_ones() -> None:
    """Eleven steps in the middle, prompts that grow from ten thousand tokens to tens of thousands."""
    chains = [sub_agent(Random(seed)) for seed in range(200)]
    assert 10 <= median(len(chain.steps) for chain in chains) <= 13
    assert 9_000 <= median(chain.steps[0].prompt_tokens for chain in chains) <= 11_500
    assert 35_000 <= median(chain.steps[-1].prompt_tokens for chain in chains) <= 75_000
    assert 4_000 <= median(sum(step.output_tokens for step in chain.steps) for chain in chains) <= 7_000


def test_a_chain_alone_hits_the_cache_with_all_but_what_is_new() -> None:
    """One node with room enough finds each prompt's past."""
    chain = sub_agent(Random(3))
    result = simulate([NODE], played([chain], [A]))
    assert [record.outcome for record in result.records] == [Outcome.DONE] * len(chain.steps)
    for before, cached in zip(chain.steps, result.cached_tokens[1:], strict=False):
        assert before.prompt_tokens - 64 <= cached <= before.prompt_tokens + before.output_tokens


def test_a_chat_is_short() -> None:
    """A few turns of a few hundred tokens."""
    chains = [chat(Random(seed), 5.0) for seed in range(50)]
    assert {len(chain.steps) for chain in chains} == {3, 4, 5, 6, 7}
    assert max(chain.steps[-1].prompt_tokens for chain in chains) < 4500
    assert {one.at for one in played(chains, [A])} == {5.0}


def test_a_fan_out_is_summed_up_after_its_last_sub_agent() -> None:
    """The main agent goes on from its own text, which is cached."""
    requests = fan_out(Random(1), A, 3)
    result = simulate([NODE], requests)
    summary, before = result.records[-1], result.records[:-1]
    assert summary.arrived_at == pytest.approx(max(one.ended_at for one in before))
    assert result.cached_tokens[-1] >= requests[1].prompt_tokens
    assert {one.after for one in requests[2:] if len(one.blocks) < 200} >= {1}


def test_popular_prefixes_are_asked_for_more_often() -> None:
    """As their weights say; all requests of one prefix share it and no more."""
    requests = shared_prefixes(Random(1), 3000, [A], weights=zipf(4), prefix_tokens=6400)
    starts = [one.blocks[:100] for one in requests]
    counts = sorted((starts.count(start) for start in set(starts)), reverse=True)
    assert counts == pytest.approx([1440, 720, 480, 360], rel=0.15)
    assert len({one.blocks[-1] for one in requests}) == 3000
