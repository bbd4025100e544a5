"""This node among its peers: whom it believes, where they are, what is asked both ways.

What follows from the trust store is here: one link a peer, the peer port and its context, discovery.
"""

import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from pairproxy.api.schema import TrustChanged
from pairproxy.config import Settings, parse_listen
from pairproxy.core.models import EngineId, NodeId
from pairproxy.core.residency import Residency
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher
from pairproxy.peers.book import PeerBook
from pairproxy.peers.discovery import Discovery
from pairproxy.peers.exchange import Publisher
from pairproxy.peers.restarting import restarting
from pairproxy.proxy.catalogue import Catalogue
from pairproxy.proxy.forward import Route
from pairproxy.proxy.listening import Keep, bind
from pairproxy.proxy.peer_port import PeerPort
from pairproxy.proxy.server import Port
from pairproxy.security import tls
from pairproxy.security.identity import Identity
from pairproxy.security.trust import TrustStore

_log = logging.getLogger(__name__)

Spawn = Callable[[str, Coroutine[Any, Any, Any]], object]


class Peering:
    """The peers of one daemon."""

    def __init__(
        self,
        identity: Identity,
        trust: TrustStore,
        settings: Settings,
        scheduler: Scheduler,
        dispatcher: Dispatcher,
        name: str,
    ) -> None:
        """Raises ConfigError for a static address that is none."""
        self._identity = identity
        self._trust = trust
        self._settings = settings
        self._dispatcher = dispatcher
        self._discovery: Discovery | None = None
        self._publisher = Publisher(scheduler, name, dispatcher.now, settings.peers.state_interval_s)
        dispatcher.listen(self._publisher.heard)
        self.book = PeerBook(
            dispatcher.tell,
            dispatcher.now,
            lambda certificate: tls.client_context(identity, certificate),
            settings.limits,
        )
        for record in trust.peers():
            if record.i_may_use:
                self.book.add(record)
        for text in settings.peers.static:
            self.book.add_everywhere(*parse_listen(text, "peers.static"))

    def follow_settings(self, settings: Settings, name: str) -> None:
        """Go by other settings from now on. Raises ConfigError, before anything changes."""
        static = [parse_listen(text, "peers.static") for text in settings.peers.static]
        self._settings = settings
        self._publisher.name = name
        for address in static:
            self.book.add_everywhere(*address)

    @property
    def discovery_problem(self) -> str | None:
        """Why mDNS does not work at present; None while it does, or is not wanted."""
        return self._discovery.last_error if self._discovery else None

    def port(
        self,
        route: Route,
        authority_of: Callable[[EngineId], str],
        residency: Residency,
        catalogue: Catalogue,
    ) -> tuple[Port, ssl.SSLContext]:
        """The peer port, not yet started, and the context for it."""
        port = PeerPort(
            self._dispatcher,
            route,
            self._settings.limits,
            self._peer_of,
            self._publisher.stream,
            authority_of,
            residency,
            catalogue,
            self._publisher.refusal,
        )
        trusted = [record.certificate for record in self._trust.peers()]
        return port, tls.server_context(self._identity, trusted)

    def start(self, spawn: Spawn, peer_port: int | None) -> None:
        """Follow every peer, and look for them."""
        for link in self.book.links:
            spawn(name := f"peer {link.name}", restarting(name, link.run))
        if self._settings.peers.discovery and peer_port is not None:
            self._discovery = Discovery(
                self._identity.device_id,
                peer_port,
                self.book.hint,
                allow_loopback=self._settings.peers.loopback,
                is_paired=self.book.is_paired,
            )
            spawn("discovery", restarting("discovery", self._discovery.run))

    async def follow_trust(self, _: bytes = b"") -> TrustChanged:
        """Read the peers' files anew and act on what changed (POST /trust). Raises StoreError."""
        news = self._trust.reload()
        return TrustChanged(self._identity.device_id, news.added, news.changed, news.gone)

    def _peer_of(self, certificate: bytes) -> NodeId | None:
        record = self._trust.by_certificate(certificate)
        return record.node if record is not None and record.may_use_me else None


def bind_peer_port(settings: Settings, trust: TrustStore, keep: Keep) -> list[socket.socket]:
    """The socket of the peer port. It stays closed until somebody is paired."""
    where = parse_listen(settings.peers.listen, "peers.listen")
    if not trust.peers():
        return []
    return keep(bind(*where, "Set peers.listen to another port in config.toml."))[:1]
