"""The one place that reads a clock. Everything measured is a duration on the monotonic one."""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Something that tells the time in seconds and never goes back."""

    def now(self) -> float:
        """Seconds since an arbitrary start."""


_DAY_S = 86_400


def today() -> int:
    """Days since 1970, by the wall clock: for ages of months, which a clock hours off does not harm."""
    return int(time.time() // _DAY_S)


def wall() -> float:
    """Seconds of the epoch, by the wall clock: to tell a person when something was, never to measure."""
    return time.time()


def worked() -> float:
    """Seconds of CPU time that this thread has used: what something costs, however busy the machine is."""
    return time.thread_time()


class MonotonicClock:
    """The clock of the running system; jumps of the wall clock do not touch it."""

    def __init__(self) -> None:
        self.now: Callable[[], float] = time.monotonic
        """Seconds since an arbitrary start."""
