"""This node's own engines, from start to stop: built, started, measured, watched."""

import asyncio
import contextlib
import dataclasses
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pairproxy.config import EngineSettings, Limits
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import ConfigError, Unreachable, UpstreamError
from pairproxy.core.events import EngineLost, EngineReported, SpeedMeasured
from pairproxy.core.models import EngineId
from pairproxy.core.replicas import with_aliases
from pairproxy.engines.build import build_engine
from pairproxy.engines.calibrate import (
    FOUND_S,
    KINDS,
    TIMEOUT_S,
    calibrate,
    calibrate_company,
    is_fresh,
    may_be_measured,
)
from pairproxy.engines.monitor import PROBE_TIMEOUT_S, EngineMonitor
from pairproxy.engines.sought import IsOurs, SoughtEngine
from pairproxy.engines.verifying import Verifying
from pairproxy.interfaces import Engine, Tell
from pairproxy.upstreams import Upstream

if TYPE_CHECKING:
    from pairproxy.engines.embedded import EmbeddedEngine
    from pairproxy.engines.model_fetch import Progress

_log = logging.getLogger(__name__)

FOUND_NEWS_S = 1.0  # a found engine answers in milliseconds; one that is off must not hold up the others

SETTING_S = 5.0  # until a setting that came while engines were there is seen; nobody waits for it


class OwnEngines:
    """Every engine of this node with the upstream that leads to it."""

    def __init__(
        self,
        entries: Sequence[EngineSettings],
        cache: Path,
        on_progress: "Progress",
        limits: Limits,
        is_ours: IsOurs = lambda port: False,
    ) -> None:
        """Build them; nothing is started. Raises ConfigError.

        ``is_ours``: whether this daemon listens for clients at a port, now: no engine is sought there.
        """

        def build(settings: EngineSettings) -> Engine:
            return build_engine(settings, cache, on_progress, _log, is_ours)

        self._build = build
        self._engines: dict[EngineId, Engine] = {}
        self._aliases: dict[EngineId, dict[str, str]] = {}
        self._upstreams: dict[EngineId, Upstream] = {}
        self._told: dict[EngineId, asyncio.Event] = {}
        self._limits = limits
        self._monitor: EngineMonitor | None = None
        for settings in entries:
            self._take_in(settings)
        self._warned: set[tuple[EngineId, str]] = set()
        self._seen: set[EngineId] = set()
        self._measuring: dict[EngineId, EngineReport | None] = {}  # as it was seen last; None: lost
        self._latest: dict[EngineId, EngineReport] = {}
        self._verifying = Verifying(self.upstream)
        self._is_continuing: Callable[[], bool] = lambda: False
        self._spawn: Callable[[str, Any], object] = lambda name, work: None

    def _take_in(self, settings: EngineSettings) -> Engine:
        engine = self._build(settings)
        if engine.id in self._engines:
            raise ConfigError(f"Two engines are called {engine.id}. Leave one out of config.toml.")
        self._engines[engine.id] = engine
        self._aliases[engine.id] = settings.aliases
        self._upstreams[engine.id] = Upstream(engine, limits=self._limits)
        self._told[engine.id] = asyncio.Event()
        return engine

    def add(self, settings: EngineSettings) -> None:
        """Watch one more, which appeared while this daemon runs. Raises ConfigError for one that is known."""
        engine = self._take_in(settings)
        if self._monitor is not None:
            self._monitor.add(engine)

    async def look(self, patience_s: float = PROBE_TIMEOUT_S) -> None:
        """Ask every engine now; return when each was asked, after ``patience_s`` at the latest."""
        if self._monitor is not None:
            await self._monitor.look(patience_s)

    def silent(self, told: Callable[[EngineId], object | None]) -> list[EngineId]:
        """The engines of which nothing is ``told``."""
        return [engine for engine in self._engines if told(engine) is None]

    def sought(self, kind: str) -> SoughtEngine | None:
        """The engine of a kind that may be at two ports."""
        return next((one for one in self.engines if isinstance(one, SoughtEngine) and one.kind == kind), None)

    @property
    def engines(self) -> tuple[Engine, ...]:
        """All of them, in the order of the settings."""
        return tuple(self._engines.values())

    def upstream(self, engine: EngineId) -> Upstream:
        """How an engine is reached. Raises Unreachable for one that this node does not have."""
        if engine not in self._upstreams:
            raise Unreachable("This node has no such engine.")
        return self._upstreams[engine]

    def authority(self, engine: EngineId) -> str:
        """``host:port`` of an engine, for the Host header of a peer's request. Raises Unreachable."""
        if engine not in self._engines:
            raise Unreachable("This node has no such engine.")
        host, port = self._engines[engine].address("/v1")
        return f"{host}:{port}"

    async def settled(self, engine: EngineId, others_in_flight: int) -> None:
        """Return when a request that was broken off has left an engine."""
        await self._engines[engine].settled(others_in_flight)

    async def start(self) -> None:
        """Start those that are ours to start. Raises EngineUnavailable."""
        for engine in self.engines:
            await engine.start()

    async def stop(self) -> None:
        """Stop what start() started, and close every connection. Safe to call twice."""
        for engine in self.engines:
            await engine.stop()
            await self._upstreams[engine.id].close()

    def watch(
        self,
        tell: Tell,
        now: Callable[[], float],
        spawn: Callable[[str, Any], object],
        is_known: Callable[[EngineReport], bool] = lambda report: False,
        is_continuing: Callable[[], bool] = lambda: False,
    ) -> None:
        """Tell from now on which engines are there and what they serve; tasks are started by ``spawn``.

        An engine that may be measured is, before it is told of for the first time, so that nothing runs
        beside the measurement; unless its speed ``is_known``. Whether its loaded models go on with a text is
        asked once it is told of, while ``is_continuing``.
        """
        self._is_continuing, self._spawn = is_continuing, spawn

        def reported(report: EngineReport) -> None:
            is_new = report.engine not in self._seen
            self._seen.add(report.engine)
            if is_new and may_be_measured(report) and not is_known(report):
                self._measuring[report.engine] = report
                spawn(f"calibrate {report.engine}", self._measure(report, tell, now))
            elif report.engine in self._measuring:
                self._measuring[report.engine] = report
            else:
                self._tell(report, tell, now)

        def lost(engine: EngineId) -> None:
            self._forget(engine)
            tell(EngineLost(now(), engine))

        spawn("verifying", self._keep_verifying(tell, now))
        self._monitor = EngineMonitor(self.engines, reported, lost, self._absent, jitter=random.Random())
        spawn("engine monitor", self._monitor.run())
        for engine in self.engines:
            if engine.kind == "embedded":
                spawn(f"engine {engine.id}", cast("EmbeddedEngine", engine).run())

    def _forget(self, engine: EngineId) -> None:
        _log.warning("engine %s no longer answers", engine)
        self._latest.pop(engine, None)
        if engine in self._measuring:
            self._measuring[engine] = None
        self._verifying.forget(engine)

    def _absent(self, engine: EngineId) -> None:
        if isinstance(self._engines[engine], SoughtEngine):  # whether there is one, nobody said
            self._told[engine].set()

    async def until_told(self) -> None:
        """Return when every engine was told of: an engine of our own for sure, another one if it answers."""
        own = [engine.id for engine in self.engines if engine.kind in KINDS]
        await self._first_news(own, TIMEOUT_S)
        await self._first_news(self._told, FOUND_NEWS_S)
        await self._first_news(tuple(self._measuring), FOUND_S)

    async def _first_news(self, engines: Iterable[EngineId], patience_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                for engine in engines:
                    await self._told[engine].wait()

    async def _measure(self, report: EngineReport, tell: Tell, now: Callable[[], float]) -> None:
        upstream, is_own = self._upstreams[report.engine], report.kind in KINDS
        if is_own or await is_fresh(upstream):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2 * TIMEOUT_S if is_own else FOUND_S):
                    await self._calibrate(upstream, report, tell, now)
        with contextlib.suppress(UpstreamError, TimeoutError):  # then as the monitor saw it
            async with asyncio.timeout(PROBE_TIMEOUT_S):  # the measurement may have loaded the model
                self._measuring[report.engine] = await self._engines[report.engine].probe()
        latest = self._measuring.pop(report.engine)
        if latest is not None:
            self._tell(latest, tell, now)
        self._told[report.engine].set()

    async def _calibrate(
        self, upstream: Upstream, report: EngineReport, tell: Tell, now: Callable[[], float]
    ) -> None:
        model = report.replicas[0][0].model
        alone = await calibrate(upstream, model)
        if alone is not None:
            tell(SpeedMeasured(now(), report.engine, model, alone))
            if (found := await calibrate_company(upstream, model, report.slots, alone)) is not None:
                usage, company = found
                tell(SpeedMeasured(now(), report.engine, model, usage, company))

    def _tell(self, report: EngineReport, tell: Tell, now: Callable[[], float]) -> None:
        self._latest[report.engine] = report
        replicas = with_aliases(report.replicas, self._aliases[report.engine])
        self._warn_of_aliases(report.engine, {replica.called for replica, _ in replicas})
        told = dataclasses.replace(report, replicas=replicas)
        told = dataclasses.replace(told, continuing=self._verifying.continuing(told))
        tell(EngineReported(now(), told))
        self._told[report.engine].set()
        self._begin_verifying(report, tell, now)

    def _begin_verifying(self, report: EngineReport, tell: Tell, now: Callable[[], float]) -> None:
        if self._is_continuing() and self._verifying.has_to_ask(report):
            self._spawn(f"verify {report.engine}", self._verify(report, tell, now))

    async def _keep_verifying(self, tell: Tell, now: Callable[[], float]) -> None:
        """Ask what was not asked yet: the setting may come while engines are there already."""
        while True:
            await asyncio.sleep(SETTING_S)
            for report in tuple(self._latest.values()):
                self._begin_verifying(report, tell, now)

    async def _verify(self, report: EngineReport, tell: Tell, now: Callable[[], float]) -> None:
        await self._verifying.ask(report)
        if (latest := self._latest.get(report.engine)) is not None:
            self._tell(latest, tell, now)

    def _warn_of_aliases(self, engine: EngineId, served: set[str | None]) -> None:
        """Say once of each alias that it does nothing, for a mistyped name would do nothing in silence."""
        for here, there in self._aliases[engine].items():
            if there not in served and (engine, here) not in self._warned:
                self._warned.add((engine, here))
                _log.warning(
                    "engine %s: the alias %r does nothing now: the engine lists no %r, or lists the alias's "
                    "own name. Compare with `pairproxy status`.", engine, here, there,
                )  # fmt: skip
