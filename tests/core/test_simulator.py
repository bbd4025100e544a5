"""Whole clusters on a virtual clock: what the scheduler makes of a workload, next to its bounds."""

import math
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pairproxy.core.accounting.bounds import provable_makespan, waves_bound
from pairproxy.core.models import NodeId, Outcome, Rates
from pairproxy.core.rules import Rules
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import ENGINE, MODEL, SimNode, SimRequest, SimResult

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
EQUAL = Rates(prefill=4000.0, decode=50.0, beta=0.15)
FAST, SLOW = EQUAL, Rates(prefill=1000.0, decode=12.5, beta=0.15)
PIECE_S = 400 / 4000 + 100 / 50  # of equal_requests() on an EQUAL node


def equal_requests(count: int, limit: int | None = 100) -> list[SimRequest]:
    """As an agent's fan-out: all at once, all alike."""
    return [SimRequest(0.0, A, 400, 100, limit) for _ in range(count)]


def seconds(node: SimNode, request: SimRequest) -> float:
    """A request alone on a node."""
    rates = node.engines[0].rates[MODEL]
    return request.prompt_tokens / rates.prefill + request.output_tokens / rates.decode


def lower_bound_s(nodes: list[SimNode], requests: list[SimRequest]) -> float:
    """No schedule ends sooner."""
    return provable_makespan(
        [{node.node: seconds(node, request) for node in nodes} for request in requests],
        {node.node: node.engines[0].slots for node in nodes},
        [request.at for request in requests],
    )


def alone(node: SimNode, requests: list[SimRequest]) -> SimResult:
    """The same requests on one node, asked there."""
    home = SimNode.of("a", node.engines[0].slots, node.engines[0].rates[MODEL])
    return simulate([home], requests)


@pytest.mark.parametrize("limit", [100, None])
def test_five_requests_on_three_equal_nodes_run_as_two_waves(limit: int | None) -> None:
    """Each node gets one, and the two that end first get the other two; known lengths or not."""
    result = simulate([SimNode.of(name, 1, EQUAL) for name in "abc"], equal_requests(5, limit))
    assert result.order == ((0, A), (1, B), (2, C), (3, A), (4, B))
    assert result.makespan_s == pytest.approx(2 * PIECE_S, rel=0.01)
    assert 5 * PIECE_S / result.makespan_s == pytest.approx(waves_bound(5, 3), rel=0.01)


def test_two_equal_nodes_reach_the_waves_bound() -> None:
    """Five equal requests on two nodes: 5/3 of the speed of one, within one in a hundred."""
    nodes = [SimNode.of(name, 1, EQUAL) for name in "ab"]
    result = simulate(nodes, equal_requests(5))
    assert alone(nodes[0], equal_requests(5)).makespan_s / result.makespan_s == pytest.approx(5 / 3, rel=0.01)
    assert result.per_node == {A: 3, B: 2}


@pytest.mark.parametrize("fast_is_home", [True, False])
def test_an_unequal_burst_is_never_slower_than_the_fast_node_alone(fast_is_home: bool) -> None:
    """At 4 : 1 the slow node gets what it ends before the fast one would have come to it, and no more."""
    home, peer = (FAST, SLOW) if fast_is_home else (SLOW, FAST)
    nodes = [SimNode.of("a", 1, home), SimNode.of("b", 1, peer)]
    result = simulate(nodes, equal_requests(8))
    alone_s = alone(SimNode.of("fast", 1, FAST), equal_requests(8)).makespan_s
    assert alone_s / result.makespan_s == pytest.approx(8 / 7, rel=0.02)
    unknown = simulate(nodes, equal_requests(8, limit=None))
    assert alone_s / unknown.makespan_s >= 0.98


@pytest.mark.parametrize("kind", ["long tail", "even"])
def test_unequal_bursts_of_unknown_lengths_are_never_slower_than_the_fast_node_alone(kind: str) -> None:
    """In fifty bursts of random sizes at 4 : 1, none is below 0.98 of the fast node alone."""
    nodes = [SimNode.of("a", 1, FAST), SimNode.of("b", 1, SLOW)]
    ratios = []
    for seed in range(50):
        random = Random(seed)
        tail = kind == "long tail"
        lengths = [
            random.lognormvariate(math.log(150), 1.0) if tail else random.uniform(50, 400) for _ in range(8)
        ]
        requests = [SimRequest(0.0, A, random.randint(100, 3000), max(8, round(one))) for one in lengths]
        ratios.append(alone(nodes[0], requests).makespan_s / simulate(nodes, requests).makespan_s)
    assert min(ratios) >= 0.98


@pytest.mark.parametrize(("count", "at_least"), [(8, 0.99), (16, 1.05), (32, 1.22)])
def test_three_unequal_nodes_gain_over_the_best_of_them(count: int, at_least: float) -> None:
    """At 130, 50 and 25 tokens/s, the mean of ten bursts of random sizes."""
    speeds = {"a": 25.0, "b": 50.0, "c": 130.0}
    nodes = [SimNode.of(name, 1, Rates(40 * speed, speed, 0.15)) for name, speed in speeds.items()]
    gains = []
    for seed in range(10):
        random = Random(seed)
        requests = [
            SimRequest(0.0, A, random.randint(100, 3000), random.randint(50, 400)) for _ in range(count)
        ]
        gains.append(alone(nodes[2], requests).makespan_s / simulate(nodes, requests).makespan_s)
    assert sum(gains) / len(gains) >= at_least
    assert min(gains) >= 0.98


def test_several_origins_share_the_slots_without_a_leader() -> None:
    """A slot that two origins wanted is given once; the other plans again, and hardly any time is lost."""
    nodes = [SimNode.of(name, 2, EQUAL) for name in "abcd"]
    random = Random(1)
    shared = [SimRequest(0.0, NodeId(random.choice("abcd")), 400, 100, 100) for _ in range(64)]
    result = simulate(nodes, shared)
    assert {record.outcome for record in result.records} == {Outcome.DONE}
    assert result.refused == len(result.order) - 64
    assert result.makespan_s <= 1.03 * simulate(nodes, [*equal_requests(64)]).makespan_s


def test_what_had_not_begun_on_a_lost_node_is_done_elsewhere() -> None:
    """The node falls silent with one request in the middle of its reply and one before its first byte."""
    nodes = [SimNode.of("a", 1, SLOW), SimNode.of("b", 2, Rates(100.0, 1000.0, 0.0), lost_at=5.0)]
    requests = [SimRequest(0.0, A, 100, 8000, 8000), SimRequest(0.0, A, 1000, 200, 200)]
    result = simulate(nodes, requests)
    assert [record.outcome for record in result.records] == [Outcome.TRUNCATED, Outcome.DONE]
    assert [(one.place.node, one.end) for one in result.records[1].attempts] == [(B, "NodeGone"), (A, "done")]
    assert result.records[1].attempts[0].ended_at == pytest.approx(10.0)


def test_a_client_that_leaves_holds_its_slot_until_the_engine_is_free() -> None:
    """The next request begins half a second later, when the engine has noticed."""
    requests = [SimRequest(0.0, A, 400, 1000, leaves_after_s=1.0), SimRequest(0.0, A, 400, 100)]
    result = simulate([SimNode.of("a", 1, EQUAL)], requests)
    assert [record.outcome for record in result.records] == [Outcome.CANCELLED, Outcome.DONE]
    assert result.records[1].queue_s == pytest.approx(1.5)


def test_a_cold_node_is_priced_with_its_load_time() -> None:
    """Loading for a minute is worse than waiting for the node that is warm."""
    cold = SimNode.of("b", 4, Rates(4000.0, 50.0, 0.15, load_s=60.0), is_loaded=False)
    nodes = [SimNode.of("a", 1, EQUAL), cold]
    assert simulate(nodes, equal_requests(8)).per_node == {A: 8}


def test_speeds_are_learned_from_what_was_served() -> None:
    """Without a measurement the first burst is shared as if all nodes were equal, a later one is not."""
    nodes = [SimNode.of("a", 1, SLOW), SimNode.of("b", 1, FAST)]
    later = [SimRequest(60.0, A, 400, 100, 100) for _ in range(3)]
    result = simulate(nodes, [*equal_requests(3), *later], knows_speeds=False)
    assert [node for index, node in result.order if index < 2] == [A, B]
    assert [node for index, node in result.order if index >= 3] == [B, B, B]


def test_a_simulation_repeats_itself() -> None:
    """The same input gives the same records; the seed moves only the heartbeats."""
    nodes = [SimNode.of("a", 2, EQUAL), SimNode.of("b", 1, FAST)]
    requests = [SimRequest(0.1 * index, A, 300, 40 + index) for index in range(20)]
    assert simulate(nodes, requests, seed=5) == simulate(nodes, requests, seed=5)


@pytest.mark.parametrize(
    ("nodes", "requests"),
    [
        ([SimNode.of("a", 1, EQUAL)], []),
        ([SimNode.of("a", 1, EQUAL)], [SimRequest(0.0, B, 1, 1)]),
        ([SimNode.of("a", 1, EQUAL, lost_at=1.0)], equal_requests(1)),
        ([SimNode.of(name, 1, EQUAL) for name in ("a", "twin", "twin")], equal_requests(1)),
    ],
)
def test_what_cannot_be_simulated_is_said(nodes: list[SimNode], requests: list[SimRequest]) -> None:
    """No requests, an origin that is not there or will be lost, names that clash."""
    with pytest.raises(ValueError, match="must"):
        simulate(nodes, requests)


@given(seed=st.integers(0, 2**32), policy=st.sampled_from(["fastest-finish", "least-busy"]))
@example(seed=1216, policy="fastest-finish")  # more work than the queue's usual patience
@settings(max_examples=60, deadline=None)
def test_random_workloads_keep_every_promise(seed: int, policy: str) -> None:
    """Every arrival ends once, no engine holds more than its slots, nothing beats the bound or starves."""
    random = Random(seed)
    names = "abcd"[: random.randint(1, 4)]
    nodes = [
        SimNode.of(
            name, random.randint(1, 4), Rates(random.choice([200.0, 4000.0]), random.uniform(5, 100), 0.15)
        )
        for name in names
    ]
    requests = [
        SimRequest(
            random.choice([0.0, random.uniform(0, 20)]), NodeId(random.choice(names)),
            random.randint(1, 2000), random.randint(0, 300), random.choice([None, 300]),
        )
        for _ in range(random.randint(1, 40))
    ]  # fmt: skip
    patient = Rules(policy, queue_timeout_s=1e5)  # some are more work than the usual ten minutes
    result = simulate(nodes, requests, patient, seed, knows_speeds=random.random() < 0.7)
    assert [record.outcome for record in result.records] == [Outcome.DONE] * len(requests)
    assert sum(result.per_node.values()) == len(requests)
    for place, most in result.most_in_flight.items():
        assert most <= next(node.engines[0].slots for node in nodes if node.node == place.node)
        assert place.engine == ENGINE
    assert result.makespan_s >= lower_bound_s(nodes, requests) - 1e-6
    work_s = sum(max(seconds(node, request) for node in nodes) for request in requests)
    crowd = 1 + 0.15 * 3 + 3  # the slowest that four on one engine make each other, reading and writing
    assert max(record.queue_s for record in result.records) <= crowd * work_s + 1.0


@pytest.mark.parametrize("policy", ["fastest-finish", "least-busy"])
def test_a_request_is_refused_only_when_its_patience_is_over(policy: str) -> None:
    """With 1120 s of work on one slot, what ran in the first 600 s is done, and only the rest is refused."""
    slow = Rates(prefill=1000.0, decode=10.0, beta=0.15)
    requests = [SimRequest(0.0, A, 1000, 270) for _ in range(40)]
    result = simulate([SimNode.of("a", 1, slow)], requests, Rules(policy))
    refused = [record for record in result.records if record.outcome is Outcome.REFUSED]
    assert [record.queue_s for record in refused] == pytest.approx([600.0] * 18)
    assert result.per_node == {A: 22}
    assert result.makespan_s == pytest.approx(22 * 28.0, rel=0.01)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_odd_workloads_end_too(seed: int) -> None:
    """With clients that leave and nodes that fall silent, every arrival still ends once."""
    random = Random(seed)
    nodes = [
        SimNode.of("a", 1, SLOW, is_loaded=random.random() < 0.5),
        SimNode.of("b", random.randint(1, 3), FAST, lost_at=random.choice([None, random.uniform(0.0, 30.0)])),
        SimNode.of("c", 2, EQUAL, lost_at=random.choice([None, random.uniform(0.0, 30.0)])),
    ]
    requests = [
        SimRequest(
            random.uniform(0.0, 30.0), A, random.randint(1, 2000), random.randint(1, 300),
            leaves_after_s=random.choice([None, None, random.uniform(0.0, 20.0)]),
        )
        for _ in range(20)
    ]  # fmt: skip
    result = simulate(nodes, requests, seed=seed)
    ended = {record.outcome for record in result.records}
    assert len(result.records) == len(requests)
    assert ended <= {Outcome.DONE, Outcome.CANCELLED, Outcome.TRUNCATED}
    if nodes[1].lost_at is nodes[2].lost_at is None:
        assert Outcome.TRUNCATED not in ended


def test_an_engine_that_is_taken_for_stuck_is_hung_up_on() -> None:
    """Eight prompts that are read at once for more than a minute: what is given up leaves its slot."""
    nodes = [SimNode.of(name, 8, Rates(300.0, 80.0, 0.1)) for name in "ab"]
    requests = [SimRequest(0.0, NodeId("a"), 4000, 30) for _ in range(16)]
    result = simulate(nodes, requests, Rules(queue_timeout_s=1e6))
    assert any(len(record.attempts) > 1 for record in result.records)
    assert all(record.outcome is Outcome.DONE for record in result.records)
    assert max(result.most_in_flight.values()) <= 8
