from dataclasses import replace

import pytest

from pairproxy.core.experiments.measures import (
    alone,
    chains_bound_s,
    extra_share,
    hit_rate,
    ideal_hit_rate,
    lower_bound_s,
    mean_latency_s,
    new_tokens,
    refused_share,
    ttft_s,
)
from pairproxy.core.experiments.rigs import client
from pairproxy.core.models import NodeId, Rates
from pairproxy.core.rules import Rules
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode, SimRequest
from pairproxy.core.workloads.chains import Chain, Step, played

A, B = NodeId("a"), NodeId("b")
SLOW, FAST = Rates(500.0, 10.0, 0.0), Rates(2000.0, 40.0, 0.0)
NODES = [SimNode.of("a", 1, SLOW), SimNode.of("b", 1, FAST), client("c")]
TASKS = [SimRequest(0.0, A, 1000, 100) for _ in range(4)]  # 12 s on the slow node, 3 s on the fast one


def test_alone_is_the_best_node_asked_there() -> None:
    """Wherever the requests arrived, and whatever the node believes of itself."""
    best = alone(NODES, TASKS, Rules())
    assert best.makespan_s == pytest.approx(12.0)
    assert best.per_node == {B: 4}
    wrong = [NODES[0], replace(NODES[1], engines=(replace(NODES[1].engines[0], measured=3.0),))]
    assert alone(wrong, TASKS, Rules()).makespan_s == pytest.approx(12.0)
    with pytest.raises(ValueError, match="no node has an engine"):
        alone([client("c")], TASKS, Rules())


def test_a_node_alone_may_use_fewer_of_its_slots() -> None:
    """Where four at once get less done than one."""
    node = SimNode.of("a", 4, Rates(2000.0, 40.0, 3.0))
    few, all_slots = (alone([node], TASKS, Rules(), tries=tries) for tries in (3, 1))
    assert (few.most_in_flight, all_slots.most_in_flight) == ({(A, "gpu"): 1}, {(A, "gpu"): 4})
    assert few.makespan_s < all_slots.makespan_s


def test_nothing_is_faster_than_the_bound() -> None:
    """Four tasks of 12 or 3 s: three on the fast node are done in nine, and the slow one needs twelve."""
    assert lower_bound_s(NODES, TASKS) == pytest.approx(12.0)
    crowded = [SimNode.of("a", 4, Rates(500.0, 10.0, 1.0))]
    assert lower_bound_s(crowded, TASKS) == pytest.approx(400 / (4 * 10 / 4))


def test_a_prompt_is_new_where_nobody_had_it_before() -> None:
    """The reply before it included; a whole known prompt costs one token."""
    requests = played([Chain((Step(640, 64), Step(1000, 10)), 1, 320), Chain((Step(640, 1),), 1, 320)], [A])
    assert new_tokens(requests) == [640, 1000 - 704, 320]
    assert ideal_hit_rate(requests) == pytest.approx(1 - (640 + 296 + 320) / 2280)
    assert new_tokens([replace(requests[0]), requests[0]]) == [640, 1]


def test_a_chain_takes_its_steps_and_its_tools() -> None:
    """On the fastest node, each token read once."""
    requests = played([Chain((Step(640, 80), Step(1040, 40, 5.0)))], [A])
    assert chains_bound_s(NODES, requests) == pytest.approx(640 / 2000 + 2 + 5 + (1040 - 704) / 2000 + 1)
    result = simulate([replace(NODES[1], node=A)], requests)
    assert result.makespan_s >= chains_bound_s(NODES, requests)


def test_what_a_run_was_like() -> None:
    """Latency, time to the first byte, hits and refusals, of all or of what comes after the first."""
    result = simulate(
        [SimNode.of("a", 1, FAST, cache_tokens=64_000)], played([Chain((Step(640, 40),) * 2)], [A])
    )
    assert mean_latency_s(result) == pytest.approx((1.32 + 1.0005) / 2, rel=0.01)
    assert ttft_s(result, 0.5, skip=1) < ttft_s(result, 1.0)
    assert hit_rate(result, skip=1) > hit_rate(result) > 0.4
    assert refused_share(result) == extra_share(NODES, result) == 0.0


def test_what_is_given_up_is_counted_at_the_speed_of_its_node() -> None:
    """A node that is lost 5 s after it began had written 50 tokens of the 100 that were wanted."""
    nodes = [SimNode.of("a", 1, SLOW), SimNode.of("b", 1, SLOW, lost_at=0.0)]
    result = simulate(nodes, [replace(TASKS[0], origin=A)] * 2)
    lost = [one for record in result.records for one in record.attempts if not one.is_served]
    lasted_s = sum(one.ended_at - one.dispatched_at for one in lost)
    assert lost
    assert extra_share(nodes, result) == pytest.approx(lasted_s * SLOW.decode / 200)
