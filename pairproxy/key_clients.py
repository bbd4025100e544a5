"""Clients with keys: what follows from [clients] and from the file of keys.

The port opens with the first key and closes with the last: a port that nobody can use is only there to be
attacked. Its certificate follows this machine's addresses.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from pairproxy.api.schema import KeysChanged
from pairproxy.config import Settings, parse_listen
from pairproxy.core.errors import ConfigError, SetupError
from pairproxy.core.models import EngineId, NodeId
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher, Spawn
from pairproxy.engines.own import OwnEngines
from pairproxy.peers import own_addresses
from pairproxy.peers.restarting import restarting
from pairproxy.proxy.catalogue import Catalogue
from pairproxy.proxy.forward import Route
from pairproxy.proxy.key_gate import KeyGate
from pairproxy.proxy.key_port import KeyPort
from pairproxy.proxy.listening import bind, host_of, port_of, twin_of
from pairproxy.proxy.unloading import Unloading
from pairproxy.security.client_authority import Served, parse_name, served
from pairproxy.security.client_keys import NO_KEYS, NO_LISTEN, ClientKeys
from pairproxy.security.client_tls import key_port_context, show
from pairproxy.service.supervised import Supervisor

_log = logging.getLogger(__name__)

LOOK_S = 10.0  # between looks at this machine's addresses and the certificate's dates; and tries to open
OnChange = Callable[[str, int | None], None]
"""Hears where the port is open: host, port; None: closed."""


class KeyClients:
    """The keys of one daemon, and the port on which they are taken."""

    def __init__(self, settings: Settings, home: Path, node: NodeId, supervisor: Supervisor) -> None:
        """Raises ConfigError for a name in clients.names that is none."""
        for name in settings.clients.names:
            parse_name(name)
        self._settings = settings
        self._home = home
        self._node = node
        self._supervisor = supervisor
        self._keys = ClientKeys(home)
        self._sockets: list[socket.socket] = []  # bound, not yet answered on
        self._context: ssl.SSLContext | None = None
        self._reading = asyncio.Lock()
        self._on_change: OnChange = lambda host, port: None
        self._port: KeyPort | None = None
        self._kept: tuple[str, ...] = ()  # names by which a service manager keeps the sockets
        self._hindrance = ""  # why the port cannot be had now
        self.host = ""
        self.open_port: int | None = None
        """Where the port is open; None: nowhere."""

    def bind(self) -> None:
        """Read the keys, and take the port if there are any. Raises StoreError, PortTaken.

        An address that this machine does not have may come: Docker's is there while Docker runs.
        """
        self._keys.take(self._keys.read())
        if self._settings.clients.listen and self._keys.keys():
            try:
                self._sockets = self._bound()
            except ConfigError as error:
                self._hindered(error.sentence)

    def give_back(self) -> None:
        """Close what was bound and not opened."""
        for sock in self._sockets:
            sock.close()
        self._sockets = []

    def port(
        self,
        engines: OwnEngines,
        scheduler: Scheduler,
        dispatcher: Dispatcher,
        route: Route,
        unloading: Unloading,
        catalogue: Catalogue,
    ) -> KeyPort:
        """The port, not open yet."""
        self._port = KeyPort(
            self._node, lambda: _stands_for(engines, scheduler), dispatcher, route, self._settings.limits,
            unloading, catalogue, KeyGate(self._keys.find, dispatcher.now),
            lambda: self._settings.routing.queue_timeout_s, engines.authority,
        )  # fmt: skip
        return self._port

    def follow_settings(self, settings: Settings) -> None:
        """Go by settings that changed while the daemon runs."""
        self._settings = settings

    async def start(self, spawn: Spawn, on_change: OnChange) -> None:
        """Answer on the port if there is a key. ``on_change`` hears of each change after this."""
        if self._sockets and self._port is not None:
            await self._open(self._port)
        elif self._settings.clients.listen and not self._keys.keys():
            _log.warning("clients.listen is set, but the port stays closed. %s", NO_KEYS)
        self._on_change = on_change
        if self._settings.clients.listen:
            spawn("certificate", restarting("the certificate of the key port", self._keep_certificate))

    async def follow_keys(self, _: bytes = b"") -> KeysChanged:
        """Read the keys anew and act on what changed (POST /keys).

        Who shows a key that was revoked is cut off when this returns, whatever was under way. Raises
        StoreError, and changes nothing, for a file that cannot be used; PortTaken where the port has to open
        and somebody has it.
        """
        async with self._reading:
            news = self._keys.take(await asyncio.to_thread(self._keys.read))
            if self._port is not None:
                self._port.cut(news.gone)
            for one in news.gone:
                _log.info("the key %s was revoked", one.name)
            try:
                await self._open_or_close()
            except ConfigError as error:
                self._hindered(error.sentence)
        return KeysChanged(
            self._node,
            tuple(one.name for one in news.added),
            tuple(one.name for one in news.gone),
            self.open_port,
            self._why_closed(),
        )

    async def _open_or_close(self) -> None:
        if self._port is None or not self._settings.clients.listen:
            return
        if self._keys.keys() and self.open_port is None:
            self._sockets = self._bound()
            await self._open(self._port)
            self._on_change(self.host, self.open_port)
        elif not self._keys.keys() and self.open_port is not None:
            await self._port.part(for_good=self._supervisor.is_there)
            for name in self._kept:
                self._supervisor.drop(name)
            self._kept = ()
            self.host, self.open_port = "", None
            _log.info("the last key was revoked: the port for clients with keys is closed")
            self._on_change("", None)

    def _why_closed(self) -> str:
        if self.open_port is not None:
            return ""
        if not self._settings.clients.listen:
            return NO_LISTEN
        return self._hindrance if self._keys.keys() else NO_KEYS

    def _hindered(self, sentence: str) -> None:
        """Remember why the port cannot be had; said once."""
        if sentence != self._hindrance:
            _log.warning("clients with a key cannot reach this machine yet: %s", sentence)
        self._hindrance = sentence

    def _bound(self) -> list[socket.socket]:
        """The sockets: those of the last life where a service manager kept them, else new ones."""
        host, port = parse_listen(self._settings.clients.listen, "clients.listen")
        hosts = [one for one in (host, twin_of(host, port)) if one is not None]
        kept = [sock for one in hosts if (sock := self._supervisor.take(one, port)) is not None]
        sockets = kept or bind(host, port, "Set clients.listen to another port in config.toml.")
        self._kept = tuple(f"keys-{port_of(sock)}-{sock.family.name}" for sock in sockets)
        for name, sock in zip(self._kept, sockets, strict=True):
            self._supervisor.keep(name, sock)
        return sockets

    async def _open(self, port: KeyPort) -> None:
        """Answer on the sockets that are bound. Raises StoreError, ConfigError."""
        try:
            found = await asyncio.to_thread(self._certificate)
            self._tell(found)
            self._context = key_port_context(found.file)
        except SetupError:
            self.give_back()
            raise
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            await port.start(sock, self._context)
        self.host, self.open_port, self._hindrance = host_of(sockets[0]), port_of(sockets[0]), ""
        _log.info("clients with a key are answered on %s, port %d, by TLS", self.host, self.open_port)

    def _certificate(self) -> Served:
        addresses = (one.address for one in own_addresses.snapshot())
        return served(self._home, self._settings.clients.names, socket.gethostname(), addresses)

    async def _keep_certificate(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self.open_port is None or self._context is None:
                await self._try_again()
                continue
            found = await asyncio.to_thread(self._certificate)
            if found.is_renewed:
                self._tell(found)
                show(self._context, found.file)
                _log.info("the certificate of the key port was made anew")

    async def _try_again(self) -> None:
        async with self._reading:
            try:
                await self._open_or_close()
            except SetupError as error:
                self._hindered(error.sentence)

    def _tell(self, found: Served) -> None:
        if found.is_new:
            _log.warning(
                "a new certificate authority for clients with keys was made; give them what `pairproxy keys"
                " certificate` prints"
            )


def _stands_for(engines: OwnEngines, scheduler: Scheduler) -> tuple[EngineId, str]:
    """Which engine the port speaks as, and its kind: the first that answers, of those with client ports."""
    known = sorted(engines.engines, key=lambda one: not one.listen)
    there = [(one.id, one.kind) for one in known if scheduler.local.get(one.id) is not None]
    return next(iter([*there, *((one.id, one.kind) for one in known)]), (EngineId(""), "ollama"))
