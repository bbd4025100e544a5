"""The paired peers and what is known of where they are; hints become addresses only of paired ones."""

import ssl
from collections.abc import Callable, Iterable

from pairproxy.config import Limits
from pairproxy.core.documents import PROTOCOL
from pairproxy.core.errors import Unreachable
from pairproxy.core.models import NodeId
from pairproxy.interfaces import Tell
from pairproxy.peers import own_addresses
from pairproxy.peers.addresses import (
    INBOUND,
    MAX_STATIC,
    PAIRING,
    Address,
    PeerAddresses,
    parse_address,
)
from pairproxy.peers.announcement import FORGET_S, HINT_CHARACTERS
from pairproxy.peers.exchange import needs_update
from pairproxy.peers.link import PeerLink
from pairproxy.peers.remembered import AddressMemory
from pairproxy.security.peer_record import PeerRecord
from pairproxy.upstreams import Upstream

MAX_UNPAIRED = 64  # announcements of strangers that status can show

TlsFor = Callable[[bytes], ssl.SSLContext]
"""A client context that believes one certificate (DER)."""


class PeerBook:
    """One link per paired peer."""

    def __init__(
        self,
        tell: Tell,
        now: Callable[[], float],
        tls_for: TlsFor,
        limits: Limits,
        memory: AddressMemory | None = None,
        is_peer: Callable[[str], bool] = lambda short: False,
    ) -> None:
        """``memory`` keeps where peers proved their keys; without one nothing outlives the daemon.

        ``is_peer`` knows those peers too that may use this node and are not used by it: they have no link.
        """
        self._tell = tell
        self._now = now
        self._tls_for = tls_for
        self._limits = limits
        self._memory = memory
        self._is_peer = is_peer
        self._links: dict[NodeId, PeerLink] = {}
        self._unpaired: dict[str, tuple[float, str]] = {}
        self._static: list[Address] = []
        self._here: frozenset[own_addresses.OwnAddress] | None = None
        self._networks: tuple[own_addresses.Network, ...] = ()
        self.is_heard_by: Callable[[NodeId], bool] = lambda _: False
        """Whether a peer listens to this node now; whoever publishes sets it."""

    @property
    def links(self) -> tuple[PeerLink, ...]:
        """Every paired peer."""
        return tuple(self._links.values())

    def link(self, node: NodeId) -> PeerLink | None:
        """That of a paired peer; None where this node does not use it."""
        return self._links.get(node)

    @property
    def unpaired(self) -> dict[str, str]:
        """Nodes that were announced lately and are not paired: short id -> address, or what is wrong."""
        oldest = self._now() - FORGET_S
        return {
            short: where
            for short, (at, where) in self._unpaired.items()
            if at >= oldest and not self.is_paired(short)
        }

    def add(self, record: PeerRecord) -> PeerLink:
        """Take a peer in; the caller runs its link."""
        node = record.node
        addresses = PeerAddresses(lambda host: own_addresses.shares_network(self._networks, host))
        if self._memory is not None:
            addresses.remember(self._memory.of(node))
        _hint(addresses, record)
        for static in self._static:
            addresses.add(static)
        upstream = Upstream(
            addresses,
            limits=self._limits,
            tls=self._tls_for(record.certificate),
            pin=record.certificate,
            failed=lambda: self._doubt(node),
        )
        link = PeerLink(
            node,
            record.name,
            addresses,
            upstream,
            self._tell,
            self._now,
            self._limits,
            lambda: self._proved(node),
        )
        self._links[node] = link
        return link

    def renew(self, record: PeerRecord) -> bool:
        """Go by a peer's new record; False if it has no link."""
        link = self._links.get(record.node)
        if link is None:
            return False
        link.name = record.name
        _hint(link.addresses, record)
        link.doubt()  # it may have been paired anew, and is asked rarely as long as it refuses us
        return True

    def remove(self, node: NodeId) -> PeerLink | None:
        """The node is no peer any more; the caller ends its link and closes its upstream."""
        if self._memory is not None:
            self._memory.forget(node)
        return self._links.pop(node, None)

    def upstream(self, node: NodeId) -> Upstream:
        """How a peer is reached. Raises Unreachable for a node that is not paired."""
        link = self._links.get(node)
        if link is None:
            raise Unreachable("This node is not paired.")
        return link.upstream

    def hear_refusal(self, node: NodeId, body: bytes) -> None:
        """Take in what a peer said with a refusal."""
        link = self._links.get(node)
        if link is not None:
            link.hear_refusal(body)

    # --- what announcements say --------------------------------------------------------------------------

    def is_paired(self, short: str) -> bool:
        """Whether an announced node is a peer's, if it is who it says."""
        return self._called(short) is not None or self._is_peer(short)

    def hint(self, short: str, host: str, port: int, source: str) -> None:
        """Somebody announced a node at an address. Whether it is that node, its certificate will tell."""
        address = Address(host, port, source)
        link = self._called(short)
        if link is not None:
            link.addresses.add(address)
        else:
            self._saw(short, str(address))

    def outdated(self, short: str, protocol: str) -> None:
        """Somebody announced a node of another protocol: it is shown, and not used."""
        link = self._called(short)
        number = int(protocol) if protocol.isdecimal() and len(protocol) < 10 else 0
        if link is None:
            self._saw(short, "needs update" if number < PROTOCOL else "newer: this machine needs update")
        elif not link.is_up:
            link.problem = needs_update(number)

    def goodbye(self, short: str) -> None:
        """Somebody, perhaps the node itself, said that it is gone: a reason to look, and no more."""
        link = self._called(short)
        if link is None:
            self._unpaired.pop(short, None)
        elif link.is_up:
            link.doubt()

    # --- what is known better ----------------------------------------------------------------------------

    def came_from(self, node: NodeId, host: str) -> None:
        """A peer that proved its key called from there; its own port it does not tell by that."""
        link = self._links.get(node)
        if link is not None:
            for port in reversed(link.addresses.ports()[:2]):
                link.addresses.add(Address(host, port, INBOUND))
            link.retry()

    def use_static(self, addresses: Iterable[Address]) -> None:
        """The addresses of the settings, in place of the former ones: each may be any peer's."""
        self._static = list(dict.fromkeys(addresses))[:MAX_STATIC]
        for link in self._links.values():
            link.addresses.forget_static()
            for address in self._static:
                link.addresses.add(address)

    def network_changed(self, here: frozenset[own_addresses.OwnAddress]) -> None:
        """This machine has these addresses now, or woke up: every path is tried again at once."""
        was, self._here = self._here, here
        self._networks = own_addresses.networks(here)
        if was is None:
            return  # the start is no change
        gone = {one.address for one in was} - {one.address for one in here}
        for link in self._links.values():
            link.upstream.drop(lambda connection: connection.local_host in gone)
            link.wake()

    # --- inside -----------------------------------------------------------------------------------------

    def _called(self, short: str) -> PeerLink | None:
        return next((link for node, link in self._links.items() if node[:HINT_CHARACTERS] == short), None)

    def _saw(self, short: str, where: str) -> None:
        self._unpaired.pop(short, None)
        self._unpaired[short] = self._now(), where
        if len(self._unpaired) > MAX_UNPAIRED:
            del self._unpaired[next(iter(self._unpaired))]

    def _doubt(self, node: NodeId) -> None:
        link = self._links.get(node)
        if link is not None and link.is_up:
            link.doubt()

    def _proved(self, node: NodeId) -> None:
        link = self._links.get(node)
        if link is not None and self._memory is not None:
            self._memory.keep(node, link.addresses.proved)


def _hint(addresses: PeerAddresses, record: PeerRecord) -> None:
    """Take in where a peer was when it was paired, so that the newest is tried first."""
    for text in reversed(record.addresses):
        hint = parse_address(text, PAIRING)
        if hint is not None:
            addresses.add(hint)
