"""The bridge: stamps events, tells the scheduler, performs its commands. The only place where both meet.

    async for attempt in dispatcher.attempts(request):
        async with attempt:
            ...          # talk to the upstream of attempt.place; attempt.first_byte(); attempt.finish(...)

Leaving the block stamps what happened. A failure before the first byte goes round again, if the scheduler
says so, and so does a later one of which another node can write the rest; every other failure leaves the loop
as the error it is.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from pairproxy.attempt import Attempt, Written
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

Settle = Callable[[EngineId, int], Awaitable[None]]
"""(engine of this node, other requests in flight there) -> returns when a broken-off request has left it."""
Spawn = Callable[[str, Coroutine[Any, Any, None]], object]
"""Start a named task in the daemon's task group."""


class Dispatcher:
    """Owns the scheduler: whoever learns something tells it here, and here its commands are performed."""

    def __init__(self, scheduler: Scheduler, clock: Clock, settle: Settle, spawn: Spawn) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._settle = settle
        self._spawn = spawn
        self._listeners: list[Listener] = []
        self._waiting: dict[RequestId, asyncio.Future[Dispatch | Refuse]] = {}
        self._attempts: dict[AttemptId, Attempt] = {}
        self._broken_off: dict[RequestId, BreakOff] = {}  # dispatched, but its coroutine did not yet run
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._idle: asyncio.Future[None] | None = None

    def now(self) -> float:
        """Seconds on this node's monotonic clock."""
        return self._clock.now()

    def is_continuing(self) -> bool:
        """Whether replies that lost their node may go on at another one (routing.continuation)."""
        return self._scheduler.rules.continuation

    def written_of(self, attempt: AttemptId) -> Written | None:
        """What tells how much of a running attempt's reply came so far; None: it does not run."""
        running = self._attempts.get(attempt)
        return None if running is None else running.written

    def listen(self, listener: Listener) -> None:
        """Let ``listener`` hear every event from now on, with the commands it led to."""
        self._listeners.append(listener)

    def tell(self, event: Event) -> None:
        """Report what happened; its consequences are performed before this returns."""
        commands = self._scheduler.handle(event)
        for command in commands:
            self._perform(command)
        self._set_timer()
        for listener in self._listeners:
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

    async def attempts(self, request: Request) -> AsyncGenerator[Attempt, None]:
        """Every attempt the scheduler grants to a request, one after the other; to be closed (aclosing).

        Raises the error that ended the request: a Refusal, or the last attempt's.
        """
        answer = self._expect(request.id)
        arrived_at, is_moved = self.now(), False
        self.tell(RequestArrived(arrived_at, request))
        try:
            while True:
                command = await answer
                if isinstance(command, Refuse):
                    raise command.error
                answer = self._expect(request.id)
                waited_s = self.now() - arrived_at
                attempt = Attempt(self, request, command, waited_s, is_moved=is_moved)
                self._attempts[attempt.id] = attempt
                broken = self._broken_off.pop(request.id, None)
                if broken is not None and broken.attempt == attempt.id:
                    attempt.break_off(broken.error)
                yield attempt
                is_moved = attempt.is_taken_back
                if not answer.done() and request.id not in self._waiting:
                    return
        except asyncio.CancelledError:
            if answer.cancelled() or not answer.done() or isinstance(answer.result(), Dispatch):
                self.tell(RequestAbandoned(self.now(), request.id))
            raise
        finally:
            self._waiting.pop(request.id, None)
            self._broken_off.pop(request.id, None)

    # --- what attempts report ---------------------------------------------------------------------------

    def end(self, attempt: Attempt, outcome: Outcome, usage: Usage, settled: bool) -> None:
        """An attempt's reply ended, well or not."""
        self._attempts.pop(attempt.id, None)
        self._waiting.pop(attempt.id.request, None)
        settled = self._is_settled(attempt, settled)
        self.tell(AttemptFinished(self.now(), attempt.id, outcome, usage, settled))

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
        self._waiting.pop(attempt.id.request, None)
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

    def _expect(self, request: RequestId) -> "asyncio.Future[Dispatch | Refuse]":
        answer: asyncio.Future[Dispatch | Refuse] = asyncio.get_running_loop().create_future()
        self._waiting[request] = answer
        return answer

    def _perform(self, command: Command) -> None:
        if isinstance(command, Dispatch):
            self._answer(command.attempt.request, command)
        elif isinstance(command, Refuse):
            self._answer(command.request, command)
        elif isinstance(command, BreakOff):
            attempt = self._attempts.get(command.attempt)
            if attempt is not None:
                attempt.break_off(command.error)
            elif command.attempt.request in self._waiting:
                self._broken_off[command.attempt.request] = command

    def _answer(self, request: RequestId, command: Dispatch | Refuse) -> None:
        answer = self._waiting.get(request)
        if answer is not None and not answer.done():
            answer.set_result(command)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wakeup = self._scheduler.next_wakeup(self.now())
        if wakeup is not None and not self._is_closed:
            delay = max(0.0, wakeup - self.now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.tell(TimePassed(self.now()))

    def close(self) -> None:
        """Watch neither the time nor engines any more; what still runs may only end."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
