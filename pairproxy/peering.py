"""This node among its peers: whom it believes, where they are, what is asked both ways.

What follows from the trust store is here: one link a peer, the peer port and its context, discovery.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairproxy.api.schema import TrustChanged
from pairproxy.clock import today
from pairproxy.config import Settings, parse_listen
from pairproxy.core.errors import PeerNotTrusted, PeerRevoked, SetupError, UseNotAllowed
from pairproxy.core.events import NodeForgotten, RightsChanged
from pairproxy.core.models import EngineId, NodeId, Rights
from pairproxy.core.residency import Residency
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher
from pairproxy.peers import own_addresses
from pairproxy.peers.addresses import MDNS, static_addresses
from pairproxy.peers.book import PeerBook
from pairproxy.peers.exchange import Publisher
from pairproxy.peers.link import PeerLink
from pairproxy.peers.network import NetworkWatch
from pairproxy.peers.remembered import AddressMemory
from pairproxy.peers.restarting import restarting
from pairproxy.proxy.catalogue import Catalogue
from pairproxy.proxy.forward import Route
from pairproxy.proxy.listening import Keep, bind, port_of
from pairproxy.proxy.peer_port import PeerPort, ServeModels
from pairproxy.proxy.server import Port
from pairproxy.security import tls
from pairproxy.security.identity import Identity
from pairproxy.security.peer_record import PeerRecord
from pairproxy.security.trust import TrustStore

if TYPE_CHECKING:
    from pairproxy.peers.discovery import Discovery

_log = logging.getLogger(__name__)

Spawn = Callable[[str, Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


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
        home: Path,
    ) -> None:
        """Raises ConfigError for a static address that is none."""
        self._identity = identity
        self._trust = trust
        self._settings = settings
        self._scheduler, self._dispatcher = scheduler, dispatcher
        self._discovery: Discovery | None = None
        self._following: dict[NodeId, asyncio.Task[Any]] = {}
        self._reading = asyncio.Lock()
        self.models: ServeModels | None = None
        """Who answers what peers ask of the models that lie here; set before port() is called."""
        self.peer_port: int | None = None
        """The port on which peers are heard; None while it is closed."""
        self._memory = AddressMemory(home, today)
        self._memory.load(record.node for record in trust.peers())
        self.book = PeerBook(
            dispatcher.tell,
            dispatcher.now,
            lambda certificate: tls.client_context(identity, certificate),
            settings.limits,
            self._memory,
            lambda short: any(record.node.startswith(short) for record in trust.peers()),
        )
        interval_s, came_from = settings.peers.state_interval_s, self.book.came_from
        self._publisher = Publisher(scheduler, name, dispatcher.now, interval_s, came_from)
        dispatcher.listen(self._publisher.heard)
        self.book.is_heard_by = self._publisher.is_read_by
        self.book.use_static(static_addresses(settings.peers.static))
        for record in trust.peers():
            if record.i_may_use:
                self.book.add(record)

    def follow_settings(self, settings: Settings, name: str) -> None:
        """Go by other settings from now on. Raises ConfigError, before anything changes."""
        self.book.use_static(static_addresses(settings.peers.static))
        self._settings = settings
        self._publisher.name = name
        self._tell_rights()

    @property
    def discovery_problem(self) -> str | None:
        """Why mDNS does not work at present; None while it does, or is not wanted."""
        return self._discovery.problem if self._discovery else None

    def may_add_models(self, node: NodeId) -> bool:
        """Whether a peer may have models copied to this machine."""
        record = self._trust.get(node)
        return record is not None and record.may_use_me and record.may_add_models

    def port(
        self,
        route: Route,
        authority_of: Callable[[EngineId], str],
        residency: Residency,
        catalogue: Catalogue,
    ) -> Port:
        """The peer port, not open yet. Once."""
        self._port = PeerPort(
            self._dispatcher,
            route,
            self._settings.limits,
            self._peer_of,
            self._publisher.stream,
            authority_of,
            residency,
            catalogue,
            self._publisher.refusal,
            self.models,
            lambda: sum(self._scheduler.local.slots().values()),
        )
        # Who was forgotten gets through the handshake as well, only to be told that it was.
        known = [one.certificate for one in self._trust.peers()]
        known += [one.certificate for one in self._trust.forgotten()]
        self._context = tls.server_context(self._identity, known)
        return self._port

    async def open(self, sock: socket.socket) -> None:
        """Listen for peers on a bound socket."""
        self.peer_port = port_of(sock)
        await self._port.start(sock, self._context)

    def start(self, spawn: Spawn, on_opened: Callable[[int], None]) -> None:
        """Follow every peer, and look for them. ``on_opened``: hears the port if it opens later."""
        self._spawn, self._on_opened = spawn, on_opened
        self._tell_rights()
        for link in self.book.links:
            self._follow(link)
        spawn("addresses", restarting("addresses", self._memory.run))
        snapshot = frozenset if self._settings.peers.loopback else own_addresses.snapshot
        network = NetworkWatch(self.book.network_changed, self._look_anew, snapshot=snapshot)
        spawn("network", restarting("network", network.run))
        self._discover()

    async def follow_trust(self, _: bytes = b"") -> TrustChanged:
        """Read the peers' files anew and act on what changed (POST /trust).

        Who was forgotten or lost a right is cut off when this returns, whatever was under way. Raises
        StoreError, and changes nothing, for files that cannot be used, PortTaken where the peer port has to
        open and cannot.
        """
        async with self._reading:  # what was read first must not be taken in last
            found = await asyncio.to_thread(self._trust.read)
            before = {record.node: record for record in self._trust.peers()}
            news = self._trust.take(found)
            self._tell_rights()
            for node in (*news.gone, *news.changed):
                self._part(before[node], self._trust.get(node))
            for node in (*news.added, *news.changed):
                self._meet(found.peers[node])
            if found.peers and self.peer_port is None:
                try:
                    await self._open_late()
                except SetupError as error:  # whoever asked hears it too, but may be gone tomorrow
                    _log.warning("peers cannot reach this machine: %s", error.sentence)
                    raise
        return TrustChanged(self._identity.device_id, news.added, news.changed, news.gone)

    # --- what changes while the daemon runs -------------------------------------------------------------

    def _tell_rights(self) -> None:
        """Let the scheduler know what each peer may have here."""
        most = self._settings.peers.max_slots
        rights = {
            one.node: Rights(one.slots if one.slots is not None else most, one.models)
            for one in self._trust.peers()
        }
        self._dispatcher.tell(RightsChanged(self._dispatcher.now(), rights))

    def _part(self, old: PeerRecord, new: PeerRecord | None) -> None:
        """Take back at once what a peer may no longer do, or we with it."""
        is_same = new is not None and new.certificate == old.certificate
        if old.may_use_me and not (new is not None and is_same and new.may_use_me):
            self._port.cut(old.certificate)
        if old.i_may_use and not (new is not None and is_same and new.i_may_use):
            self._leave(old)
        if new is None:
            _log.info("%s is no longer a peer", old.name)

    def _leave(self, old: PeerRecord) -> None:
        """Hear a peer no more and send it nothing; what runs there is broken off and goes elsewhere."""
        link, task = self.book.remove(old.node), self._following.pop(old.node, None)
        if task is not None:
            task.cancel()
        self._dispatcher.tell(NodeForgotten(self._dispatcher.now(), old.node))
        if link is not None:
            self._spawn(f"closing {link.name}", link.upstream.close())

    def _meet(self, record: PeerRecord) -> None:
        """Let in a peer that is new or has other rights, and follow it."""
        tls.trust_certificate(self._context, record.certificate)
        if not self.book.renew(record) and record.i_may_use:
            self._follow(self.book.add(record))
            for sighting in self._discovery.seen() if self._discovery is not None else ():
                if sighting.speaks_ours:  # it was told as a stranger's, and is not told twice
                    for host, port in sighting.addresses:
                        self.book.hint(sighting.node_hint, host, port, MDNS)

    async def _open_late(self) -> None:
        """Open the peer port: the first machine was paired."""
        sockets = _bind(self._settings)
        for sock in sockets:
            await self.open(sock)
        await asyncio.to_thread(import_module, "pairproxy.peers.discovery")  # it takes 50 ms
        self._discover()
        self._on_opened(port_of(sockets[0]))

    def _follow(self, link: PeerLink) -> None:
        name = f"peer {link.name}"
        self._following[link.node] = self._spawn(name, restarting(name, link.run))

    def _look_anew(self) -> None:
        """Ask everybody by mDNS: what was announced while this machine slept was missed."""
        if self._discovery is not None:
            self._discovery.refresh()

    def _discover(self) -> None:
        if not self._settings.peers.discovery or self.peer_port is None or self._discovery is not None:
            return
        from pairproxy.peers.discovery import Discovery  # zeroconf, 3 MB, is for those who have peers

        self._discovery = Discovery(
            self._identity.device_id,
            self.peer_port,
            self.book.hint,
            allow_loopback=self._settings.peers.loopback,
            is_paired=self.book.is_paired,
            goodbye=self.book.goodbye,
            outdated=self.book.outdated,
        )
        self._spawn("discovery", restarting("discovery", self._discovery.run))

    def _peer_of(self, certificate: bytes) -> NodeId:
        """Whose request it is. Raises PeerRevoked, UseNotAllowed, PeerNotTrusted."""
        record = self._trust.by_certificate(certificate)
        if record is not None and record.may_use_me:
            return record.node
        if record is not None:
            raise UseNotAllowed("You are paired with this machine, but may not use it.")
        if self._trust.was_forgotten(certificate):
            raise PeerRevoked("This machine was paired with you and is no longer. Pair again.")
        raise PeerNotTrusted("This machine is not paired with you.")


def bind_peer_port(settings: Settings, trust: TrustStore, keep: Keep) -> list[socket.socket]:
    """The sockets of the peer port, IPv4's first. It stays closed until somebody is paired."""
    parse_listen(settings.peers.listen, "peers.listen")
    return keep(_bind(settings)) if trust.peers() else []


def _bind(settings: Settings) -> list[socket.socket]:
    where = parse_listen(settings.peers.listen, "peers.listen")
    return bind(*where, "Set peers.listen to another port in config.toml.")
