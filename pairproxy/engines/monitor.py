"""Asks every engine of this node, again and again, what it serves; tells what changed."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence

from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import Unreachable, UpstreamError
from pairproxy.core.models import EngineId
from pairproxy.interfaces import Engine

PROBE_TIMEOUT_S = 5.0  # all questions of one probe; an engine that swaps may be slow and yet serve
FAILURES_UNTIL_LOST = 3  # of another sort than a refused connection, which is certain at once
STRANGE = 30  # answers in a row that are no engine's (a minute of them): another program lives there,
STRANGE_S = (
    15.0  # and is not to be bothered, nor its log filled; an engine that took its place is found in time
)
JITTER = 0.1  # of the interval, either way: engines and nodes shall not be asked in step


class EngineMonitor:
    """Calls ``on_report`` when an engine appears, returns or changed, ``on_lost`` when it is gone.

    ``on_absent`` is called when an engine does not answer the first time it is asked. All three are called
    from run()'s loop and must not block. An engine is asked by one task only, so no two probes of it
    overlap; a probe takes PROBE_TIMEOUT_S at most.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        on_report: Callable[[EngineReport], None],
        on_lost: Callable[[EngineId], None],
        on_absent: Callable[[EngineId], None] = lambda engine: None,
        *,
        interval_s: float = 2.0,
        jitter: random.Random,
    ) -> None:
        self._engines = list(engines)
        self._on_report, self._on_lost, self._on_absent = on_report, on_lost, on_absent
        self._interval_s, self._jitter = interval_s, jitter
        self._group: asyncio.TaskGroup | None = None
        self._looks: dict[EngineId, _Look] = {}

    async def run(self) -> None:
        """Probe until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for engine in self._engines:
                self._begin(engine, group)
            await asyncio.get_running_loop().create_future()

    def add(self, engine: Engine) -> None:
        """Watch one more."""
        self._engines.append(engine)
        if self._group is not None:
            self._begin(engine, self._group)

    async def look(self, patience_s: float) -> None:
        """Ask every engine now; return when each was asked, after ``patience_s`` at the latest."""
        asked = [look.again() for look in self._looks.values()]
        if asked:
            await asyncio.wait(asked, timeout=patience_s)

    def _begin(self, engine: Engine, group: asyncio.TaskGroup) -> None:
        self._looks[engine.id] = _Look()
        group.create_task(self._watch(engine), name=f"monitor {engine.id}")

    async def _watch(self, engine: Engine) -> None:
        look = self._looks[engine.id]
        last: EngineReport | None = None
        failures = strange = 0
        while True:
            asking = look.begin()
            try:
                async with asyncio.timeout(PROBE_TIMEOUT_S):
                    report = await engine.probe()
            except (UpstreamError, TimeoutError) as error:
                failures += 1
                strange = 0 if isinstance(error, Unreachable) else strange + 1
                is_gone = isinstance(error, Unreachable) or failures >= FAILURES_UNTIL_LOST
                if is_gone and last is not None:
                    last = None
                    self._on_lost(engine.id)
                elif failures == 1 and last is None:
                    self._on_absent(engine.id)
            else:
                failures = strange = 0
                if report != last:
                    last = report
                    self._on_report(report)
            look.end(asking)
            rest_s = self._interval_s if last is not None or strange < STRANGE else STRANGE_S
            await look.rest(rest_s * self._jitter.uniform(1 - JITTER, 1 + JITTER))


class _Look:
    """When one engine is asked, and who waits for its being asked."""

    def __init__(self) -> None:
        self._wanted = asyncio.Event()
        self._next: asyncio.Future[None] | None = None

    def again(self) -> "asyncio.Future[None]":
        """Ask soon; done when it was asked, from the beginning on, after this call."""
        self._wanted.set()
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        return self._next

    def begin(self) -> "asyncio.Future[None] | None":
        asking, self._next = self._next, None
        self._wanted.clear()
        return asking

    def end(self, asking: "asyncio.Future[None] | None") -> None:
        if asking is not None and not asking.done():
            asking.set_result(None)

    async def rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
