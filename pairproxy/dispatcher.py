"""The bridge: stamps events, tells the scheduler, performs its commands. The only place where both meet.

    attempts = dispatcher.attempts(request)
    while (attempt := await attempts.next()) is not None:
        async with attempt:
            ...          # talk to the upstream of attempt.place; attempt.first_byte(); attempt.finish(...)
    attempts.close()     # whatever happened

Leaving the block without finish() stamps what went wrong. A failure before the first byte goes round again,
if the scheduler says so, and so does a later one of which another node can write the rest; every other
failure leaves the loop as the error it is.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, get_args

from pairproxy.attempt import Attempt, Desk, Written
from pairproxy.clock import Clock
from pairproxy.core.commands import BreakOff, Command, Dispatch, Refuse
from pairproxy.core.errors import PairproxyError, UpstreamError
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    EngineSettled,
    Event,
    ReplyBroken,
    RequestAbandoned,
    RequestArrived,
    TimePassed,
)
from pairproxy.core.models import AttemptId, EngineId, Outcome, Request, RequestId, Usage
from pairproxy.core.scheduler import Listener, Scheduler

_log = logging.getLogger(__name__)

EARLY_S = 0.002  # by which a timer may ring too early: those of uvloop count whole milliseconds

Settle = Callable[[EngineId, int], Awaitable[None]]
"""(engine of this node, other requests in flight there) -> returns when a broken-off request has left it."""
Spawn = Callable[[str, Coroutine[Any, Any, None]], object]
"""Start a named task in the daemon's task group."""


class Dispatcher(Desk):
    """Owns the scheduler: whoever learns something tells it here, and here its commands are performed."""

    def __init__(self, scheduler: Scheduler, clock: Clock, settle: Settle, spawn: Spawn) -> None:
        self._scheduler = scheduler
        self._now = clock.now
        self._settle = settle
        self._spawn = spawn
        self._listeners: dict[type[Event], list[Listener]] = {kind: [] for kind in get_args(Event)}
        self._expected: dict[RequestId, Attempts] = {}
        self._attempts: dict[AttemptId, Attempt] = {}
        self._broken_off: dict[RequestId, BreakOff] = {}  # dispatched, but its coroutine did not yet run
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = math.inf  # the timer, if there is one
        self._due: float | None = None  # when the scheduler wants to be woken
        self._is_closed = False
        self._idle: asyncio.Future[None] | None = None

    def now(self) -> float:
        """Seconds on this node's monotonic clock."""
        return self._now()

    def is_continuing(self) -> bool:
        """Whether replies that lost their node may go on at another one (routing.continuation)."""
        return self._scheduler.rules.continuation

    def written_of(self, attempt: AttemptId) -> Written | None:
        """What tells how much of a running attempt's reply came so far; None: it does not run."""
        running = self._attempts.get(attempt)
        return None if running is None else running.written

    def listen(self, listener: Listener, *kinds: type[Event]) -> None:
        """Let ``listener`` hear every event of these kinds from now on, with the commands it led to.

        None named: of all kinds. A request is two or three events: who wants none of those should say so.
        """
        for kind in kinds or self._listeners:
            self._listeners[kind].append(listener)

    def tell(self, event: Event) -> None:
        """Report what happened; its consequences are performed before this returns."""
        commands = self._scheduler.handle(event)
        for command in commands:
            self._perform(command)
        self._set_timer()
        for listener in self._listeners[type(event)]:
            try:
                listener(event, commands)
            except Exception as error:  # noqa: BLE001 who only looks on must not harm the requests
                _log.error("a listener failed at %s: %s", type(event).__name__, type(error).__name__)
        if self._idle is not None and not self._idle.done() and not len(self._scheduler.running):
            self._idle.set_result(None)

    async def until_idle(self) -> None:
        """Return when nothing of this daemon's runs anywhere, and nothing of a peer's runs here."""
        if len(self._scheduler.running):
            if self._idle is None or self._idle.done():
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def attempts(self, request: Request) -> "Attempts":
        """Every attempt the scheduler grants to a request, one after the other; to be closed.

        Raises the error that ended the request: a Refusal, or the last attempt's.
        """
        return Attempts(self, request)

    # --- what they ask for ------------------------------------------------------------------------------

    def expect(self, attempts: "Attempts") -> None:
        """Let a request hear what becomes of it."""
        self._expected[attempts.request.id] = attempts

    def is_expected(self, request: RequestId) -> bool:
        """Whether anything is to become of it yet."""
        return request in self._expected

    def begin(self, attempt: Attempt) -> None:
        """An attempt is about to be carried out; break it off if that was said meanwhile."""
        self._attempts[attempt.id] = attempt
        broken = self._broken_off.pop(attempt.id.request, None)
        if broken is not None and broken.attempt == attempt.id:
            attempt.break_off(broken.error)

    def forget(self, request: RequestId) -> None:
        """Nobody wants to hear of a request any more."""
        self._expected.pop(request, None)
        self._broken_off.pop(request, None)

    # --- what attempts report ---------------------------------------------------------------------------

    def end(self, attempt: Attempt, outcome: Outcome, usage: Usage, settled: bool) -> None:
        """An attempt's reply ended, well or not."""
        self._attempts.pop(attempt.id, None)
        self._expected.pop(attempt.id.request, None)
        settled = self._is_settled(attempt, settled)
        self.tell(AttemptFinished(self.now(), attempt.id, outcome, usage, settled, attempt.is_whole))

    def fail(self, attempt: Attempt, error: PairproxyError, settled: bool) -> None:
        """An attempt failed before its first byte."""
        self._attempts.pop(attempt.id, None)
        never_arrived = isinstance(error, UpstreamError) and not attempt.is_sent
        settled = self._is_settled(attempt, settled or never_arrived)
        self.tell(AttemptFailed(self.now(), attempt.id, error, settled))

    def lose(self, attempt: Attempt, delivered_tokens: int, settled: bool) -> None:
        """An attempt broke after its first byte, where another node can be asked for the rest."""
        self._attempts.pop(attempt.id, None)
        settled = self._is_settled(attempt, settled)
        self.tell(ReplyBroken(self.now(), attempt.id, delivered_tokens, settled))

    def abandon(self, attempt: Attempt, settled: bool) -> None:
        """The client left in the middle of an attempt."""
        self._attempts.pop(attempt.id, None)
        self._expected.pop(attempt.id.request, None)
        settled = self._is_settled(attempt, settled)
        self.tell(RequestAbandoned(self.now(), attempt.id.request, settled))

    def _is_settled(self, attempt: Attempt, settled: bool) -> bool:
        """Whether the slot is free at once; if not, watch the engine until it is."""
        if settled or self._is_closed or attempt.place.node != self._scheduler.own:
            return True
        self._spawn(f"settle {attempt.place.engine}", self._watch(attempt))
        return False

    async def _watch(self, attempt: Attempt) -> None:
        others = len(self._scheduler.running.at_place(attempt.place)) - 1
        try:
            with suppress(PairproxyError):  # an engine that cannot be asked is the monitor's to judge
                await self._settle(attempt.place.engine, others)
        finally:
            self.tell(EngineSettled(self.now(), attempt.id))

    # --- commands ---------------------------------------------------------------------------------------

    def _perform(self, command: Command) -> None:
        if isinstance(command, Dispatch):
            self._answer(command.attempt.request, command)
        elif isinstance(command, Refuse):
            self._answer(command.request, command)
        elif isinstance(command, BreakOff):
            attempt = self._attempts.get(command.attempt)
            if attempt is not None:
                attempt.break_off(command.error)
            elif command.attempt.request in self._expected:
                self._broken_off[command.attempt.request] = command

    def _answer(self, request: RequestId, command: Dispatch | Refuse) -> None:
        attempts = self._expected.get(request)
        if attempts is not None:
            attempts.hear(command)

    def _set_timer(self) -> None:
        """See to it that the scheduler is woken in time.

        A timer that rings too early is left alone and looks again when it does: most wake-ups are put off by
        the next event, and a new timer took 1 us of each.
        """
        at = self.now()
        self._due = due = self._scheduler.next_wakeup(at)
        if due is None or self._is_closed or (self._timer is not None and self._rings_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = due
        self._timer = asyncio.get_running_loop().call_later(max(0.0, due - at), self._wake)

    def _wake(self) -> None:
        self._timer = None
        at = self.now()
        if self._due is not None and self._due <= at + EARLY_S:
            self.tell(TimePassed(at))
        else:
            self._set_timer()

    def close(self) -> None:
        """Watch neither the time nor engines any more; what still runs may only end."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Attempts:
    """The attempts of one request, as they are granted; made by Dispatcher.attempts.

    Not an async generator: the loop keeps books of those, and that took a fifth of the time of all this.
    """

    __slots__ = ("_answer", "_arrived_at", "_attempt", "_awaited", "_desk", "request")

    def __init__(self, desk: Dispatcher, request: Request) -> None:
        self.request = request
        self._desk = desk
        self._arrived_at: float | None = None
        self._attempt: Attempt | None = None
        self._answer: Dispatch | Refuse | None = None
        self._awaited: asyncio.Future[Dispatch | Refuse] | None = None

    def hear(self, answer: Dispatch | Refuse) -> None:
        """What becomes of the request; the first answer counts until it is taken."""
        if self._answer is None:
            self._answer = answer
            if self._awaited is not None and not self._awaited.done():
                self._awaited.set_result(answer)

    async def next(self) -> Attempt | None:
        """The next attempt; None: there is no other, for the reply has ended.

        Raises the error that ended the request. It is expected before its arrival is told, for the answer
        may come before tell() returns.
        """
        desk, request = self._desk, self.request
        if self._arrived_at is None:
            desk.expect(self)
            self._arrived_at = desk.now()
            desk.tell(RequestArrived(self._arrived_at, request))
        elif self._answer is None and not desk.is_expected(request.id):
            return None
        answer, self._answer = self._answer or await self._wait(), None
        if isinstance(answer, Refuse):
            raise answer.error
        is_moved = self._attempt is not None and self._attempt.is_taken_back
        waited_s = desk.now() - self._arrived_at
        self._attempt = attempt = Attempt(desk, request, answer, waited_s, is_moved=is_moved)
        desk.begin(attempt)
        return attempt

    async def _wait(self) -> Dispatch | Refuse:
        self._awaited = asyncio.get_running_loop().create_future()
        try:
            return await self._awaited
        except asyncio.CancelledError:
            if not isinstance(self._answer, Refuse):
                self._desk.tell(RequestAbandoned(self._desk.now(), self.request.id))
            raise

    def close(self) -> None:
        """Nobody wants to hear of the request any more."""
        self._desk.forget(self.request.id)
