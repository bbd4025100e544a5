"""Time without waiting: an agenda of what happens when, worked off in order."""

import heapq
from collections.abc import Callable
from itertools import count

Act = Callable[[float], None]
"""Does something at the time (seconds) it is given."""


class VirtualClock:
    """Acts in the order of their times; those of one time in the order they were put down."""

    def __init__(self) -> None:
        self._agenda: list[tuple[float, int, bool, Act]] = []
        self._numbers = count()
        self._due = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing but heartbeats is to come."""
        return self._due == 0

    def at(self, at: float, act: Act, *, is_heartbeat: bool = False) -> None:
        """Put down an act. A heartbeat goes on for ever and keeps nothing alive."""
        self._due += not is_heartbeat
        heapq.heappush(self._agenda, (at, next(self._numbers), is_heartbeat, act))

    def step(self) -> None:
        """Do the next act; there must be one."""
        at, _, is_heartbeat, act = heapq.heappop(self._agenda)
        self._due -= not is_heartbeat
        act(at)
