"""What is under way between simulated nodes, and what is lost or comes twice there."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random

from pairproxy.core.documents import StateDocument
from pairproxy.core.models import NodeId
from pairproxy.core.prefix_news import ToldTo
from pairproxy.core.simulated_node import SimulatedNode
from pairproxy.core.virtual_clock import Act, VirtualClock
from pairproxy.core.workload import Network

DOUBLED_WITHIN_S = 1.0  # a second copy of a document comes at most so much later
EPOCH = "1"  # simulated nodes do not start again

Hear = Callable[[SimulatedNode, StateDocument | NodeId, float], None]
"""A node hears a document of a peer, or that a peer is silent for too long, at a time."""


class SimulatedNetwork:
    """Carries messages after the network's delay, and spreads state documents."""

    def __init__(self, network: Network, clock: VirtualClock, random: Random, hear: Hear) -> None:
        self._network = network
        self._clock = clock
        self._random = random
        self._hear = hear
        self._told: dict[tuple[NodeId, NodeId], ToldTo] = {}

    def later(self, at: float, act: Act) -> None:
        """Let a message that leaves at ``at`` arrive."""
        self._clock.at(at + self._network.delay_s, act)

    def refuse(self, node: SimulatedNode, origin: SimulatedNode, fail: Act, at: float) -> None:
        """Carry a refusal to its origin, with the state of the node that refuses."""
        document = self.document(node, origin, at)
        self._clock.at(at + self._network.delay_s, partial(self._hear, origin, document))
        self.later(at, fail)

    def is_cut(self) -> bool:
        """Whether a request that leaves now finds no way."""
        return self._happens(self._network.lost)

    def begin_heartbeat(self, node: SimulatedNode, peers: Iterable[SimulatedNode], at: float) -> None:
        """Let a node publish its state regularly, from a random moment of its first second on."""
        first = at + self._random.uniform(0.0, self._network.heartbeat_s)
        self._clock.at(first, partial(self._beat, node, tuple(peers)), is_heartbeat=True)

    def will_publish(self, node: SimulatedNode, peers: Iterable[SimulatedNode], at: float) -> None:
        """Let a node publish its state soon, once for all that changes until then."""
        if not node.will_publish:
            node.will_publish = True
            soon = at + self._network.coalesce_s
            self._clock.at(soon, partial(self._publish, node, tuple(peers)), is_heartbeat=True)

    def press(self, node: SimulatedNode, peers: Mapping[NodeId, SimulatedNode], at: float) -> None:
        """Let those hear of a node's last event at once who wait for it."""
        for reader in node.scheduler.pressing:
            if reader in peers:
                publish = partial(self._publish_to, node, peers[reader])
                self._clock.at(at + self._network.pressing_s, publish, is_heartbeat=True)

    def fall_silent(self, node: SimulatedNode, peers: Iterable[SimulatedNode], at: float) -> None:
        """Let the others notice that nothing comes from a node any more."""
        for peer in peers:
            self._clock.at(at + self._network.lost_after_s, partial(self._hear, peer, node.id))

    def _beat(self, node: SimulatedNode, peers: tuple[SimulatedNode, ...], at: float) -> None:
        self._publish(node, peers, at)
        beat = partial(self._beat, node, peers)
        self._clock.at(at + self._network.heartbeat_s, beat, is_heartbeat=True)

    def _publish(self, node: SimulatedNode, peers: tuple[SimulatedNode, ...], at: float) -> None:
        node.will_publish = False
        for peer in peers:
            if peer is not node:
                self._publish_to(node, peer, at)

    def _publish_to(self, node: SimulatedNode, peer: SimulatedNode, at: float) -> None:
        if node.is_lost:
            return
        told = self._told.setdefault((node.id, peer.id), ToldTo())
        hear = partial(self._hear, peer, self.document(node, peer, at, told))
        arrives = at + self._network.delay_s
        if not self._happens(self._network.lost):
            self._clock.at(arrives, hear, is_heartbeat=True)
        if self._happens(self._network.doubled):
            again = arrives + self._random.uniform(0.0, DOUBLED_WITHIN_S)
            self._clock.at(again, hear, is_heartbeat=True)

    def document(
        self, node: SimulatedNode, reader: SimulatedNode, at: float, told: ToldTo | None = None
    ) -> StateDocument:
        """What a node says of itself now to a reader; of its prefixes too in a stream (what it ``told``)."""
        node.published += 1
        versions = None if told is None else told.versions(at)
        document = node.scheduler.document_for(reader.id, EPOCH, node.published, node.id, at, versions)
        if told is not None:
            told.took(document)
        return document

    def _happens(self, probability: float) -> bool:
        return probability > 0.0 and self._random.random() < probability
