"""The composition root: builds every part, wires siblings, starts all in one TaskGroup, drains, stops.

Every task is born in that group, by name; what a part needs of a sibling it is handed as a callable.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from pairproxy import logs
from pairproxy.admin.server import Change
from pairproxy.api.client import LOCK_FILE, already_running
from pairproxy.api.schema import DaemonFile
from pairproxy.clock import MonotonicClock
from pairproxy.config import Settings, cache_dir
from pairproxy.core.events import RulesChanged
from pairproxy.core.models import Place
from pairproxy.core.residency import Residency
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher
from pairproxy.engines.finder import Finder, entries_of, find_engines
from pairproxy.engines.own import OwnEngines
from pairproxy.engines.ports import refuse_loops
from pairproxy.fronts.ports import Fronts
from pairproxy.guest.hosting import offering
from pairproxy.key_clients import KeyClients
from pairproxy.loop_lag import LoopLag
from pairproxy.observing import Observing
from pairproxy.peering import Peering
from pairproxy.peers.restarting import restarting
from pairproxy.proxy.catalogue import Catalogue
from pairproxy.proxy.draining import drain
from pairproxy.proxy.forward import Route
from pairproxy.proxy.unloading import Unloading
from pairproxy.reloading import Reloading
from pairproxy.replicating.node import Replicating
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.private_files import ensure_private_directory, exclusive, sweep
from pairproxy.security.trust import TrustStore
from pairproxy.service.supervised import Supervisor
from pairproxy.speeds import SpeedStore
from pairproxy.upstreams import Upstream
from pairproxy.whereabouts import Whereabouts

_log = logging.getLogger(__name__)

LOCK_TRIES = 10  # half a second, for one that is just ending
Progress = Callable[[int, int], None]


class Daemon:
    """One node, from start to stop."""

    def __init__(
        self,
        settings: Settings,
        home: Path,
        on_progress: Progress,
        read_settings: Callable[[], Settings] | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        """``read_settings`` reads them again, for reread(); None: they cannot be read again, and stay."""
        self._settings = settings
        self._supervisor = supervisor or Supervisor()
        read = self._supervisor.hears_of(read_settings or (lambda: settings))
        self._reloading = Reloading(settings, read, self._apply)
        self._home, self._where = home, Whereabouts(home)
        self._on_progress = on_progress
        self._clock = MonotonicClock()
        self._lag = LoopLag()
        self._token = secrets.token_urlsafe(32)
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._starting = asyncio.timeout(None)
        self._is_starting = False
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[Any]] = set()

    def stop(self) -> None:
        """Drain and stop; said a second time, stop at once."""
        if self._stop.is_set():
            self._stop_now.set()
        self._stop.set()
        self._supervisor.stopping()
        if self._is_starting:
            self._is_starting = False
            self._starting.reschedule(0.0)

    def reread(self) -> None:
        """Read the settings again soon, and go by what has changed."""
        self._reloading.want()

    async def run(self, on_ready: Callable[[DaemonFile], None]) -> None:
        """Serve until stop(). Raises SetupError for what a person has to mend first."""
        ensure_private_directory(self._home)
        # Two daemons with one identity would undo each other's work.
        lock = exclusive(self._home / LOCK_FILE, tries=LOCK_TRIES, refusal=already_running(self._home))
        try:
            with lock:
                self._tidy()
                async with self._starting:
                    self._is_starting = not self._stop.is_set()
                    if self._is_starting:
                        await self._run(on_ready)
        except TimeoutError:
            if not self._starting.expired():
                raise
            _log.info("stopped while starting")
        finally:
            self._is_starting = False

    def _tidy(self) -> None:
        """Remove what a daemon that was killed left: its address, and files that it did not finish."""
        self._where.remove()
        for directory in (self._home, self._home / "peers"):
            sweep(directory)

    async def _run(self, on_ready: Callable[[DaemonFile], None]) -> None:
        identity = load_or_create(self._home)
        trust = TrustStore(self._home, identity.device_id)
        trust.load()
        refuse_loops(self._settings.engines)
        ours: set[int] = set()  # ports on which this daemon listens for clients
        entries = self._settings.engines or entries_of(await find_engines())
        async with AsyncExitStack() as stack:
            self._engines = OwnEngines(
                entries, cache_dir(), self._on_progress, self._settings.limits, ours.__contains__
            )
            stack.push_async_callback(self._engines.stop)
            self._finder = Finder(entries, self._engines.add, ours.__contains__)
            self._key_clients = KeyClients(self._settings, self._home, identity.device_id, self._supervisor)
            stack.callback(self._key_clients.give_back)
            self._key_clients.bind()
            self._wire(identity, trust)
            fronts = Fronts(
                identity.device_id, self._home, self._settings, self._engines, self._scheduler,
                self._dispatcher, self._supervisor, ours,
            )  # fmt: skip
            stack.callback(fronts.close)
            await fronts.bind(trust)
            self._supervisor.refuse_rest()
            try:
                await self._engines.start()
                async with self._group:
                    await self._serve(fronts, on_ready, stack)
            finally:
                self._is_starting = False  # what is undone from here on must not be interrupted

    # --- building ---------------------------------------------------------------------------------------

    def _wire(self, identity: Identity, trust: TrustStore) -> None:
        settings, home = self._settings, self._home
        self._name = name = _name(settings)
        self._scheduler = Scheduler(identity.device_id, settings.rules(), Random())
        self._speeds = SpeedStore.here(self._home, self._scheduler.local.costs, settings.engines)
        self._dispatcher = Dispatcher(self._scheduler, self._clock, self._engines.settled, self._spawn)
        self._residency = Residency(identity.device_id)
        self._dispatcher.listen(self._residency.heard)
        self._peering = Peering(identity, trust, settings, self._scheduler, self._dispatcher, name, home)
        self._observing = Observing(
            settings, home, self._scheduler, self._dispatcher, self._peering.book,
            lambda: self._peering.discovery_problem, lambda: self._peering.peer_port, self._lag.worst, name,
        )  # fmt: skip
        self._offering = offering(settings.peers, home, self._scheduler, self._dispatcher, self._engines)
        self._observing.show_offer(self._offering.status)
        self._route = Route(
            self._upstream,
            lambda place: place.node != identity.device_id,
            settings.debug.headers,
            self._peering.book.hear_refusal,
            self._scheduler.is_up,
            self._scheduler.is_lost,
            settings.limits,
        )
        self._catalogue = Catalogue(
            self._scheduler,
            self._route,
            settings.limits,
            self._clock.now,
            is_merged=settings.routing.catalogue == "merged",
        )
        self._reloading.node = identity.device_id

    def _apply(self, settings: Settings) -> None:
        """Go by settings that differ in what reloading.LIVE names. Raises ConfigError, changing nothing."""
        self._peering.follow_settings(settings, _name(settings))
        self._offering.follow_settings(settings.peers)
        self._key_clients.follow_settings(settings)
        self._settings = settings
        self._observing.follow_settings(settings, _name(settings))
        self._route.shows_headers, self._route.limits = settings.debug.headers, settings.limits
        self._catalogue.is_merged = settings.routing.catalogue == "merged"
        self._dispatcher.tell(RulesChanged(self._clock.now(), settings.rules()))
        logs.follow(settings.log.level, settings.log.format)

    # --- running ----------------------------------------------------------------------------------------

    async def _serve(
        self,
        fronts: Fronts,
        on_ready: Callable[[DaemonFile], None],
        stack: AsyncExitStack,
    ) -> None:
        stack.enter_context(self._speeds)
        self._spawn("loop lag", self._lag.run())
        self._spawn("signs of life", self._supervisor.feed())
        self._spawn("speeds", restarting("speeds", self._speeds.run))
        tell, now, continues = self._dispatcher.tell, self._clock.now, self._dispatcher.is_continuing
        self._engines.watch(tell, now, self._spawn, self._speeds.knows, continues)
        # Clients that come earlier wait in the ports' backlog; answered now, they would hear of no model.
        await self._engines.until_told()
        self._observing.start(self._spawn, stack)
        await self._offering.begin()  # before any peer asks
        self._spawn("offer", restarting("offer", self._offering.run))
        await self._open_ports(fronts, stack)
        self._peering.start(self._spawn, lambda port: self._where.change(peer_port=port))
        self._spawn("settings", restarting("settings", self._reloading.run))  # all can follow now
        silent = self._settings.engines and self._engines.silent(self._scheduler.local.get)
        file = msgspec.structs.replace(
            fronts.file(self._name), token=self._token, waiting_for=tuple(silent),
            key_host=self._key_clients.host, key_port=self._key_clients.open_port,
        )  # fmt: skip
        self._where.tell(file)
        stack.callback(self._where.remove)
        fronts.start(self._spawn, lambda: self._where.change(**fronts.whereabouts()))
        if not self._settings.engines:
            self._spawn("finder", restarting("finder", self._finder.run))
        await self._peering.follow_trust()  # a command that changed it before it could find us told nobody
        await self._key_clients.follow_keys()
        self._is_starting = False
        on_ready(self._where.file)
        await self._stop.wait()
        fronts.end()
        await drain(self._dispatcher, self._scheduler, fronts.ports, self._stop_now, self._spawn)
        self._dispatcher.close()
        for task in self._tasks:
            task.cancel()

    async def _open_ports(self, fronts: Fronts, stack: AsyncExitStack) -> None:
        unloading = Unloading(self._residency, self._route, self._spawn)
        replicating = Replicating(
            self._engines, self._peering.book, self._scheduler, self._peering.may_add_models, self._clock.now
        )
        self._spawn("half copied models", replicating.tidy())
        self._peering.models = replicating.to_peer
        await fronts.open_peers(self._peering, self._route, self._residency, self._catalogue, stack)
        await fronts.open_clients(self._route, unloading, self._catalogue, stack)
        keyed = self._key_clients.port(
            self._engines, self._scheduler, self._dispatcher, self._route, unloading, self._catalogue
        )
        fronts.ports.append(keyed)
        stack.push_async_callback(keyed.stop)
        await self._key_clients.start(
            self._spawn, lambda host, port: self._where.change(key_host=host, key_port=port)
        )
        # What can be changed while the daemon runs, one line each; each takes the body of its POST.
        changes: dict[str, Change] = {
            "/trust": self._peering.follow_trust,
            "/settings": self._reloading.reread,
            "/drain": self._offering.wished,
            "/keys": self._key_clients.follow_keys,
            "/replicate": replicating.begin,
        }
        await fronts.open_admin(self._observing, self._token, changes, stack)

    # --- what siblings are handed -----------------------------------------------------------------------

    def _spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _upstream(self, place: Place) -> Upstream:
        if place.node != self._scheduler.own:
            return self._peering.book.upstream(place.node)
        return self._engines.upstream(place.engine)


def _name(settings: Settings) -> str:
    return settings.node.name or socket.gethostname()
