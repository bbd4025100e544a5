"""What to do, in the imperative: the scheduler's whole output."""

import math
from dataclasses import dataclass
from typing import Final

from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import AttemptId, Decision, RequestId


@dataclass(slots=True, unsafe_hash=True, init=False)
class Dispatch:
    """Send this request now to ``decision.place``."""

    attempt: Final[AttemptId]
    decision: Final[Decision]
    quiet_s: Final[float]  # in the middle of its stream: who is silent for longer is at work no more

    def __init__(self, attempt: AttemptId, decision: Decision, quiet_s: float = math.inf) -> None:
        self.attempt, self.decision, self.quiet_s = attempt, decision, quiet_s


@dataclass(slots=True, unsafe_hash=True, init=False)
class Enqueue:
    """Keep the client waiting: no place that would finish it sooner is free."""

    request: Final[RequestId]
    ahead: Final[int]  # how many requests stand before it

    def __init__(self, request: RequestId, ahead: int) -> None:
        self.request, self.ahead = request, ahead


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer the client with this error; the request is over."""

    request: RequestId
    error: PairproxyError


@dataclass(frozen=True, slots=True)
class BreakOff:
    """End this running attempt with ``error``: its node is gone. It reports its own end afterwards."""

    attempt: AttemptId
    error: PairproxyError


Command = Dispatch | Enqueue | Refuse | BreakOff
