"""The ports of one daemon: bound before anything is started, opened when there is something to answer.

A front is the client port that stands for one kind of engine.
"""

import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack

from pairproxy.admin.server import Change
from pairproxy.api.schema import DaemonFile
from pairproxy.config import Settings
from pairproxy.core.models import NodeId
from pairproxy.core.residency import Residency
from pairproxy.dispatcher import Dispatcher
from pairproxy.engines.own import OwnEngines
from pairproxy.engines.ports import how_to_go_on
from pairproxy.observing import Observing
from pairproxy.peering import Peering, bind_peer_port
from pairproxy.proxy.catalogue import Catalogue
from pairproxy.proxy.client_port import ClientPort
from pairproxy.proxy.forward import Route
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.listening import Sockets, all_or_none, bind_plain
from pairproxy.proxy.server import Port
from pairproxy.proxy.unloading import Unloading
from pairproxy.security.trust import TrustStore


def bind_all(settings: Settings, engines: OwnEngines, trust: TrustStore) -> Sockets:
    """Take every port. Raises PortTaken with who has it, ConfigError."""
    with all_or_none() as keep:
        clients = {
            engine.id: keep(bind_plain(engine.listen, "engines.listen", how_to_go_on(engine.kind)))
            for engine in engines.engines
            if engine.listen
        }
        peers = bind_peer_port(settings, trust, keep)
        admin = keep(bind_plain(settings.admin.listen, "admin.listen", _OTHER_ADMIN))
    return Sockets(clients, peers, admin)


class Fronts:
    """Every port of a daemon, from opening to the end."""

    def __init__(self, own: NodeId, settings: Settings, sockets: Sockets) -> None:
        """``own``: this node."""
        self._own = own
        self._settings = settings
        self._sockets = sockets
        self._gate = Gate()
        self.ports: list[Port] = []
        """Those that are open, in the order of their opening."""

    def file(self, name: str) -> DaemonFile:
        """What daemon.json says of them."""
        return self._sockets.file(self._own, name)

    async def open_peers(
        self,
        peering: Peering,
        route: Route,
        engines: OwnEngines,
        residency: Residency,
        catalogue: Catalogue,
        stack: AsyncExitStack,
    ) -> None:
        """Answer peers. The port is made also while nobody is paired: it opens with the first one."""
        port = peering.port(route, engines.authority, residency, catalogue)
        self.ports.append(port)
        stack.push_async_callback(port.stop)
        for sock in self._sockets.peers:
            await peering.open(sock)

    async def open_clients(
        self,
        engines: OwnEngines,
        dispatcher: Dispatcher,
        route: Route,
        unloading: Unloading,
        catalogue: Catalogue,
        stack: AsyncExitStack,
    ) -> None:
        """Answer the programs of this machine."""
        kinds = {engine.id: engine.kind for engine in engines.engines}
        for engine, bound in self._sockets.clients.items():
            for sock in bound:
                client = ClientPort(
                    self._own, engine, dispatcher, route, self._settings.limits, self._gate, unloading,
                    kinds[engine], catalogue,
                )  # fmt: skip
                await self._open(client, sock, stack)

    async def open_admin(
        self, observing: Observing, token: str, changes: Mapping[str, Change], stack: AsyncExitStack
    ) -> None:
        """Answer who looks on, and who shows the token."""
        client_ports = self.file("").client_ports
        admin = observing.port(client_ports, self._settings.limits, self._gate, token, changes)
        for sock in self._sockets.admin:
            await self._open(admin, sock, stack)

    async def _open(self, port: Port, sock: socket.socket, stack: AsyncExitStack) -> None:
        await port.start(sock)
        self.ports.append(port)
        stack.push_async_callback(port.stop)


_OTHER_ADMIN = "Stop that program, or set admin.listen in config.toml to another port."
