"""What happened, in the past tense. ``at`` is seconds on the origin's monotonic clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pairproxy.core.documents import EngineReport, NodeCatalogue, StateDocument
from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import (
    AttemptId,
    EngineId,
    ModelName,
    NodeId,
    Outcome,
    Request,
    RequestId,
    Rights,
    Usage,
)
from pairproxy.core.rules import Rules


@dataclass(slots=True, unsafe_hash=True, init=False)
class RequestArrived:
    """A client (``request.origin is None``) or a peer asked."""

    at: Final[float]
    request: Final[Request]

    def __init__(self, at: float, request: Request) -> None:
        self.at, self.request = at, request


@dataclass(slots=True, unsafe_hash=True, init=False)
class RequestAbandoned:
    """The client left.

    ``settled``: whether the engine is known to be free of it; if not, an EngineSettled follows.
    """

    at: Final[float]
    request: Final[RequestId]
    settled: Final[bool]

    def __init__(self, at: float, request: RequestId, settled: bool = True) -> None:
        self.at, self.request, self.settled = at, request, settled


@dataclass(slots=True, unsafe_hash=True, init=False)
class FirstByteReceived:
    """The first body byte of a reply reached us: from here on no other node can answer.

    ``is_error``: it is the engine's own error, which says nothing of the prompt's having been read.
    """

    at: Final[float]
    attempt: Final[AttemptId]
    is_error: Final[bool]

    def __init__(self, at: float, attempt: AttemptId, is_error: bool = False) -> None:
        self.at, self.attempt, self.is_error = at, attempt, is_error


@dataclass(slots=True, unsafe_hash=True, init=False)
class AttemptFinished:
    """A reply ended: done, error (the engine's own) or truncated. ``settled`` as in RequestAbandoned.

    ``is_whole``: its first byte came with its end, and no FirstByteReceived was told; never of a stream.
    """

    at: Final[float]
    attempt: Final[AttemptId]
    outcome: Final[Outcome]
    usage: Final[Usage]
    settled: Final[bool]
    is_whole: Final[bool]

    def __init__(
        self,
        at: float,
        attempt: AttemptId,
        outcome: Outcome,
        usage: Usage,
        settled: bool = True,
        is_whole: bool = False,
    ) -> None:
        self.at, self.attempt, self.outcome = at, attempt, outcome
        self.usage, self.settled, self.is_whole = usage, settled, is_whole


@dataclass(slots=True, unsafe_hash=True, init=False)
class AttemptFailed:
    """An attempt ended before its first body byte. The request may go to another node.

    ``settled`` as in RequestAbandoned.
    """

    at: Final[float]
    attempt: Final[AttemptId]
    error: Final[PairproxyError]
    settled: Final[bool]

    def __init__(self, at: float, attempt: AttemptId, error: PairproxyError, settled: bool = True) -> None:
        self.at, self.attempt, self.error = at, attempt, error
        self.settled = settled


@dataclass(frozen=True, slots=True)
class ReplyBroken:
    """A reply lost its node after this attempt's ``delivered_tokens``; another one may go on from there.

    ``settled`` as in RequestAbandoned. One that nobody can go on with ends as truncated (AttemptFinished).
    """

    at: float
    attempt: AttemptId
    delivered_tokens: int
    settled: bool = True


@dataclass(frozen=True, slots=True)
class EngineSettled:
    """The engine is really free of an attempt that was abandoned or broken off."""

    at: float
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class EngineReported:
    """The monitor probed an engine of this node and found something new."""

    at: float
    report: EngineReport


@dataclass(frozen=True, slots=True)
class EngineLost:
    """An engine of this node no longer answers its probe."""

    at: float
    engine: EngineId


@dataclass(frozen=True, slots=True)
class SpeedMeasured:
    """A calibration of an engine of this node ended: tokens and seconds of all that ran, summed.

    ``company`` equal requests ran from its beginning to its end, and nothing else.
    """

    at: float
    engine: EngineId
    model: ModelName
    usage: Usage
    company: int = 1


@dataclass(frozen=True, slots=True)
class NodeReported:
    """A peer's state document arrived."""

    at: float
    document: StateDocument


@dataclass(frozen=True, slots=True)
class CatalogueReported:
    """A peer told what its engines list; it was asked because its state document said that this changed."""

    at: float
    catalogue: NodeCatalogue


@dataclass(frozen=True, slots=True)
class NodeLost:
    """No state document for too long, or its connection ended and did not come back."""

    at: float
    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeForgotten:
    """A person ended that this node uses a peer: nothing comes from it any more, and nothing goes there."""

    at: float
    node: NodeId


@dataclass(frozen=True, slots=True)
class DrainStarted:
    """This daemon is to stop: it takes no new request, and what it has may end."""

    at: float


@dataclass(frozen=True, slots=True)
class DrainEnded:
    """The time for that is over: what still waits for a place will not get one."""

    at: float


@dataclass(frozen=True, slots=True)
class RightsChanged:
    """A person set what peers may have of this node; whoever is not in ``rights`` may have all."""

    at: float
    rights: Mapping[NodeId, Rights]


@dataclass(frozen=True, slots=True)
class OfferChanged:
    """This node's slots are offered to its peers again (""), or no more, and why (documents.Withheld)."""

    at: float
    withheld: str


@dataclass(frozen=True, slots=True)
class RulesChanged:
    """A person set other rules; what runs and waits stays."""

    at: float
    rules: Rules


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The moment the scheduler asked to be woken at has come."""

    at: float


Event = (
    RequestArrived
    | RequestAbandoned
    | FirstByteReceived
    | AttemptFinished
    | AttemptFailed
    | ReplyBroken
    | EngineSettled
    | EngineReported
    | EngineLost
    | SpeedMeasured
    | NodeReported
    | CatalogueReported
    | NodeLost
    | NodeForgotten
    | DrainStarted
    | DrainEnded
    | RightsChanged
    | OfferChanged
    | RulesChanged
    | TimePassed
)
