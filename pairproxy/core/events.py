"""What happened, in the past tense. ``at`` is seconds on the origin's monotonic clock."""

from dataclasses import dataclass

from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import AttemptId, NodeId, Outcome, Request, RequestId, StateDocument, Usage


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """A client (``request.origin is None``) or a peer asked."""

    at: float
    request: Request


@dataclass(frozen=True, slots=True)
class RequestAbandoned:
    """The client left. ``settled``: whether the engine is known to be free of it already."""

    at: float
    request: RequestId
    settled: bool = True


@dataclass(frozen=True, slots=True)
class FirstByteReceived:
    """The first body byte of a reply reached us: from here on no other node can answer."""

    at: float
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    """A reply ended: done, error (the engine's own) or truncated."""

    at: float
    attempt: AttemptId
    outcome: Outcome
    usage: Usage


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt ended before its first body byte. The request may go to another node.

    ``settled``: whether the engine is known to be free of it; if not, an EngineSettled follows.
    """

    at: float
    attempt: AttemptId
    error: PairproxyError
    settled: bool = True


@dataclass(frozen=True, slots=True)
class EngineSettled:
    """The engine is really free of an attempt that was abandoned or broken off."""

    at: float
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class NodeReported:
    """A state document arrived, or the monitor wrote a new one for this node itself."""

    at: float
    document: StateDocument


@dataclass(frozen=True, slots=True)
class NodeLost:
    """No state document for too long, or its connection ended and did not come back."""

    at: float
    node: NodeId


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
    | EngineSettled
    | NodeReported
    | NodeLost
    | TimePassed
)
