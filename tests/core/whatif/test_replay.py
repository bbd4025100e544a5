from dataclasses import replace
from typing import Any

import pytest

from pairproxy.core.accounting.runs import group_runs
from pairproxy.core.models import ModelName, NodeId, Place, Rates
from pairproxy.core.policies import POLICIES
from pairproxy.core.simulator import simulate
from pairproxy.core.whatif.recording import RecordedRates, Recording, record
from pairproxy.core.whatif.replay import Changes, NewNode, replay
from pairproxy.core.workload import SimNode, SimRequest

A, B = NodeId("a"), NodeId("b")
FAST, SLOW = Rates(4000.0, 50.0, 0.15), Rates(2000.0, 25.0, 0.15)
NODES = [SimNode.of("a", 1, SLOW, cache_tokens=20_000), SimNode.of("b", 1, FAST, cache_tokens=20_000)]


def recording(requests: list[SimRequest], nodes: list[SimNode] = NODES) -> Recording:
    """What a daemon would have recorded of them."""
    (run,) = group_runs(simulate(nodes, requests).records, idle_gap_s=1e6)
    places: dict[Place, tuple[int, dict[ModelName, Rates]]] = {
        Place(node.node, engine.engine): (engine.slots, {**engine.rates})
        for node in nodes
        for engine in node.engines
    }
    kinds = dict.fromkeys(places, "paced")
    return record(run, A, "fastest-finish", places, kinds, dict.fromkeys(places, 20_000), {A: "anna"})


def burst(count: int = 12) -> list[SimRequest]:
    """Equal requests at once."""
    return [SimRequest(0.0, A, 500, 200, max_output_tokens=200, run="job") for _ in range(count)]


def chains() -> list[SimRequest]:
    """Two closed loops of four steps each."""
    requests: list[SimRequest] = []
    for chain in range(2):
        for step in range(4):
            blocks = tuple(range(1000 * chain, 1000 * chain + 20 * (step + 1)))
            after = len(requests) - 1 if step else None
            requests.append(
                SimRequest(0.0, A, 64 * len(blocks) + 1, 100, after=after, think_s=2.0 if step else 0.0,
                           blocks=blocks, run="job")
            )  # fmt: skip
    return requests


BURST, CHAINS = recording(burst()), recording(chains())


@pytest.mark.parametrize("told", [BURST, CHAINS], ids=["burst", "chains"])
def test_nothing_changed_is_the_run_as_recorded(told: Recording) -> None:
    """The simulation of what a simulation recorded is off by hardly anything, and says so."""
    found = replay(told, Changes())
    assert found.changed_s == found.as_recorded_s
    assert found.model_error < 0.05
    assert found.is_credible
    assert found.speedup == 1.0
    assert sum(found.per_node.values()) == found.requests == len(told.requests)


def test_a_node_more_makes_it_shorter() -> None:
    """A third node as fast as both others together; against the best alone it is told, too."""
    found = replay(BURST, Changes(added=(NewNode("box", 2, RecordedRates(6000.0, 75.0, 0.0)),)))
    assert found.speedup > 1.4
    assert found.per_node["box"] > found.per_node["a"]
    assert found.best_alone == "box"
    assert found.speedup_best is not None
    assert found.speedup_best >= 1.0


def test_a_node_less_makes_it_longer() -> None:
    """Without the faster one; the origin may go too, its requests still arrive there."""
    assert replay(BURST, Changes(removed=frozenset({"b"}))).speedup < 0.6
    found = replay(BURST, Changes(removed=frozenset({"a"})))
    assert found.speedup < 1.0
    assert found.per_node == {"b": 12}


def test_twice_as_fast_takes_half_as_long() -> None:
    """Both nodes, so that nothing else changes."""
    assert replay(BURST, Changes(faster={"a": 2.0, "b": 2.0})).speedup == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fastest-finish"])
def test_another_policy_is_the_production_code_of_that_policy(policy: str) -> None:
    """None ends this burst sooner than the default, and one that stays here uses nothing else."""
    found = replay(BURST, Changes(policy=policy))
    assert found.policy == policy
    assert found.speedup <= 1.0
    assert sum(found.per_node.values()) == 12
    assert (found.per_node["a"] == 12) == (policy == "local-only")


def test_chains_wait_for_their_steps_however_fast_the_nodes_are() -> None:
    """Three tools of two seconds each stay three tools of two seconds each."""
    found = replay(CHAINS, Changes(faster={"a": 1000.0, "b": 1000.0}))
    assert found.changed_s == pytest.approx(6.0, abs=0.2)


def test_a_recording_that_does_not_fit_its_speeds_is_not_believed() -> None:
    """The nodes are said to be half as fast as they were."""
    slow = tuple(
        replace(place, rates={
            model: RecordedRates(one.prefill_tokens_per_s / 2, one.decode_tokens_per_s / 2, one.beta)
            for model, one in place.rates.items()
        })
        for place in BURST.places
    )  # fmt: skip
    assert not replay(replace(BURST, places=slow), Changes()).is_credible


def test_whoever_waits_longer_than_a_daemon_would_let_him_counts_too() -> None:
    """The same work is compared: nothing is left out because its queue is long or slow."""
    found = replay(BURST, Changes(removed=frozenset({"b"}), faster={"a": 0.02}))
    assert found.per_node == {"a": 12}
    assert found.changed_s == pytest.approx(12 * (500 / 40.0 + 200 / 0.5), rel=0.05)


def test_a_node_may_come_back_under_its_name_with_other_speeds() -> None:
    """Removed and added: the name is free again."""
    changes = Changes((NewNode("anna", 1, RecordedRates(2000.0, 25.0, 0.15)),), frozenset({"a"}))
    assert replay(BURST, changes).speedup == pytest.approx(1.0, abs=0.05)


def damaged(**fields: Any) -> Recording:
    """The first request as no daemon would have written it."""
    return replace(BURST, requests=(replace(BURST.requests[0], **fields), *BURST.requests[1:]))


@pytest.mark.parametrize(
    ("told", "changes", "says"),
    [
        (replace(BURST, requests=()), Changes(), "nothing to replay"),
        (BURST, Changes(removed=frozenset({"zoe"})), "knows no node 'zoe'"),
        (BURST, Changes(faster={"zoe": 2.0}), "knows no node 'zoe'"),
        (BURST, Changes(faster={"a": 0.0}), "not 0 times: write NAME=2"),
        (BURST, Changes(added=(NewNode("box", 1, RecordedRates(0.0, 1.0, 0.0)),)), "rates above zero"),
        (BURST, Changes(added=(NewNode("anna", 1, RecordedRates(9.0, 9.0, 0.0)),)), "one name"),
        (BURST, Changes(added=(NewNode("box", 1, RecordedRates(9.0, 1e-3, 0.0)),)), "more than a day"),
        (
            BURST,
            Changes(removed=frozenset({"a"}), policy="local-only"),
            "12 of 12 requests would not be served",
        ),
        (BURST, Changes(added=(NewNode("a", 1, RecordedRates(1.0, 1.0, 0.0)),)), "one name"),
        (BURST, Changes(added=(NewNode("box", 0, RecordedRates(1.0, 1.0, 0.0)),)), "one slot or more"),
        (BURST, Changes(policy="best"), "There is no policy 'best'"),
        (BURST, Changes(removed=frozenset({"a", "b"})), "No node would be left that has m:latest"),
        (replace(BURST, places=()), Changes(), "not known any more"),
        (
            replace(BURST, requests=(replace(BURST.requests[0], after=3), *BURST.requests[1:])),
            Changes(),
            "The file is damaged",
        ),
        (damaged(shared_with=0), Changes(), "The file is damaged: request 0"),
        (damaged(arrived_s=1e300), Changes(), "The file is damaged"),
        (damaged(think_s=-1.0), Changes(), "The file is damaged"),
        (damaged(output_tokens=10**15), Changes(), "The file is damaged"),
        (damaged(blocks=2 * 10**9), Changes(), "prompts too long"),
    ],
)
def test_what_cannot_be_replayed_says_why(told: Recording, changes: Changes, says: str) -> None:
    """A sentence for a person."""
    with pytest.raises(ValueError, match=says):
        replay(told, changes)
