"""The composition root: builds every part, wires siblings to each other, starts all in one TaskGroup, drains, stops.

Nothing else knows all of them. Every task is born in the one TaskGroup here, by name; what a part needs of
a sibling it is handed as a callable.
"""

import asyncio
import logging
import os
import random
import socket
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pairproxy.admin.server import AdminPort
from pairproxy.admin.view import View
from pairproxy.api.client import DAEMON_FILE
from pairproxy.api.schema import DaemonFile
from pairproxy.clock import MonotonicClock
from pairproxy.config import EngineSettings, Settings, cache_dir, parse_listen
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.errors import ConfigError, NothingToServe, Unreachable
from pairproxy.core.events import EngineLost, EngineReported, SpeedMeasured
from pairproxy.core.models import EngineId, EngineReport, NodeId, Place
from pairproxy.core.scheduler import Rules, Scheduler
from pairproxy.dispatcher import Dispatcher
from pairproxy.engines.build import build_engine
from pairproxy.engines.calibrate import KINDS, calibrate
from pairproxy.engines.embedded import EmbeddedEngine
from pairproxy.engines.finder import find_engines, looked_for
from pairproxy.engines.monitor import EngineMonitor
from pairproxy.interfaces import Engine
from pairproxy.peers.book import PeerBook
from pairproxy.peers.discovery import Discovery
from pairproxy.peers.exchange import Publisher
from pairproxy.proxy.client_port import ClientPort
from pairproxy.proxy.forward import Route
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.peer_port import PeerPort
from pairproxy.security import tls
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.private_files import write_private
from pairproxy.security.trust import TrustStore
from pairproxy.upstreams import Upstream

_log = logging.getLogger(__name__)

DRAIN_S = 30.0  # how long a stopping daemon lets running replies end; a second Ctrl-C ends them at once
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class _Seat:
    """An engine of this node with what stands for it."""

    engine: Engine
    upstream: Upstream
    sockets: list[socket.socket]


class Daemon:
    """One node, from start to stop."""

    def __init__(self, settings: Settings, home: Path, on_progress: Progress) -> None:
        self._settings = settings
        self._home = home
        self._on_progress = on_progress
        self._clock = MonotonicClock()
        self._ledger = Ledger()
        self._seats: dict[EngineId, _Seat] = {}
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Drain and stop; said a second time, stop at once."""
        if self._stop.is_set():
            self._stop_now.set()
        self._stop.set()

    async def run(self, on_ready: Callable[[DaemonFile], None]) -> None:
        """Serve until stop(). Raises SetupError for what a person has to mend first."""
        identity = load_or_create(self._home)
        trust = TrustStore(self._home, identity.device_id)
        trust.load()
        engines = self._settings.engines or tuple(await find_engines())
        if not engines:
            raise NothingToServe(_nothing_to_serve())
        async with AsyncExitStack() as stack:
            await self._take_seats(engines, stack)
            self._wire(identity, trust)
            admin = bind(*parse_listen(self._settings.admin.listen, "admin.listen"), _OTHER_ADMIN)
            peer = self._bind_peer_port(trust)
            for seat in self._seats.values():
                await seat.engine.start()
            async with self._group:
                await self._serve(identity, trust, admin, peer, on_ready, stack)

    # --- building ---------------------------------------------------------------------------------------

    async def _take_seats(self, engines: tuple[EngineSettings, ...], stack: AsyncExitStack) -> None:
        for settings in engines:
            engine = build_engine(
                settings, cache_dir(), self._on_progress, logging.getLogger("pairproxy.engines")
            )
            if engine.id in self._seats:
                raise ConfigError(f"Two engines are called {engine.id}. Leave one out of config.toml.")
            sockets: list[socket.socket] = []
            if engine.listen:
                host, port = parse_listen(engine.listen, "engines.listen")
                sockets = bind(host, port, _go_on(engine.kind))
            upstream = Upstream(engine, limits=self._settings.limits)
            self._seats[engine.id] = _Seat(engine, upstream, sockets)
            stack.push_async_callback(upstream.close)
            stack.push_async_callback(engine.stop)

    def _wire(self, identity: Identity, trust: TrustStore) -> None:
        settings = self._settings
        name = settings.node.name or socket.gethostname()
        rules = Rules(
            settings.routing.policy,
            settings.routing.queue_limit,
            settings.routing.queue_timeout_s,
            settings.limits.attempts,
        )
        self._name = name
        self._scheduler = Scheduler(identity.device_id, rules)
        self._dispatcher = Dispatcher(self._scheduler, self._clock, self._settle, self._spawn)
        self._publisher = Publisher(self._scheduler, name, self._clock.now, settings.peers.state_interval_s)
        self._dispatcher.listen(self._ledger.record)
        self._dispatcher.listen(self._publisher.heard)
        self._book = PeerBook(
            self._dispatcher.tell,
            self._clock.now,
            lambda certificate: tls.client_context(identity, certificate),
            settings.limits,
        )
        self._route = Route(
            self._upstream, lambda place: place.node != identity.device_id, settings.debug.headers
        )
        for record in trust.peers():
            self._book.add(record)
        for text in settings.peers.static:
            self._book.add_everywhere(*parse_listen(text, "peers.static"))

    def _bind_peer_port(self, trust: TrustStore) -> list[socket.socket]:
        """Closed until somebody is paired: an open port that nobody may use is only a risk."""
        if not trust.peers():
            return []
        host, port = parse_listen(self._settings.peers.listen, "peers.listen")
        return bind(host, port, "Set peers.listen to another port in config.toml.")[:1]

    # --- running ----------------------------------------------------------------------------------------

    async def _serve(
        self,
        identity: Identity,
        trust: TrustStore,
        admin_sockets: list[socket.socket],
        peer_sockets: list[socket.socket],
        on_ready: Callable[[DaemonFile], None],
        stack: AsyncExitStack,
    ) -> None:
        gate = Gate()
        limits = self._settings.limits
        ports = {
            str(engine): port_of(seat.sockets[0]) for engine, seat in self._seats.items() if seat.sockets
        }
        discovery = self._discovery(identity, peer_sockets)
        view = View(
            self._name,
            self._scheduler,
            self._ledger,
            self._book,
            ports,
            lambda: discovery.last_error if discovery else None,
            self._clock.now,
        )
        for sock in peer_sockets:
            await self._open(
                self._peer_port(trust), sock, stack, tls.server_context(identity, _certificates(trust))
            )
        for engine, seat in self._seats.items():
            for sock in seat.sockets:
                port = ClientPort(identity.device_id, engine, self._dispatcher, self._route, limits, gate)
                await self._open(port, sock, stack)
        for sock in admin_sockets:
            await self._open(AdminPort(view.status, view.report, self._is_ready, limits, gate), sock, stack)
        self._start_tasks(discovery)
        file = DaemonFile(
            pid=os.getpid(),
            node=identity.device_id,
            name=self._name,
            admin_port=port_of(admin_sockets[0]),
            peer_port=port_of(peer_sockets[0]) if peer_sockets else None,
            client_ports=ports,
        )
        write_private(self._home / DAEMON_FILE, msgspec.json.encode(file))
        stack.callback((self._home / DAEMON_FILE).unlink, missing_ok=True)
        on_ready(file)
        await self._stop.wait()
        await self._drain()
        self._dispatcher.close()
        for task in self._tasks:
            task.cancel()

    def _start_tasks(self, discovery: Discovery | None) -> None:
        monitor = EngineMonitor(
            [seat.engine for seat in self._seats.values()],
            self._engine_reported,
            self._engine_lost,
            jitter=random.Random(),
        )
        self._spawn("engine monitor", monitor.run())
        for seat in self._seats.values():
            if isinstance(seat.engine, EmbeddedEngine):
                self._spawn(f"engine {seat.engine.id}", seat.engine.run())
        for link in self._book.links:
            self._spawn(f"peer {link.name}", link.run())
        if discovery is not None:
            self._spawn("discovery", discovery.run())

    def _peer_port(self, trust: TrustStore) -> PeerPort:
        def peer_of(certificate: bytes) -> NodeId | None:
            record = trust.by_certificate(certificate)
            return record.node if record is not None and record.may_use_me else None

        def authority_of(engine: EngineId) -> str:
            host, port = self._seats[engine].engine.address("/v1")
            return f"{host}:{port}"

        return PeerPort(
            self._dispatcher,
            self._route,
            self._settings.limits,
            peer_of,
            self._publisher.stream,
            authority_of,
        )

    def _discovery(self, identity: Identity, peer_sockets: list[socket.socket]) -> Discovery | None:
        if not self._settings.peers.discovery or not peer_sockets:
            return None
        return Discovery(
            identity.device_id,
            port_of(peer_sockets[0]),
            allow_loopback=self._settings.peers.loopback,
            hint=self._book.hint,
        )

    async def _open(
        self,
        port: AdminPort | ClientPort | PeerPort,
        sock: socket.socket,
        stack: AsyncExitStack,
        context: Any = None,
    ) -> None:
        await port.start(sock, context)
        stack.push_async_callback(port.stop)

    async def _drain(self) -> None:
        """Let what runs end, take no new work."""
        self._scheduler.is_draining = True
        _log.info("stopping; %d requests are running", len(self._scheduler.running))
        deadline = self._clock.now() + DRAIN_S
        while len(self._scheduler.running) and self._clock.now() < deadline and not self._stop_now.is_set():
            await asyncio.sleep(0.05)

    # --- what siblings are handed -----------------------------------------------------------------------

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _upstream(self, place: Place) -> Upstream:
        if place.node != self._scheduler.own:
            return self._book.upstream(place.node)
        seat = self._seats.get(place.engine)
        if seat is None:
            raise Unreachable("This node has no such engine.")
        return seat.upstream

    async def _settle(self, engine: EngineId, others: int) -> None:
        await self._seats[engine].engine.settled(others)

    def _is_ready(self) -> bool:
        return any(True for _ in self._scheduler.places(self._clock.now()))

    def _engine_reported(self, report: EngineReport) -> None:
        is_new = Place(self._scheduler.own, report.engine) not in self._scheduler.local.slots()
        if is_new and report.kind in KINDS and report.replicas:
            self._spawn(f"calibrate {report.engine}", self._calibrate(report))
        else:
            self._dispatcher.tell(EngineReported(self._clock.now(), report))

    def _engine_lost(self, engine: EngineId) -> None:
        _log.warning("engine %s no longer answers", engine)
        self._dispatcher.tell(EngineLost(self._clock.now(), engine))

    async def _calibrate(self, report: EngineReport) -> None:
        """Measure an engine before it is offered, so that nothing runs beside the measurement."""
        model = report.replicas[0][0].model
        usage = await calibrate(self._seats[report.engine].upstream, model, self._settings.limits)
        if usage is not None:
            self._dispatcher.tell(SpeedMeasured(self._clock.now(), report.engine, model, usage))
        self._dispatcher.tell(EngineReported(self._clock.now(), report))


_OTHER_ADMIN = (
    "Is another pairproxy running? Set admin.listen to another port in config.toml if it should be."
)


def _go_on(kind: str) -> str:
    if kind in ("ollama", "lmstudio"):
        return "Move the engine to another port and start it again, or set engines.listen to a free port."
    return "Stop that program, or give this engine another port with engines.listen in config.toml."


def _nothing_to_serve() -> str:
    looked = "; ".join(looked_for())
    return (
        f"There is nothing to serve: no engine answers (looked for {looked}). "
        "Start an engine, or bring up the embedded one with `pairproxy up --engine embedded`, "
        "or try `pairproxy demo`."
    )


def _certificates(trust: TrustStore) -> list[bytes]:
    return [record.certificate for record in trust.peers()]
