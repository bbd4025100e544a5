"""What to do, in the imperative: the scheduler's whole output."""

import math
from dataclasses import dataclass

from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import AttemptId, Decision, RequestId
from pairproxy.core.values import value


@value(frozen=True, slots=True)
class Dispatch:
    """Send this request now to ``decision.place``."""

    attempt: AttemptId
    decision: Decision
    quiet_s: float = math.inf  # in the middle of its stream: who is silent for longer is at work no more


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Keep the client waiting: no place that would finish it sooner is free."""

    request: RequestId
    ahead: int  # how many requests stand before it


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
