"""The one queue there is: requests of this machine that wait for a place, oldest first."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import Place, Request, RequestId

NOWHERE_S = 10.0  # how long a request waits for a model that some node had and none has now


@dataclass(slots=True)
class Waiting:
    """A request that is not over, in the queue or out on an attempt."""

    request: Request
    arrived_at: float
    attempts: int = 0  # dispatched so far
    failures: int = 0  # of these, the ones that count against its tries
    excluded: set[Place] = field(default_factory=set)
    last_error: PairproxyError | None = None
    is_announced: bool = False  # whether Enqueue was said
    nowhere_since: float | None = None  # since when no place can have it
    moves: int = 0  # how often it was taken back to be done elsewhere (core.rescue)
    left: set[Place] = field(default_factory=set)  # of the excluded, those it was taken back from

    def go_back(self) -> None:
        """Let it go anywhere again where it did not fail."""
        self.excluded -= self.left
        self.left.clear()


class RequestQueue:
    """Waiting requests in order, and how long each of them may wait."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waiting: deque[Waiting] = deque()

    @property
    def is_closed(self) -> bool:
        """Whether nothing may wait here any more."""
        return self._timeout_s == -math.inf

    def close(self) -> None:
        """From now on whatever waits is overdue."""
        self._timeout_s = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting)

    def __contains__(self, request: RequestId) -> bool:
        return any(waiting.request.id == request for waiting in self._waiting)

    def append(self, waiting: Waiting) -> None:
        """Take in a request that arrived."""
        self._waiting.append(waiting)

    def put_back(self, waiting: Waiting) -> None:
        """Take in a request whose attempt failed: it waited before all others."""
        waiting.is_announced = False
        self._waiting.appendleft(waiting)

    def keep(self, waiting: deque[Waiting]) -> None:
        """Let these, the oldest first, be what waits."""
        self._waiting = waiting

    def remove(self, request: RequestId) -> None:
        """Forget a request, if it waits."""
        self._waiting = deque(waiting for waiting in self._waiting if waiting.request.id != request)

    def take_overdue(self, at: float, has_place: Callable[[Waiting], bool]) -> list[Waiting]:
        """Take out those that waited too long, or too long for a model that is nowhere now."""
        overdue = []
        for waiting in self._waiting:
            if has_place(waiting):
                waiting.nowhere_since = None
            elif waiting.nowhere_since is None:
                waiting.nowhere_since = at
            if self._deadline(waiting) <= at:
                overdue.append(waiting)
        if overdue:
            gone = {id(waiting) for waiting in overdue}
            self._waiting = deque(waiting for waiting in self._waiting if id(waiting) not in gone)
        return overdue

    def next_deadline(self) -> float | None:
        """When the next of them will have waited too long; None: nothing waits."""
        return min(map(self._deadline, self._waiting), default=None)

    def _deadline(self, waiting: Waiting) -> float:
        deadline = waiting.arrived_at + self._timeout_s
        if waiting.nowhere_since is not None:
            deadline = min(deadline, waiting.nowhere_since + NOWHERE_S)
        return deadline
