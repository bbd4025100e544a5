"""GET /events: what there is to see, as it changes, by server-sent events.

::

    event: status     the whole Status, a moment after something changed
    event: run        {"run": ID}: a new report of this run was made (GET /report?run=ID&watched=true)

A status is made and encoded once for all who watch, and only while somebody does. It goes out in time,
whatever becomes of reports: where one takes long or cannot be made, with those that there are, and where even
that takes long, with what was last told of runs. Who hears none for long may say that something is wrong.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from pairproxy.api.schema import Status
from pairproxy.core.commands import Command
from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import QueueFull
from pairproxy.core.events import CatalogueReported, DrainEnded, Event, NodeReported, TimePassed
from pairproxy.core.models import NodeId
from pairproxy.peers.restarting import where
from pairproxy.responses import Asked, StreamResponse

MOST_WATCHERS = 16  # pages and commands of one person; each costs a write for each status
LEAST_S = 0.5  # between two statuses: an eye follows two a second, and each costs milliseconds
BUSY_S = 1.0  # at most, while anything runs: ages and tokens/s move without an event
IDLE_S = 5.0  # at most, while nothing does: peers come and go without an event
LATE_S = 0.2  # a status that takes longer to make is not waited for; half of LEAST_S at most
FAILED_REST_S, FAILED_REST_TIMES = 10.0, 10.0  # at least, and as long as it took: then it is tried again
HEARTBEAT_S = 2.5  # a comment after so long without a status: a client finds out whether we are there
STALL_S = 20.0  # who takes nothing for so long is gone, or stopped: its connection ends
RETRY_MS = 1000  # after which a browser asks again

_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


class Watched(Protocol):
    """What is told (admin.view)."""

    def status(self) -> Callable[[], Status]:
        """What makes the status; any thread may call it."""

    def unreckoned(self) -> Callable[[], Status]:
        """The same, without a report that is not made yet."""

    def lately(self) -> Status:
        """The same at once, with what was last told of runs."""

    def reported(self) -> tuple[int, str] | None:
        """How many reports were made by now, and the run of the last one; None: none yet."""

    def next_report_s(self) -> float | None:
        """Seconds until a report that is behind may be made anew; None: none is."""


@dataclass(eq=False, slots=True)
class _Watcher:
    """One who watches: what is to be told next. What is not taken in time is replaced by what is newer."""

    status: bytes = b""
    run: bytes = b""
    is_over: bool = False
    wakes: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> bytes:
        """All that is new."""
        told = self.status + self.run
        self.status = self.run = b""
        self.wakes.clear()
        return told


class _Maker:
    """Has an event made in a thread, one at a time, and waits for it only so long."""

    def __init__(self, what: Callable[[], Callable[[], Status]], late: Callable[[], None]) -> None:
        """``late`` is told when one was made that was not waited for."""
        self._what = what
        self._late = late
        self._making: asyncio.Task[tuple[bool, bytes] | None] | None = None
        self._rests_until = float("-inf")  # of the loop's clock
        self._fault = ""  # that was told

    async def soon(self) -> tuple[bool, bytes] | None:
        """Whether anything runs, and the event; None: the last one is still being made, or it cannot be."""
        if self._making is not None or asyncio.get_running_loop().time() < self._rests_until:
            return None
        making = self._making = asyncio.create_task(self._make(), name="status")
        if (await asyncio.wait({making}, timeout=LATE_S))[0]:
            return making.result()
        making.add_done_callback(lambda _: self._late())
        return None

    def stop(self) -> None:
        """Wait for nothing any more."""
        if self._making is not None:
            self._making.cancel()

    async def _make(self) -> tuple[bool, bytes] | None:
        began_at = (now := asyncio.get_running_loop().time)()
        try:
            made = await asyncio.to_thread(_event, self._what())
        except Exception as error:  # noqa: BLE001 whatever it is, who watches is told what is known without it
            self._rests_until = now() + max(FAILED_REST_S, FAILED_REST_TIMES * (now() - began_at))
            if (fault := where(error)) != self._fault:
                self._fault = fault
                _log.error("a status could not be made whole: %s. Please report it.", fault)
            return None
        else:
            self._fault = ""
            return made
        finally:
            self._making = None


class Live:
    """Tells all who watch."""

    def __init__(self, view: Watched, now: Callable[[], float]) -> None:
        self._view = view
        self._now = now
        self._watchers: set[_Watcher] = set()
        self._is_watched = asyncio.Event()
        self._changed = asyncio.Event()
        self._makers = tuple(_Maker(what, self._late) for what in (view.status, view.unreckoned))
        self._latest = b""
        self._latest_at = float("-inf")
        self._reported: tuple[int, str] | None = None
        self._documents: dict[NodeId, object] = {}  # what was shown of each peer's last one
        self._is_over = False

    @property
    def watchers(self) -> int:
        """How many watch now."""
        return len(self._watchers)

    def heard(self, event: Event, commands: Sequence[Command]) -> None:
        """Take note of what changes the status; to be told by the dispatcher."""
        if isinstance(event, DrainEnded):
            self._end()
        elif self._watchers and (self._is_news(event) or commands):
            self._changed.set()

    async def run(self) -> None:
        """Tell what changes, until cancelled."""
        now = asyncio.get_running_loop().time
        try:
            while True:
                await self._is_watched.wait()
                self._changed.clear()
                began_at = now()
                busy = await self._tell()
                await asyncio.sleep(max(began_at + LEAST_S - now(), 0.0))
                pause_s = began_at + (BUSY_S if busy else IDLE_S) - now()
                if (report_s := self._view.next_report_s()) is not None:
                    pause_s = min(pause_s, report_s)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(pause_s, 0.0)):
                        await self._changed.wait()
        finally:
            for maker in self._makers:
                maker.stop()

    async def events(self, request: Asked) -> StreamResponse:
        """Answer GET /events until the client leaves or the daemon stops. Raises QueueFull."""
        if len(self._watchers) >= MOST_WATCHERS:
            raise QueueFull(
                f"{MOST_WATCHERS} pages and commands watch this daemon already. Close one of them.",
                retry_after_s=5,
            )
        response = StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
            }
        )
        watcher = _Watcher(is_over=self._is_over or request.method == "HEAD")
        if not watcher.is_over:
            self._enter(watcher)
        try:
            await response.prepare(request)
            if not watcher.is_over:
                await _write(response, request, b"retry: %d\n\n" % RETRY_MS)
            while not watcher.is_over:
                await _write(response, request, watcher.take() or b":\n\n")
                await _news(watcher)
        finally:
            self._leave(watcher)
        return response

    async def _tell(self) -> bool:
        """Make a status and hand it to all; whether anything runs."""
        asked_at = self._now()
        for maker in self._makers:
            if (made := await maker.soon()) is not None:
                break
        else:
            made = _event(self._view.lately)
        busy, told = made
        self._latest, self._latest_at = told, asked_at
        run = b""
        if (reported := self._view.reported()) is not None and reported != self._reported:
            self._reported = reported
            run = b"event: run\ndata: %b\n\n" % _encode({"run": reported[1]})
        for watcher in self._watchers:
            watcher.status, watcher.run = told, run or watcher.run
            watcher.wakes.set()
        return busy

    def _late(self) -> None:
        if self._view.reported() != self._reported:  # else the next status is soon enough
            self._changed.set()

    def _enter(self, watcher: _Watcher) -> None:
        if self._now() - self._latest_at < LEAST_S:
            watcher.status = self._latest
            watcher.wakes.set()
        self._watchers.add(watcher)
        self._is_watched.set()
        self._changed.set()

    def _leave(self, watcher: _Watcher) -> None:
        self._watchers.discard(watcher)
        if not self._watchers:
            self._is_watched.clear()
            self._documents.clear()

    def _end(self) -> None:
        """The daemon stops: nobody has to wait for who watches."""
        self._is_over = True
        for watcher in self._watchers:
            watcher.is_over = True
            watcher.wakes.set()

    def _is_news(self, event: Event) -> bool:
        """Whether a status would show it; peers tell once a second that nothing changed."""
        if isinstance(event, NodeReported):
            shown = _shown(event.document)
            before, self._documents[event.document.node] = self._documents.get(event.document.node), shown
            return shown != before
        return not isinstance(event, CatalogueReported | TimePassed)


def _event(make: Callable[[], Status]) -> tuple[bool, bytes]:
    """Whether anything runs, and the event that tells all."""
    status = make()
    return _is_busy(status), b"event: status\ndata: %b\n\n" % _encode(status)


def _is_busy(status: Status) -> bool:
    return bool(status.running or status.queue_length) or any(
        node.tokens_per_s or any(engine.in_flight for engine in node.engines) for node in status.nodes
    )


def _shown(document: StateDocument) -> object:
    """What a status shows of a peer that may change from one document to the next."""
    engines = tuple(
        (one.engine, one.slots, one.in_flight, one.foreign, len(one.replicas)) for one in document.engines
    )
    return document.epoch, document.name, document.is_draining, engines


async def _news(watcher: _Watcher) -> None:
    """Return when there is something to tell, or it is time for a heartbeat."""
    try:
        async with asyncio.timeout(HEARTBEAT_S):
            await watcher.wakes.wait()
    except TimeoutError:
        return


async def _write(response: StreamResponse, request: Asked, data: bytes) -> None:
    """Raises ConnectionError when the client takes nothing for STALL_S."""
    try:
        async with asyncio.timeout(STALL_S):
            await response.write(data)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()  # what was written for it would wait for ever
        raise ConnectionResetError("a watcher takes nothing") from None
