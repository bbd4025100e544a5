"""The paired peers and what is known of where they are; hints become addresses only of paired ones."""

import ssl
from collections.abc import Callable
from itertools import islice

from pairproxy.config import Limits
from pairproxy.core.errors import Unreachable
from pairproxy.core.models import NodeId
from pairproxy.interfaces import Tell
from pairproxy.peers.announcement import HINT_CHARACTERS
from pairproxy.peers.link import Address, PeerAddresses, PeerLink
from pairproxy.security.trust import PeerRecord
from pairproxy.upstreams import Upstream

MAX_UNPAIRED = 64  # announcements of strangers that status can show

TlsFor = Callable[[bytes], ssl.SSLContext]
"""A client context that believes one certificate (DER)."""


class PeerBook:
    """One link per paired peer."""

    def __init__(self, tell: Tell, now: Callable[[], float], tls_for: TlsFor, limits: Limits) -> None:
        self._tell = tell
        self._now = now
        self._tls_for = tls_for
        self._limits = limits
        self._links: dict[NodeId, PeerLink] = {}
        self._unpaired: dict[str, str] = {}

    @property
    def links(self) -> tuple[PeerLink, ...]:
        """Every paired peer."""
        return tuple(self._links.values())

    @property
    def unpaired(self) -> dict[str, str]:
        """Nodes that were announced and are not paired: short id -> address."""
        return dict(self._unpaired)

    def add(self, record: PeerRecord) -> PeerLink:
        """Take a peer in; the caller runs its link."""
        addresses = PeerAddresses()
        for text in record.addresses:
            host, _, port = text.rpartition(":")
            addresses.add(Address(host.strip("[]"), int(port), "remembered"))
        upstream = Upstream(
            addresses,
            limits=self._limits,
            tls=self._tls_for(record.certificate),
            pin=record.certificate,
        )
        link = PeerLink(record.node, record.name, addresses, upstream, self._tell, self._now, self._limits)
        self._links[record.node] = link
        return link

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

    def is_paired(self, short: str) -> bool:
        """Whether an announced node is a peer's, if it is who it says."""
        return any(node[:HINT_CHARACTERS] == short for node in self._links)

    def hint(self, short: str, host: str, port: int, source: str) -> None:
        """Somebody announced a node at an address. Whether it is that node, its certificate will tell."""
        for node, link in self._links.items():
            if node[:HINT_CHARACTERS] == short:
                link.addresses.add(Address(host, port, source))
                return
        self._unpaired[short] = f"{host}:{port}"
        for oldest in list(islice(self._unpaired, max(0, len(self._unpaired) - MAX_UNPAIRED))):
            del self._unpaired[oldest]

    def add_everywhere(self, host: str, port: int) -> None:
        """An address from the settings: it may be any peer's."""
        for link in self._links.values():
            link.addresses.add(Address(host, port, "static"))
