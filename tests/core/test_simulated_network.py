from random import Random

import pytest

from pairproxy.core.documents import StateDocument
from pairproxy.core.models import NodeId, Rates
from pairproxy.core.rules import Rules
from pairproxy.core.simulated_network import SimulatedNetwork
from pairproxy.core.simulated_node import SimulatedNode
from pairproxy.core.virtual_clock import VirtualClock
from pairproxy.core.workload import Network, SimNode

RATES = Rates(prefill=100.0, decode=10.0, beta=0.0)


class World:
    """Three nodes on a network, and what they hear."""

    def __init__(self, network: Network) -> None:
        self.clock = VirtualClock()
        self.heard: list[tuple[float, NodeId, StateDocument | NodeId]] = []
        self.nodes = [
            SimulatedNode(SimNode.of(name, 1, RATES), Rules(), self.clock, lambda *_: None) for name in "abc"
        ]
        self.wire = SimulatedNetwork(network, self.clock, Random(7), self.hear)

    def hear(self, node: SimulatedNode, news: StateDocument | NodeId, at: float) -> None:
        """Note it."""
        self.heard.append((at, node.id, news))

    def run(self, until: float) -> list[tuple[float, NodeId]]:
        """Let time pass; returns who heard a document, and when."""
        self.clock.at(until, lambda _: None)
        while not self.clock.is_idle:
            self.clock.step()
        return [(at, node) for at, node, news in self.heard if isinstance(news, StateDocument)]


def test_a_node_that_changed_is_published_once_for_all() -> None:
    """To every other node, after the time in which changes are gathered and the way there."""
    world = World(Network())
    for at in (1.0, 1.01):
        world.wire.will_publish(world.nodes[0], world.nodes, at)
    heard = world.run(2.0)
    assert [node for _, node in heard] == ["b", "c"]
    assert [at for at, _ in heard] == pytest.approx([1.051, 1.051])


def test_a_heartbeat_goes_on() -> None:
    """About once a second to each peer."""
    world = World(Network())
    world.wire.begin_heartbeat(world.nodes[0], world.nodes, 0.0)
    assert len(world.run(10.5)) in (20, 22)


def test_documents_are_lost_and_doubled_as_asked() -> None:
    """All of them, each twice, or some."""
    counts = []
    for lost, doubled in ((1.0, 0.0), (0.0, 1.0), (0.5, 0.0)):
        world = World(Network(lost=lost, doubled=doubled))
        world.wire.begin_heartbeat(world.nodes[0], world.nodes, 0.0)
        counts.append(len(world.run(101.5)))
    assert counts[0] == 0
    assert 390 <= counts[1] <= 406
    assert 60 <= counts[2] <= 140
    assert World(Network(lost=1.0)).wire.is_cut()
    assert not World(Network()).wire.is_cut()


def test_silence_is_noticed_by_all() -> None:
    """After the patience that nodes have with each other."""
    world = World(Network(lost_after_s=5.0))
    world.wire.fall_silent(world.nodes[1], world.nodes, 3.0)
    assert world.run(20.0) == []
    assert [(at, node, news) for at, node, news in world.heard] == [(8.0, one, "b") for one in "abc"]
