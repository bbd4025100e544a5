"""One try of a request at one place: an async context manager around the talk with the upstream.

Leaving the block stamps what happened (pairproxy.dispatcher).
"""

import asyncio
from collections.abc import Callable
from types import TracebackType

from pairproxy.core.commands import Dispatch
from pairproxy.core.errors import BrokenReply, Moved, NodeGone, PairproxyError, ReplyTruncated
from pairproxy.core.events import Event, FirstByteReceived
from pairproxy.core.models import AttemptId, Decision, Outcome, Place, Request, Usage


class Desk:
    """Where an attempt reports (the dispatcher). No Protocol: compiled, its methods are called directly."""

    def now(self) -> float:
        """Seconds on this node's monotonic clock."""
        raise NotImplementedError

    def tell(self, event: Event) -> None:
        """Something happened."""

    def end(self, attempt: "Attempt", outcome: Outcome, usage: Usage, settled: bool) -> None:
        """The reply ended, well or not."""

    def fail(self, attempt: "Attempt", error: PairproxyError, settled: bool) -> None:
        """It failed before its first byte."""

    def lose(self, attempt: "Attempt", delivered_tokens: int, settled: bool) -> None:
        """It broke after its first byte, where another node can be asked for the rest."""

    def abandon(self, attempt: "Attempt", settled: bool) -> None:
        """The client left in the middle of it."""


SaidAll = Callable[[], Usage | None]
"""The usage of a reply whose last record is here, though not the end of its message; else None."""
GoesOn = Callable[[], bool]
"""Whether bytes of its reply came just now; if so, whoever answers breaks it off as soon as they do not."""
Written = Callable[[], int]
"""About how many tokens of its reply came so far; of one that comes in one piece none are seen."""
Delivered = Callable[[], int | None]
"""Tokens that an attempt added to a reply, if another node can be asked for the rest of it; else None."""


def _said_nothing() -> None:
    return None


def _wrote_nothing() -> int:
    return 0


def _is_still() -> bool:
    return False


class Attempt:
    """One try of a request at one place; an async context manager around the talk with the upstream."""

    __slots__ = (
        "_broken_off", "_cancelling", "_desk", "_has_first_byte", "_interruption", "_is_interrupted",
        "_is_moved", "_is_over", "_task", "decision", "delivered", "goes_on", "id", "is_sent", "is_whole",
        "place", "queued_s", "quiet_s", "request", "said_all", "written",
    )  # fmt: skip

    def __init__(
        self,
        desk: Desk,
        request: Request,
        command: Dispatch,
        queued_s: float,
        *,
        is_moved: bool = False,
    ) -> None:
        self.request = request
        self.queued_s = queued_s
        self.id: AttemptId = command.attempt
        self.decision: Decision = command.decision
        self.quiet_s = command.quiet_s
        self.is_sent = False
        self.is_whole = False
        """Whether the end of its reply came with its first byte, which is told with it then."""
        self.place: Place = command.decision.place
        self.said_all: SaidAll = _said_nothing
        self.written: Written = _wrote_nothing
        self.delivered: Delivered = _said_nothing
        self.goes_on: GoesOn = _is_still
        self._desk = desk
        self._is_moved = is_moved
        self._task: asyncio.Task[object] | None = None  # what is in the block
        self._cancelling = 0  # how often that was cancelled before
        self._broken_off: PairproxyError | None = None
        self._interruption: asyncio.Handle | None = None
        self._is_interrupted = False
        self._has_first_byte = False
        self._is_over = False

    @property
    def is_last_resort(self) -> bool:
        """Whether no other place could take the request; the one that it was taken back from still could."""
        return len(self.decision.candidates) <= 1 and not self._is_moved

    @property
    def is_taken_back(self) -> bool:
        """Whether it ended to be done elsewhere."""
        return isinstance(self._broken_off, Moved)

    def first_byte(self, *, is_error: bool = False, is_whole: bool = False) -> None:
        """Say that the first body byte is here; from now on the client gets this reply or its ruin.

        If it was to be taken back in this very moment, it is not. ``is_error``: the reply is the engine's own
        error. ``is_whole``: all of it is here, and finish() follows at once.
        """
        self._has_first_byte = True
        if self.is_taken_back and not self._is_interrupted:
            self._broken_off = None
            if self._interruption is not None:
                self._interruption.cancel()
        self.is_whole = is_whole and not self.request.is_streaming
        if not self.is_whole:  # else it need not be planned twice in one moment
            self._desk.tell(FirstByteReceived(self._desk.now(), self.id, is_error))

    def finish(self, outcome: Outcome, usage: Usage) -> None:
        """Say that the reply ended, and how."""
        self._end(outcome, usage, settled=outcome is not Outcome.TRUNCATED)

    def break_off(self, error: PairproxyError) -> None:
        """Interrupt whatever the block awaits; the block ends with ``error``.

        Not a reply that goes on to come although its node is said to be gone, while it does (goes_on).
        """
        if self._is_interrupted:
            return  # it is being broken off already
        if self._has_first_byte and isinstance(error, NodeGone) and self.goes_on():
            return
        self._broken_off = error
        if self._task is not None and not self._is_over:
            self._interrupt_soon(self._task)

    def _interrupt_soon(self, task: "asyncio.Task[object]") -> None:
        """In the next turn of the loop: until then the first byte may come."""
        if self._interruption is not None:
            self._interruption.cancel()
        self._interruption = task.get_loop().call_soon(self._interrupt, task)

    def _interrupt(self, task: "asyncio.Task[object]") -> None:
        self._is_interrupted = True
        task.cancel()

    async def __aenter__(self) -> "Attempt":
        # As asyncio.timeout does it, but in a tenth of the time: hardly any attempt is interrupted.
        self._task = task = asyncio.current_task()
        if task is None:
            raise RuntimeError("an attempt is carried out in a task")
        self._cancelling = task.cancelling()
        if self._broken_off is not None:
            self._interrupt_soon(task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self._interruption is not None:
            self._interruption.cancel()
        if self._is_interrupted and self._was_interrupted(kind):
            error = self._broken_off or NodeGone("The node stopped answering.")
        # A cancelled task keeps its error, which keeps this block: both would wait for a look for garbage.
        self._task = None
        if self._is_over:
            return False
        if error is None:
            error = BrokenReply("The reply ended without an outcome.")
        return self._failed(error)

    def _was_interrupted(self, kind: type[BaseException] | None) -> bool:
        """Whether the block ended because it was interrupted, and not because its task is cancelled."""
        left = self._task.uncancel() if self._task is not None else 0
        return left <= self._cancelling and kind is asyncio.CancelledError

    def _failed(self, error: BaseException) -> bool:
        """Stamp a failure; True: it is dealt with, go round the loop."""
        if self.is_whole:
            self.is_whole = False
            self._desk.tell(FirstByteReceived(self._desk.now(), self.id))
        settled = not self.is_sent
        if isinstance(error, asyncio.CancelledError | ConnectionError):  # the client left
            usage = self.said_all()
            if usage is not None:
                # OpenAI's client leaves at [DONE]: the work is done, and nothing has to settle.
                self._end(Outcome.DONE, usage, settled=True)
                return False
            self._is_over = True
            self._desk.abandon(self, settled)
            return False
        if not isinstance(error, PairproxyError):  # a fault of ours: it stays visible, the slot is given back
            self._is_over = True
            self._desk.fail(self, PairproxyError("pairproxy failed; its log says where."), settled)
            return False
        if self._has_first_byte:
            delivered_tokens = self.delivered()
            if delivered_tokens is not None:
                self._is_over = True
                self._desk.lose(self, delivered_tokens, settled)
                return True
            self._end(Outcome.TRUNCATED, Usage(), settled)
            if isinstance(error, ReplyTruncated):
                return False
            raise ReplyTruncated("The node that was answering was lost. Send the request again.") from None
        self._is_over = True
        self._desk.fail(self, error, settled)
        return True

    def _end(self, outcome: Outcome, usage: Usage, settled: bool) -> None:
        self._is_over = True
        self._desk.end(self, outcome, usage, settled)
