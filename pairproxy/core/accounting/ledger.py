"""The ledger: hears every event and what it led to, writes one record per request that ended.

How a request ends, and what the record says:

1. AttemptFinished            its outcome: done, error or truncated
2. RequestAbandoned           cancelled
3. Refuse with a Refusal      refused (queue full, waited too long, a peer's slot was taken)
4. Refuse with another error  failed

AttemptFailed ends an attempt, not the request: the commands it led to say how it goes on.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pairproxy.core.accounting.services import Service
from pairproxy.core.commands import Command, Dispatch, Refuse
from pairproxy.core.errors import Refusal
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    Event,
    FirstByteReceived,
    RequestAbandoned,
    RequestArrived,
)
from pairproxy.core.models import (
    AttemptId,
    Decision,
    Dialect,
    ModelName,
    NodeId,
    Outcome,
    Place,
    Request,
    RequestId,
    Usage,
)

LIMIT_RECORDS = 4096  # about 1 kB each; an agent job is tens of requests, so this is days of one person
LIMIT_OPEN = 4096  # far above a full queue (256) and all slots of a cluster: reached only by a fault
LIMIT_ATTEMPTS = 16  # per request; refused slots do not count against a request's tries, so there is no other
_OUTCOMES = frozenset(outcome.value for outcome in Outcome)


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One try on one place. Times are seconds on the origin's clock."""

    number: int
    place: Place
    reason: str  # the decision's
    predicted_finish_s: float | None  # from the dispatch on, as the decision priced this place
    dispatched_at: float
    first_byte_at: float | None
    ended_at: float
    end: str  # an outcome, or the class name of the error that ended it before its first body byte

    @property
    def is_served(self) -> bool:
        """Whether the place did its part: it ended with an outcome, not with an error of the way there."""
        return self.end in _OUTCOMES


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that ended. Holds no text of it. Times are seconds on the origin's clock."""

    id: RequestId
    model: ModelName
    dialect: Dialect
    path: str
    client: str
    run: str | None
    origin: NodeId | None  # the peer it came from; None: a client of this machine
    arrived_at: float
    ended_at: float
    attempts: tuple[AttemptRecord, ...]  # in the order they ended: the last is the final one
    outcome: Outcome
    usage: Usage

    @property
    def final(self) -> AttemptRecord | None:
        """The attempt that ended last; None: it never left the queue."""
        return self.attempts[-1] if self.attempts else None

    @property
    def place(self) -> Place | None:
        """Where its final attempt ran."""
        return self.final.place if self.final else None

    @property
    def queue_s(self) -> float:
        """From arrival to the dispatch of the final attempt; its whole life if there was none."""
        return (self.final.dispatched_at if self.final else self.ended_at) - self.arrived_at

    @property
    def ttft_s(self) -> float | None:
        """From arrival to the first body byte; None if there was none."""
        if self.final is None or self.final.first_byte_at is None:
            return None
        return self.final.first_byte_at - self.arrived_at

    @property
    def service_s(self) -> float | None:
        """How long the final attempt held a slot; None if there was none."""
        return self.final.ended_at - self.final.dispatched_at if self.final else None

    @property
    def latency_s(self) -> float:
        """From arrival to the end."""
        return self.ended_at - self.arrived_at

    def services(self) -> Iterator[Service]:
        """Each attempt as the time it held a slot; the tokens belong to the final one, if it was served."""
        for attempt in self.attempts:
            is_reply = attempt is self.final and attempt.is_served
            yield Service(
                place=attempt.place,
                start_s=attempt.dispatched_at,
                end_s=attempt.ended_at,
                output_tokens=(self.usage.output_tokens or 0) if is_reply else 0,
                prompt_tokens=(self.usage.prompt_tokens or 0) if is_reply else 0,
                is_reply=is_reply,
            )


@dataclass(slots=True)
class _OpenAttempt:
    number: int
    decision: Decision
    dispatched_at: float
    first_byte_at: float | None = None

    def close(self, at: float, end: str) -> AttemptRecord:
        decision = self.decision
        priced = (candidate for candidate in decision.candidates if candidate.place == decision.place)
        return AttemptRecord(
            number=self.number,
            place=decision.place,
            reason=decision.reason,
            predicted_finish_s=next((candidate.finish_s for candidate in priced), None),
            dispatched_at=self.dispatched_at,
            first_byte_at=self.first_byte_at,
            ended_at=at,
            end=end,
        )


@dataclass(slots=True)
class _OpenRequest:
    request: Request
    arrived_at: float
    running: dict[int, _OpenAttempt] = field(default_factory=dict)
    ended: deque[AttemptRecord] = field(default_factory=lambda: deque(maxlen=LIMIT_ATTEMPTS))

    def end_attempt(self, number: int, at: float, end: str) -> bool:
        """End one attempt; False if it is not running (it ended before, or was never dispatched)."""
        attempt = self.running.pop(number, None)
        if attempt is None:
            return False
        self.ended.append(attempt.close(at, end))
        return True

    def close(self, at: float, outcome: Outcome, usage: Usage) -> RequestRecord:
        request = self.request
        return RequestRecord(
            id=request.id,
            model=request.model,
            dialect=request.dialect,
            path=request.path,
            client=request.client,
            run=request.run,
            origin=request.origin,
            arrived_at=self.arrived_at,
            ended_at=at,
            attempts=tuple(self.ended),
            outcome=outcome,
            usage=usage,
        )


class Ledger:
    """One record per request that ended, the last ``limit_records`` of them.

    ``overlooked`` counts the arrivals it did not follow: an id that is open already, or more than
    ``limit_open`` open at once. Every other arrival becomes exactly one record.
    """

    def __init__(self, limit_records: int = LIMIT_RECORDS, limit_open: int = LIMIT_OPEN) -> None:
        self.overlooked = 0
        self._limit_open = limit_open
        self._open: dict[RequestId, _OpenRequest] = {}
        self._records: deque[RequestRecord] = deque(maxlen=limit_records)

    @property
    def records(self) -> tuple[RequestRecord, ...]:
        """Requests that ended, the earliest end first."""
        return tuple(self._records)

    @property
    def open_requests(self) -> int:
        """Requests that arrived and have not ended."""
        return len(self._open)

    def find(self, request: RequestId) -> RequestRecord | None:
        """The latest record of a request; None if it is open, unknown or no longer kept."""
        return next((record for record in reversed(self._records) if record.id == request), None)

    def record(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in one event and the commands it led to, right after Scheduler.handle()."""
        overlooked = self._take_in(event)
        for command in commands:
            if isinstance(command, Dispatch) and command.attempt.request != overlooked:
                self._start(event.at, command)
            elif isinstance(command, Refuse) and command.request != overlooked:
                is_refusal = isinstance(command.error, Refusal)
                self._close(command.request, event.at, Outcome.REFUSED if is_refusal else Outcome.FAILED)

    def _take_in(self, event: Event) -> RequestId | None:
        """Note the event; returns the id of an arrival that is not followed."""
        match event:
            case RequestArrived(at, request):
                return self._open_request(at, request)
            case FirstByteReceived(at, attempt):
                running = self._find_attempt(attempt)
                if running is not None and running.first_byte_at is None:
                    running.first_byte_at = at
            case AttemptFailed():
                if (opened := self._open.get(event.attempt.request)) is not None:
                    opened.end_attempt(event.attempt.number, event.at, type(event.error).__name__)
            case AttemptFinished():
                self._finish(event)
            case RequestAbandoned():
                self._close(event.request, event.at, Outcome.CANCELLED)
            case _:
                pass  # the others are about nodes, or about slots after the end of a request
        return None

    def _open_request(self, at: float, request: Request) -> RequestId | None:
        if request.id in self._open or len(self._open) >= self._limit_open:
            self.overlooked += 1
            return request.id
        self._open[request.id] = _OpenRequest(request, at)
        return None

    def _find_attempt(self, attempt: AttemptId) -> _OpenAttempt | None:
        opened = self._open.get(attempt.request)
        return opened.running.get(attempt.number) if opened else None

    def _start(self, at: float, command: Dispatch) -> None:
        if (opened := self._open.get(command.attempt.request)) is not None:
            number = command.attempt.number
            opened.running[number] = _OpenAttempt(number, command.decision, at)

    def _finish(self, event: AttemptFinished) -> None:
        """Close the request by the attempt that answered; another one still running was for nothing."""
        opened = self._open.get(event.attempt.request)
        if opened is None or event.attempt.number not in opened.running:
            return
        for number in [number for number in opened.running if number != event.attempt.number]:
            opened.end_attempt(number, event.at, Outcome.CANCELLED.value)
        opened.end_attempt(event.attempt.number, event.at, event.outcome.value)
        self._close(event.attempt.request, event.at, event.outcome, event.usage)

    def _close(self, request: RequestId, at: float, outcome: Outcome, usage: Usage | None = None) -> None:
        opened = self._open.pop(request, None)
        if opened is None:
            return
        for number in list(opened.running):
            opened.end_attempt(number, at, outcome.value)
        self._records.append(opened.close(at, outcome, usage or Usage()))
