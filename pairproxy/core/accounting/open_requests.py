"""A request that has not ended yet, as the ledger follows it."""

import math
from dataclasses import replace
from typing import Final

from pairproxy.core.accounting.records import AttemptRecord, RequestRecord
from pairproxy.core.models import Decision, NodeId, Outcome, Request, RequestId, Usage

LIMIT_ATTEMPTS: Final = 16  # per request; refused slots do not count against its tries, so there is no other

RUNNING, WAITING = "running", "waiting"
"""What is told of a request, or of an attempt, in the place of an outcome while it has none."""


class OpenAttempt:
    """One attempt that runs. ``dispatched_at`` as in AttemptRecord."""

    __slots__ = ("decision", "dispatched_at", "first_byte_at", "number")

    def __init__(self, number: int, decision: Decision, dispatched_at: float) -> None:
        self.number = number
        self.decision = decision
        self.dispatched_at = dispatched_at
        self.first_byte_at: float | None = None

    def close(self, at: float, end: str, delivered_tokens: int = 0) -> AttemptRecord:
        """Make the record of it."""
        decision, predicted_finish_s = self.decision, None
        for candidate in decision.candidates:
            if candidate.place is decision.place or candidate.place == decision.place:
                predicted_finish_s = candidate.finish_s
                break
        return AttemptRecord(
            self.number, decision.place, decision.reason, predicted_finish_s, self.dispatched_at,
            self.first_byte_at, at, end, decision, delivered_tokens,
        )  # fmt: skip


class OpenRequest:
    """A request that arrived, with its attempts: those that run by their number, and those that ended."""

    __slots__ = ("arrived_at", "ended", "request", "running")

    def __init__(self, request: Request, arrived_at: float) -> None:
        self.request = request
        self.arrived_at = arrived_at
        self.running: dict[int, OpenAttempt] = {}
        self.ended: list[AttemptRecord] = []  # the last LIMIT_ATTEMPTS

    @property
    def id(self) -> RequestId:
        """As in RequestRecord, like those that follow."""
        return self.request.id

    @property
    def client(self) -> str:
        """Who asked."""
        return self.request.client

    @property
    def run(self) -> str | None:
        """The name that the client gave to its run."""
        return self.request.run

    @property
    def origin(self) -> NodeId | None:
        """The peer it came from."""
        return self.request.origin

    @property
    def chain(self) -> str:
        """The name that the client gave to its chain."""
        return self.request.chain

    @property
    def prefix(self) -> tuple[int, ...]:
        """How its prompt begins."""
        return self.request.prefix

    @property
    def ended_at(self) -> float:
        """Later than all that is known: it has not ended."""
        return math.inf

    @property
    def state(self) -> str:
        """RUNNING, or WAITING for a place."""
        return RUNNING if self.running else WAITING

    def end_attempt(self, number: int, at: float, end: str, delivered_tokens: int = 0) -> bool:
        """End one attempt; False if it is not running (it ended before, or was never dispatched)."""
        attempt = self.running.pop(number, None)
        if attempt is None:
            return False
        self.ended.append(attempt.close(at, end, delivered_tokens))
        if len(self.ended) > LIMIT_ATTEMPTS:
            del self.ended[0]
        return True

    def so_far(self, at: float) -> RequestRecord:
        """What its record would be if it ended now, but for the outcome: its attempts that run end so."""
        record = self.close(at, Outcome.CANCELLED, Usage())
        running = [one.close(at, RUNNING) for one in self.running.values()]
        return replace(record, attempts=(*record.attempts, *running), usage=Usage())

    def close(self, at: float, outcome: Outcome, usage: Usage, error: str = "") -> RequestRecord:
        """Make the record of it. ``usage`` is the last attempt's."""
        asked = self.request
        return RequestRecord(
            asked.id, asked.model, asked.dialect, asked.path, asked.client, asked.run, asked.origin,
            self.arrived_at, at, tuple(self.ended), outcome, self._in_all(usage), asked.chain, asked.prefix,
            asked.prompt_tokens, asked.max_output_tokens, asked.is_streaming, asked.trace, error,
        )  # fmt: skip

    def _in_all(self, usage: Usage) -> Usage:
        """What a reply in several parts used: its last part read what the others delivered as a prompt."""
        delivered = 0
        for attempt in self.ended:
            delivered += attempt.delivered_tokens
        if delivered == 0:
            return usage
        prompt, output = usage.prompt_tokens, usage.output_tokens
        return replace(
            usage,
            prompt_tokens=None if prompt is None else max(prompt - delivered, 0),
            output_tokens=(output or 0) + delivered,
        )
