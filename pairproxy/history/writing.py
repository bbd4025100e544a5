"""What ended, on its way to the disk: noted at once, written each second by a thread, held if that fails."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from pairproxy.api.runs import Runs
from pairproxy.api.schema import Report
from pairproxy.config import HistorySettings
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.works import Places
from pairproxy.core.commands import Command
from pairproxy.core.errors import StoreError
from pairproxy.core.events import Event
from pairproxy.core.models import NodeId, RequestId
from pairproxy.core.whatif.recording import Recording
from pairproxy.history import faults
from pairproxy.history.changes import ABOUT_NODES, Changes, NodeChange
from pairproxy.history.keeping import KeptRun, RunBook, Settled
from pairproxy.history.pending import BATCH, Noting, Pending
from pairproxy.history.reading import Past, StoredRun
from pairproxy.history.rebuilding import rebuild, reckon
from pairproxy.history.store import FILE, Broken, Newer, Store
from pairproxy.history.trimming import files_of

FLUSH_S = 1.0  # what a killed daemon loses; a hundred writes a second would wear a disk for nothing
SETTLE_S = 5.0  # between two groupings while requests end all the time: each looks at all in memory
RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)  # after a failure: a disk is full for seconds or for days
LAST_REQUESTS = 300  # of a run that is still reported at the end: parts of a second
STOP_S = 3.0  # at the end, for the last batch and reports; what is missing is made up for at the next start
PAUSE_TIMES = 50.0  # as long as a report took no other one is made: a fiftieth of a core
TRIM_S = 60.0  # between two looks at ages and sizes; a batch is small against what is kept in reserve

_log = logging.getLogger(__name__)
T = TypeVar("T")

Reckon = Callable[[Run], Callable[[], tuple[RunReport, Recording | None]]]
"""Reads in the caller's thread what a run's report needs; what it returns makes the report in any thread."""


class History:
    """Follows the ledger and the dispatcher, and writes history.db. ``problem`` says why it does not now."""

    def __init__(
        self,
        home: Path,
        settings: HistorySettings,
        node: NodeId,
        clock: tuple[Callable[[], float], Callable[[], float]],
        records: Callable[[], tuple[RequestRecord, ...]],
        places: Callable[[], Places],
        reckon: Reckon,
        names: Callable[[], Mapping[str, str]],
    ) -> None:
        """``clock``: the monotonic one of the records, and the wall clock. ``records``: all in memory."""
        self._settings = settings
        self.problem: str | None = None
        self.path = home / FILE
        self.disk = Past(self.path)
        self._now, self._wall = clock
        self._records = records
        self._places = places
        self._reckon = reckon
        self._names = names
        self._store = Store(self.path, node, self._wall())
        self.book = RunBook()
        self._changes = Changes(node)
        self._node = node
        self._pending = Pending(self.book)
        self._found: deque[Settled] = deque()
        self._grouping = ThreadPoolExecutor(1, "history runs")  # one each: a slow disk holds up no question
        self._disk = ThreadPoolExecutor(1, "history disk")
        self._settled_at = self._trimmed_at = self._next_report_at = float("-inf")
        self._failures = 0
        self._wanted = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._is_newer = self._is_removed = False  # the file
        self._noting = Noting(self._pending, self.book, self._wall, self._wanted.set)
        self.ended = self._noting.hear  # of each request: one call less
        self._see_whether_off()

    @property
    def _is_off(self) -> bool:
        """Whether nothing is written."""
        return self._noting.is_off

    def _see_whether_off(self) -> None:
        self._noting.is_off = self._is_newer or self._settings.keep_days == 0

    def follow_settings(self, settings: HistorySettings) -> None:
        """Go by these from now on; no days: nothing is kept, and what was there is removed."""
        self._settings, self._trimmed_at = settings, float("-inf")
        self._see_whether_off()
        self._wanted.set()

    def heard(self, event: Event, _: Sequence[Command]) -> None:
        """Something happened, perhaps to a node."""
        if type(event) not in ABOUT_NODES:
            return
        changes = self._changes.heard(event, self._wall())
        if changes and not self._is_off:
            self._pending.change(changes)
            self._wanted.set()

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        await self._in(self._disk, self._start)
        self._pending.change([NodeChange(self._wall(), self._node, "started")])
        self._wanted.set()
        while True:
            await self._until_wanted()
            await asyncio.sleep(FLUSH_S)
            self._wanted.clear()
            await self.flush()

    async def close(self) -> None:
        """Write the rest, within STOP_S."""
        self._pending.change([NodeChange(self._wall(), self._node, "stopped")])
        try:
            async with asyncio.timeout(STOP_S):
                await self.settle()
                await self.report_due(is_last=True)
                await self._write(is_last=True)
                await self._in(self._disk, self._store.close)
        except TimeoutError:
            _log.info("the last runs are put together at the next start")
        for thread in (self._disk, self._grouping):
            thread.shutdown(wait=False, cancel_futures=True)

    async def flush(self) -> None:
        """Group what ended into runs, report those that are over, write it all."""
        if self._now() - self._settled_at >= SETTLE_S:
            await self.settle()
        await self.report_due()
        await self._write()

    async def settle(self) -> None:
        """Find the run of each request that ended."""
        async with self._one_at_a_time:
            if self._noting.is_unsettled:
                self._noting.is_unsettled, self._settled_at = False, self._now()
                await self._in(self._grouping, self._group, self._records(), self._places(), self._settled_at)
            while self._found:
                self._pending.settle(self._found.popleft())

    def _group(self, records: tuple[RequestRecord, ...], places: Places, at: float) -> None:
        self._found.append(self.book.settle(records, places, at))  # stays if who waits for it is cancelled

    async def report_due(self, *, is_last: bool = False) -> None:
        """Have reports made of runs that are over, one after the other, and not all the time."""
        for kept in [] if self._is_off else self.book.due(float("inf") if is_last else self._now()):
            if self._now() < self._next_report_at and not is_last:
                return
            if is_last and kept.requests > LAST_REQUESTS:
                continue
            await self._have_reported(kept)

    async def _have_reported(self, kept: KeptRun) -> None:
        run, kept.asked_of, kept.asked_at = kept.run, kept.requests, self._now()
        try:
            report, recording = await asyncio.to_thread(self._reckon(run))
        except Exception as error:  # noqa: BLE001 one run that cannot be reckoned must not stop the others
            _log.error("a run could not be reported: %s. Please report it.", type(error).__name__)
            return
        finally:
            self._next_report_at = self._now() + PAUSE_TIMES * (self._now() - kept.asked_at)
        if kept.run is run and self.book.runs.get(kept.number) is kept:
            kept.report, kept.recording = report, recording
            self._pending.renew(kept.number)

    async def _until_wanted(self) -> None:
        """Return when there is something to write, a run is over, or a failure is to be tried again."""
        if self._failures:
            await asyncio.sleep(RETRY_S[min(self._failures, len(RETRY_S)) - 1])
            return
        due_in = None if self._is_off else self.book.due_in(self._now())
        waits = [] if due_in is None else [max(due_in, self._next_report_at - self._now())]
        if self._noting.is_unsettled:
            waits.append(self._settled_at + SETTLE_S - self._now())
        soonest = min(waits, default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if soonest is None else max(soonest - FLUSH_S, 0.0)):
                await self._wanted.wait()

    async def _write(self, *, is_last: bool = False) -> None:
        try:
            if self._settings.keep_days == 0 and not self._is_removed:
                await self._in(self._disk, self._remove)
                self._pending.clear()
                self.problem = None
            self._is_removed = self._settings.keep_days == 0
            while not self._is_off and (batch := self._pending.take(self._names())) is not None:
                try:
                    lost = await self._in(self._disk, self._store.write, batch)
                except BaseException:
                    self._pending.give_back(batch)
                    raise
                self._pending.dropped += lost  # not before: more may have been dropped while it was written
                self._pending.written(batch)
                self._tell_of_success()
                if len(batch.ended) < BATCH and not is_last:  # what came meanwhile waits for the next second
                    break
            if not self._is_off and self._now() - self._trimmed_at >= TRIM_S:
                self._trimmed_at = self._now()
                bounds = self._settings.keep_days, self._settings.keep_bytes
                await self._in(self._disk, self._store.trim, *bounds, self._wall())
        except faults.CAUGHT as error:
            await self._failed(error)

    def _tell_of_success(self) -> None:
        if self.problem is not None:
            missing = f"; {dropped} requests are missing in it" if (dropped := self._pending.dropped) else ""
            _log.warning("%s is written again%s.", self.path, missing)
        self.problem, self._failures, self._pending.dropped = None, 0, 0

    async def _failed(self, error: Exception) -> None:
        """Say it once, and try again later; a damaged file is moved aside."""
        self._failures += 1
        told = faults.sentence(error, self.path)
        if isinstance(error, Newer):
            self._is_newer = True
            self._see_whether_off()
            self._pending.clear()
        elif isinstance(error, Broken) or faults.is_broken(error):
            try:
                aside = await self._in(self._disk, self._store.move_aside)
                told = f"{self.path} was damaged: it is {aside.name} now, and a new one is begun."
            except OSError as why:
                told = faults.sentence(why, self.path)
        if told != self.problem:
            self.problem = told
            _log.warning("%s", told)

    def _start(self) -> None:
        """Before the first batch: the runs of a daemon that was killed are put together."""
        if self._is_off:
            return
        try:
            connection = self._store.open()
            rebuild(connection)
            reckon(connection)
        except faults.CAUGHT:
            pass  # the first batch meets it again
        except Exception as error:  # noqa: BLE001 what an earlier life left must not keep this one from writing
            text = "the runs of an earlier life could not be put together: %s. Please report it."
            _log.error(text, type(error).__name__)

    def _remove(self) -> None:
        self._store.close()
        for file in files_of(self.path):
            file.unlink(missing_ok=True)

    async def _in(self, thread: ThreadPoolExecutor, work: Callable[..., T], *values: Any) -> T:
        """Have a thread do it; what it began is done also if who waits is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(thread, work, *values)

    def id_of(self, request: RequestId) -> str | None:
        """The id of the run that a request is of, if that began before what memory holds; else None."""
        return self.book.id_of(request)

    def reckoned(self, run: Run) -> RunReport | None:
        """The report that was made of exactly these requests, if there is one."""
        return self.book.reckoned(run)

    def report(self, name: str, *, with_recording: bool = False) -> Report | None:
        """The last run of this name, or the one with this id, from disk, for a thread; None: none."""
        try:
            return self.disk.report(name, with_recording=with_recording)
        except StoreError:
            return None  # nothing is known of it; why history cannot be read is its ``problem``

    async def runs(self, since_unix: float, limit: int) -> Runs:
        """GET /runs: those that started then or later, in memory and on disk, the latest first."""
        await self.settle()
        return await asyncio.to_thread(self._listed, since_unix, limit)

    def _listed(self, since_unix: float, limit: int) -> Runs:
        mine = {one.number: one.summary() for one in [*self.book.runs.values()]}
        stored: list[StoredRun] = []
        with contextlib.suppress(StoreError):
            stored = self.disk.runs(since_unix, limit + len(mine) + 1)
        first = self._store.first
        found = [one for one in mine.values() if one.started_unix >= since_unix]
        found += [summary for number, summary in stored if number - first not in mine]
        found.sort(key=lambda one: one.started_unix, reverse=True)
        return Runs(self._node, tuple(found[:limit]), len(found) > limit, self.problem)
