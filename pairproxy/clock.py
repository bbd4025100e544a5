"""The one place that reads the clock. Everything measured here is a duration on the monotonic clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Something that tells the time in seconds and never goes back."""

    def now(self) -> float:
        """Seconds since an arbitrary start."""


class MonotonicClock:
    """The clock of the running system; jumps of the wall clock do not touch it."""

    def now(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()
