"""Asks every engine of this node, again and again, what it serves; tells what changed."""

import asyncio
import random
from collections.abc import Callable, Sequence

from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import Unreachable, UpstreamError
from pairproxy.core.models import EngineId
from pairproxy.interfaces import Engine

PROBE_TIMEOUT_S = 5.0  # all questions of one probe; an engine that swaps may be slow and yet serve
FAILURES_UNTIL_LOST = 3  # of another sort than a refused connection, which is certain at once
JITTER = 0.1  # of the interval, either way: engines and nodes shall not be asked in step


class EngineMonitor:
    """Calls ``on_report`` when an engine appears, returns or changed, ``on_lost`` when it is gone.

    Both are called from run()'s loop and must not block. An engine is asked by one task only, so no two
    probes of it overlap; a probe takes PROBE_TIMEOUT_S at most.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        on_report: Callable[[EngineReport], None],
        on_lost: Callable[[EngineId], None],
        *,
        interval_s: float = 2.0,
        jitter: random.Random,
    ) -> None:
        self._engines = tuple(engines)
        self._on_report, self._on_lost = on_report, on_lost
        self._interval_s, self._jitter = interval_s, jitter

    async def run(self) -> None:
        """Probe until cancelled."""
        async with asyncio.TaskGroup() as group:
            for engine in self._engines:
                group.create_task(self._watch(engine), name=f"monitor {engine.id}")

    async def _watch(self, engine: Engine) -> None:
        last: EngineReport | None = None
        failures = 0
        while True:
            try:
                async with asyncio.timeout(PROBE_TIMEOUT_S):
                    report = await engine.probe()
            except (UpstreamError, TimeoutError) as error:
                failures += 1
                is_gone = isinstance(error, Unreachable) or failures >= FAILURES_UNTIL_LOST
                if is_gone and last is not None:
                    last = None
                    self._on_lost(engine.id)
            else:
                failures = 0
                if report != last:
                    last = report
                    self._on_report(report)
            await asyncio.sleep(self._interval_s * self._jitter.uniform(1 - JITTER, 1 + JITTER))
