"""What is kept of a request that ended: its attempts, its times, its tokens. Never a word of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pairproxy.core.accounting.services import Service
from pairproxy.core.models import (
    Candidate,
    Decision,
    Dialect,
    ModelName,
    NodeId,
    Outcome,
    Place,
    RequestId,
    Usage,
)

BROKEN: Final = "broken"
"""How an attempt ended whose reply lost its node after its first byte, where another node may go on."""
_OUTCOMES: Final = frozenset(outcome.value for outcome in Outcome)


@dataclass(slots=True, unsafe_hash=True, init=False)
class AttemptRecord:
    """One try on one place. Times are seconds on the origin's clock."""

    number: Final[int]
    place: Final[Place]
    reason: Final[str]  # the decision's
    predicted_finish_s: Final[float | None]  # from the dispatch on, as the decision priced this place
    dispatched_at: Final[float]
    first_byte_at: Final[float | None]
    ended_at: Final[float]
    end: Final[str]  # an outcome, BROKEN, or the class of the error that ended it before its first body byte
    decision: Final[Decision | None]  # None: no longer kept (ledger.LIMIT_DECISIONS)
    delivered_tokens: Final[int]  # of a reply that was broken off here and may have gone on elsewhere

    def __init__(
        self,
        number: int,
        place: Place,
        reason: str,
        predicted_finish_s: float | None,
        dispatched_at: float,
        first_byte_at: float | None,
        ended_at: float,
        end: str,
        decision: Decision | None = None,
        delivered_tokens: int = 0,
    ) -> None:
        self.number, self.place, self.reason = number, place, reason
        self.predicted_finish_s, self.dispatched_at = predicted_finish_s, dispatched_at
        self.first_byte_at, self.ended_at, self.end = first_byte_at, ended_at, end
        self.decision, self.delivered_tokens = decision, delivered_tokens

    def without_decision(self) -> "AttemptRecord":
        """What is kept of it when its decision is not. One call: dataclasses.replace asks for every field."""
        return AttemptRecord(
            self.number, self.place, self.reason, self.predicted_finish_s, self.dispatched_at,
            self.first_byte_at, self.ended_at, self.end, None, self.delivered_tokens,
        )  # fmt: skip

    @property
    def is_broken(self) -> bool:
        """Whether its reply lost its node in the middle, and another one was asked for the rest."""
        return self.end == BROKEN

    @property
    def is_served(self) -> bool:
        """Whether the place did its part: it ended with an outcome, not with an error of the way there."""
        return self.end in _OUTCOMES

    @property
    def priced(self) -> Candidate | None:
        """This place as the decision priced it; None: the decision is no longer kept."""
        candidates = self.decision.candidates if self.decision else ()
        return next((candidate for candidate in candidates if candidate.place == self.place), None)


@dataclass(slots=True, unsafe_hash=True, init=False)
class RequestRecord:
    """One request that ended. Holds no text of it. Times are seconds on the origin's clock."""

    id: Final[RequestId]
    model: Final[ModelName]
    dialect: Final[Dialect]
    path: Final[str]
    client: Final[str]
    run: Final[str | None]
    origin: Final[NodeId | None]  # the peer it came from; None: a client of this machine
    arrived_at: Final[float]
    ended_at: Final[float]
    attempts: Final[tuple[AttemptRecord, ...]]  # in the order they ended: the last is the final one
    outcome: Final[Outcome]
    usage: Final[Usage]
    chain: Final[str]  # Request.chain
    prefix: Final[tuple[int, ...]]  # Request.prefix, while it is kept (ledger.LIMIT_BLOCKS)
    prompt_tokens: Final[int]  # as estimated on arrival; what the engine counted is in ``usage``
    max_output_tokens: Final[int | None]
    is_streaming: Final[bool]
    trace: Final[str]  # Request.trace
    error: Final[str]  # the class name of the error that ended it; for a refusal, its sentence as well

    def __init__(
        self,
        id: RequestId,  # noqa: A002  the name of the field
        model: ModelName,
        dialect: Dialect,
        path: str,
        client: str,
        run: str | None,
        origin: NodeId | None,
        arrived_at: float,
        ended_at: float,
        attempts: tuple[AttemptRecord, ...],
        outcome: Outcome,
        usage: Usage,
        chain: str = "",
        prefix: tuple[int, ...] = (),
        prompt_tokens: int = 0,
        max_output_tokens: int | None = None,
        is_streaming: bool = True,
        trace: str = "",
        error: str = "",
    ) -> None:
        self.id, self.model, self.dialect = id, model, dialect
        self.path, self.client, self.run = path, client, run
        self.origin, self.arrived_at, self.ended_at = origin, arrived_at, ended_at
        self.attempts, self.outcome, self.usage = attempts, outcome, usage
        self.chain, self.prefix, self.prompt_tokens = chain, prefix, prompt_tokens
        self.max_output_tokens = max_output_tokens
        self.is_streaming, self.trace, self.error = is_streaming, trace, error

    def without_decisions(self) -> "RequestRecord":
        """What is kept of it when its decisions are not; see AttemptRecord.without_decision."""
        attempts = tuple([attempt.without_decision() for attempt in self.attempts])
        return RequestRecord(
            self.id, self.model, self.dialect, self.path, self.client, self.run, self.origin, self.arrived_at,
            self.ended_at, attempts, self.outcome, self.usage, self.chain, self.prefix, self.prompt_tokens,
            self.max_output_tokens, self.is_streaming, self.trace, self.error,
        )  # fmt: skip

    @property
    def final(self) -> AttemptRecord | None:
        """The attempt that ended last; None: it never left the queue."""
        return self.attempts[-1] if self.attempts else None

    @property
    def continued(self) -> int:
        """How often its reply lost its node in the middle and went on at another one."""
        broken = [attempt.number for attempt in self.attempts if attempt.is_broken]
        begun = [attempt.number for attempt in self.attempts if attempt.first_byte_at is not None]
        return sum(number < max(begun, default=0) for number in broken)

    @property
    def place(self) -> Place | None:
        """Where its final attempt ran."""
        return self.attempts[-1].place if self.attempts else None

    @property
    def queue_s(self) -> float:
        """From arrival to the dispatch of the final attempt; its whole life if there was none."""
        return (self.attempts[-1].dispatched_at if self.attempts else self.ended_at) - self.arrived_at

    @property
    def ttft_s(self) -> float | None:
        """From arrival to the first body byte; None if there was none."""
        for attempt in self.attempts:
            if attempt.end == BROKEN:
                break
        else:
            if not self.attempts:
                return None
            attempt = self.attempts[-1]
        return None if attempt.first_byte_at is None else attempt.first_byte_at - self.arrived_at

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
        delivered = sum(attempt.delivered_tokens for attempt in self.attempts)
        for attempt in self.attempts:
            is_reply = attempt is self.final and attempt.is_served
            rest = max((self.usage.output_tokens or 0) - delivered, 0)
            yield Service(
                place=attempt.place,
                start_s=attempt.dispatched_at,
                end_s=attempt.ended_at,
                output_tokens=rest if is_reply else attempt.delivered_tokens,
                prompt_tokens=(self.usage.prompt_tokens or 0) if is_reply else 0,
                is_reply=is_reply,
            )
