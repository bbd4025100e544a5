"""The ledger: hears every event and what it led to, writes one record per request that ended.

How a request ends, and what the record says:

1. AttemptFinished            its outcome: done, error or truncated
2. RequestAbandoned           cancelled
3. Refuse with a Refusal      refused (queue full, waited too long, a peer's slot was taken)
4. Refuse with ReplyTruncated truncated: its reply lost its node, and nobody could go on with it
5. Refuse with another error  failed

AttemptFailed and ReplyBroken end an attempt, not the request: the commands they led to say how it goes on.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pairproxy.core.accounting.open_requests import OpenAttempt, OpenRequest
from pairproxy.core.accounting.records import BROKEN, RequestRecord
from pairproxy.core.commands import Command, Dispatch, Refuse
from pairproxy.core.errors import PairproxyError, Refusal, ReplyTruncated
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    Event,
    FirstByteReceived,
    ReplyBroken,
    RequestAbandoned,
    RequestArrived,
)
from pairproxy.core.models import AttemptId, Outcome, Request, RequestId, Usage

__all__ = ["Ledger", "RequestRecord"]

LIMIT_RECORDS: Final = 4096  # about 1 kB each; an agent job is tens of requests: days of one person
LIMIT_OPEN: Final = 4096  # far above a full queue (256) and all slots of a cluster: reached only by a fault
LIMIT_DECISIONS: Final = 512  # requests, the last ones; a decision among ten places is about 3 kB
LIMIT_BLOCKS: Final = 262_144  # of prompts' hashes, about 40 bytes each: the last 17 million tokens
GUESTS_PART: Final = 4  # a fourth of each in addition for peers' requests, which must not push out our own
_WORDS: Final = {one: one.value for one in Outcome}  # an enumeration's own ``value`` takes six times as long


class Ledger:
    """One record per request that ended: the last ``limit_records`` of this node's, fewer of its guests'.

    The last LIMIT_DECISIONS of them say how their places were chosen, and the last ones with LIMIT_BLOCKS
    blocks together how their prompts begin. ``overlooked`` counts the arrivals it did not follow: an id that
    is open already, or more than ``limit_open`` open at once. Every other arrival becomes exactly one record.
    """

    def __init__(
        self,
        limit_records: int = LIMIT_RECORDS,
        limit_open: int = LIMIT_OPEN,
        *,
        limit_decisions: int = LIMIT_DECISIONS,
        limit_blocks: int = LIMIT_BLOCKS,
    ) -> None:
        self.overlooked = 0
        self._limit_open = limit_open
        self._open: dict[RequestId, OpenRequest] = {}
        limits = limit_records, limit_decisions, limit_blocks
        self._own = _Shelf(*limits)
        self._guests = _Shelf(*(max(limit // GUESTS_PART, 1) for limit in limits))
        self._ended = 0
        self._followers: list[Callable[[RequestRecord], None]] = []

    def follow(self, follower: Callable[[RequestRecord], None]) -> None:
        """Let ``follower`` hear each record when its request ends, guests' too; it must not take long."""
        self._followers.append(follower)

    @property
    def records(self) -> tuple[RequestRecord, ...]:
        """Requests that ended, the earliest end first."""
        own, guests = self._own, self._guests
        if not guests.outcomes:
            return tuple(own.records)
        both = dict(zip(own.numbers + guests.numbers, own.records + guests.records, strict=True))
        return tuple([both[number] for number in sorted(both)])

    @property
    def ended(self) -> int:
        """How many requests ended by now; grows with each of them."""
        return self._ended

    @property
    def outcomes(self) -> dict[str, int]:
        """How many of the records ended so."""
        both = Counter(self._own.outcomes) + Counter(self._guests.outcomes)
        return {how.value: count for how, count in both.items()}

    @property
    def open_requests(self) -> int:
        """Requests that arrived and have not ended."""
        return len(self._open)

    def opened(self) -> tuple[OpenRequest, ...]:
        """Those, in the order of their arrival. They change as they go on; read them at once."""
        return tuple(self._open.values())

    def find_open(self, request: RequestId) -> OpenRequest | None:
        """A request that has not ended."""
        return self._open.get(request)

    def find(self, request: RequestId) -> RequestRecord | None:
        """The latest record of a request; None if it is open, unknown or no longer kept."""
        return next((record for record in reversed(self.records) if record.id == request), None)

    def record(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in one event and the commands it led to, right after Scheduler.handle()."""
        overlooked = self._take_in(event)
        for command in commands:
            if isinstance(command, Dispatch) and command.attempt.request != overlooked:
                self._start(event.at, command)
            elif isinstance(command, Refuse) and command.request != overlooked:
                self._close(command.request, event.at, _outcome_of(command.error), error=command.error)

    def _take_in(self, event: Event) -> RequestId | None:
        """Note the event; returns the id of an arrival that is not followed."""
        if isinstance(event, RequestArrived):
            return self._open_request(event.at, event.request)
        if isinstance(event, FirstByteReceived):
            running = self._find_attempt(event.attempt)
            if running is not None and running.first_byte_at is None:
                running.first_byte_at = event.at
        elif isinstance(event, AttemptFinished):
            self._finish(event)
        elif isinstance(event, RequestAbandoned):
            self._close(event.request, event.at, Outcome.CANCELLED)
        elif isinstance(event, AttemptFailed):
            self._end_attempt(event.attempt, event.at, type(event.error).__name__)
        elif isinstance(event, ReplyBroken):
            self._end_attempt(event.attempt, event.at, BROKEN, event.delivered_tokens)
        return None  # the others are about nodes, or about slots after the end of a request

    def _open_request(self, at: float, request: Request) -> RequestId | None:
        if request.id in self._open or len(self._open) >= self._limit_open:
            self.overlooked += 1
            return request.id
        self._open[request.id] = OpenRequest(request, at)
        return None

    def _find_attempt(self, attempt: AttemptId) -> OpenAttempt | None:
        opened = self._open.get(attempt.request)
        return opened.running.get(attempt.number) if opened else None

    def _end_attempt(self, attempt: AttemptId, at: float, end: str, delivered_tokens: int = 0) -> None:
        if (opened := self._open.get(attempt.request)) is not None:
            opened.end_attempt(attempt.number, at, end, delivered_tokens)

    def _start(self, at: float, command: Dispatch) -> None:
        if (opened := self._open.get(command.attempt.request)) is not None:
            number = command.attempt.number
            opened.running[number] = OpenAttempt(number, command.decision, at)

    def _finish(self, event: AttemptFinished) -> None:
        """Close the request by the attempt that answered; another one still running was for nothing."""
        opened = self._open.get(event.attempt.request)
        if opened is None or event.attempt.number not in opened.running:
            return
        if len(opened.running) > 1:
            for number in [number for number in opened.running if number != event.attempt.number]:
                opened.end_attempt(number, event.at, Outcome.CANCELLED.value)
        if event.is_whole:
            opened.running[event.attempt.number].first_byte_at = event.at
        opened.end_attempt(event.attempt.number, event.at, _WORDS[event.outcome])
        self._close(event.attempt.request, event.at, event.outcome, event.usage)

    def _close(
        self,
        request: RequestId,
        at: float,
        outcome: Outcome,
        usage: Usage | None = None,
        error: PairproxyError | None = None,
    ) -> None:
        opened = self._open.pop(request, None)
        if opened is None:
            return
        for number in list(opened.running):
            opened.end_attempt(number, at, outcome.value)
        said = "" if error is None else f"{type(error).__name__}: {error.sentence}"
        self._keep(opened.close(at, outcome, Usage() if usage is None else usage, said))

    def _keep(self, record: RequestRecord) -> None:
        shelf = self._own if record.origin is None else self._guests
        shelf.put(self._ended, record)
        self._ended += 1
        for follower in self._followers:
            follower(record)


class _Shelf:
    """The last records, a ring: the next one takes the place of the one that ended first."""

    def __init__(self, limit_records: int, limit_decisions: int, limit_blocks: int) -> None:
        self.outcomes: dict[Outcome, int] = {}
        self._limit = max(limit_records, 1)
        self._limit_decisions = limit_decisions
        self._limit_blocks = limit_blocks
        self._records: list[RequestRecord] = []
        self._numbers: list[int] = []  # theirs, among all that ended
        self._next = 0  # where the next one goes
        self._prefixed: deque[int] = deque()  # where those are that still have their prefix, the oldest first
        self._blocks = 0

    @property
    def records(self) -> list[RequestRecord]:
        """All of them, the earliest end first."""
        return self._records[self._next :] + self._records[: self._next]

    @property
    def numbers(self) -> list[int]:
        """How many ended before each of them."""
        return self._numbers[self._next :] + self._numbers[: self._next]

    def put(self, number: int, record: RequestRecord) -> None:
        """Put down the next record."""
        at, outcome = self._next, record.outcome
        self._next = at + 1 if at + 1 < self._limit else 0
        if at == len(self._records):
            self._records.append(record)
            self._numbers.append(number)
        else:
            self._let_go(self._records[at])
            self._records[at] = record
            self._numbers[at] = number
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if self._limit_decisions < self._limit:
            self._strip_decisions(at - self._limit_decisions)
        if record.prefix:
            self._prefixed.append(at)
            self._blocks += len(record.prefix)
            while self._blocks > self._limit_blocks:
                self._strip_prefix(self._prefixed.popleft())

    def _let_go(self, record: RequestRecord) -> None:
        self.outcomes[record.outcome] -= 1
        if record.prefix:
            self._blocks -= len(record.prefix)
            self._prefixed.popleft()  # the oldest of those that have one

    def _strip_decisions(self, at: int) -> None:
        if at < 0:
            at += self._limit  # where nothing is yet until the ring is full
        if at < len(self._records):
            self._records[at] = self._records[at].without_decisions()

    def _strip_prefix(self, at: int) -> None:
        record = self._records[at]
        self._blocks -= len(record.prefix)
        self._records[at] = replace(record, prefix=())


def _outcome_of(error: PairproxyError) -> Outcome:
    """How a request ended that was refused with this error."""
    if isinstance(error, ReplyTruncated):
        return Outcome.TRUNCATED
    return Outcome.REFUSED if isinstance(error, Refusal) else Outcome.FAILED
