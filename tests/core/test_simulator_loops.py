"""Closed loops, caches and faults on the virtual clock; open loops are in test_simulator.py."""

from dataclasses import replace

import pytest

from pairproxy.core.models import NodeId, Outcome, Rates
from pairproxy.core.rules import Rules
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import Network, SimNode, SimRequest, Slowdown

A, B = NodeId("a"), NodeId("b")
RATES = Rates(prefill=100.0, decode=10.0, beta=0.0)


def chain(steps: int) -> list[SimRequest]:
    """Each step's prompt is the last one with its reply: 640 tokens more than before."""
    return [
        SimRequest(
            0.0, A, 640 * (index + 1), 64, after=index - 1 if index else None, think_s=2.0 if index else 0.0,
            blocks=tuple(range(10 * (index + 1))), reply_blocks=(10 * (index + 1),),
        )
        for index in range(steps)
    ]  # fmt: skip


def test_a_step_comes_when_its_tool_is_done() -> None:
    """Two seconds after the reply before it has ended."""
    result = simulate([SimNode.of("a", 2, RATES)], chain(3))
    for before, after in zip(result.records, result.records[1:], strict=False):
        assert after.arrived_at == pytest.approx(before.ended_at + 2.0)


def test_a_step_also_follows_one_that_ended_badly() -> None:
    """A client that gives up goes on all the same."""
    impatient, second = chain(2)
    result = simulate([SimNode.of("a", 1, RATES)], [replace(impatient, leaves_after_s=1.0), second])
    assert [record.outcome for record in result.records] == [Outcome.CANCELLED, Outcome.DONE]
    assert result.records[1].arrived_at == pytest.approx(3.0)


def test_an_agent_waits_for_all_of_its_sub_agents() -> None:
    """The step that needs their results comes after the last of them."""
    first = SimRequest(0.0, A, 100, 10)
    subs = [replace(first, after=0, output_tokens=10 * index) for index in (1, 5, 2)]
    result = simulate([SimNode.of("a", 4, RATES)], [first, *subs, replace(first, after=0, joins=(1, 2, 3))])
    assert result.records[4].arrived_at == pytest.approx(max(one.ended_at for one in result.records[:4]))


def test_a_chain_finds_what_it_left_in_the_cache() -> None:
    """The prompt before and its reply; the engine tells it, and the result counts it exactly."""
    cached = simulate([SimNode.of("a", 1, RATES, cache_tokens=10_000)], chain(3))
    assert cached.cached_tokens == (0, 704, 1344)
    assert [record.usage.cached_tokens for record in cached.records] == [0, 704, 1344]
    assert cached.hit_rate == pytest.approx((704 + 1344) / (640 + 1280 + 1920))
    without = simulate([SimNode.of("a", 1, RATES)], chain(3))
    assert (without.cached_tokens, without.hit_rate) == ((0, 0, 0), 0.0)
    assert without.makespan_s - cached.makespan_s == pytest.approx((704 + 1344) / 100)


def test_an_engine_may_keep_silent_about_its_cache() -> None:
    """Then only the result knows."""
    node = SimNode.of("a", 1, RATES, cache_tokens=10_000)
    silent = replace(node, engines=(replace(node.engines[0], tells_cached=False),))
    result = simulate([silent], chain(2))
    assert [record.usage.cached_tokens for record in result.records] == [None, None]
    assert result.cached_tokens == (0, 704)


def test_a_peer_has_a_cache_of_its_own() -> None:
    """What was read here is not cached there."""
    nodes = [SimNode.of("a", 1, RATES, cache_tokens=10_000), SimNode.of("b", 1, RATES, cache_tokens=10_000)]
    both = [SimRequest(0.0, A, 640, 64, blocks=tuple(range(10))) for _ in range(2)]
    result = simulate(nodes, both, Rules("least-busy"))
    assert result.per_node == {A: 1, B: 1}
    assert result.cached_tokens == (0, 0)


def test_a_first_byte_is_timed() -> None:
    """A streamed reply's when its prompt was read, the other's at its end."""
    streamed = SimRequest(0.0, A, 200, 30)
    result = simulate([SimNode.of("a", 1, RATES)], [streamed, replace(streamed, at=10.0, is_streaming=False)])
    assert result.ttfts_s == pytest.approx((2.0, 5.0))
    assert result.makespan_s == pytest.approx(15.0)


def test_a_slow_hour_slows_what_runs_in_it() -> None:
    """Half the pace from the second to the fourth second: one second is lost."""
    node = SimNode.of("a", 1, RATES, slowed=(Slowdown(2.0, 4.0, 0.5),))
    assert simulate([node], [SimRequest(0.0, A, 100, 50)]).makespan_s == pytest.approx(7.0)


def test_a_lossy_network_loses_time_and_no_request() -> None:
    """A peer that a request finds no way to is left alone for a while, and a lost document hides it."""
    nodes = [SimNode.of("a", 1, RATES), SimNode.of("b", 1, RATES)]
    burst = [SimRequest(0.0, A, 100, 10 + index) for index in range(20)]
    lossy = simulate(nodes, burst, seed=3, network=Network(lost=0.2, doubled=0.2))
    assert {record.outcome for record in lossy.records} == {Outcome.DONE}
    assert any(one.end == "Unreachable" for record in lossy.records for one in record.attempts)
    assert lossy.makespan_s > simulate(nodes, burst, seed=3).makespan_s


def test_a_request_must_stand_behind_the_one_it_follows() -> None:
    """So no loop can be made that never begins."""
    with pytest.raises(ValueError, match="must stand behind"):
        simulate([SimNode.of("a", 1, RATES)], [SimRequest(0.0, A, 1, 1, after=0)])
