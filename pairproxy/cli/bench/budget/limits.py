"""What each case of the budget cost when it was measured, and what it may cost.

Measured on 2026-11-30: the highest of three runs of `scripts/bench budget`, seven rounds each, on two cores
that were else idle, the runs within 5 % of each other; Python 3.11.7, aiohttp 3.14.5, uvloop 0.23.0. Who
makes the path faster measures anew and lowers them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pairproxy.cli.bench.tables import Row

RATIO_ROOM = 1.6  # a busy machine moves a ratio by a fifth; a path that is twice as slow is beyond it
CALLS_ROOM = 1.5  # runs differ by 3 %; another Python counts a few more or less


@dataclass(frozen=True, slots=True)
class Budget:
    """One case: processor time as a multiple of the pass-through's, or calls of Python functions."""

    name: str
    about: str
    measured: float
    room: float = RATIO_ROOM
    unit: str = "x plain"

    @property
    def limit(self) -> float:
        """More is a failure."""
        return round(self.measured * self.room, 2)


BUDGETS = (
    Budget("json-1", "small JSON, one client", 1.06),
    Budget("json-32", "small JSON, 32 clients", 1.28),
    Budget("stream-32", "32 streams of 100 tokens", 0.84),
    Budget("40kB", "bodies of 40 kB, 8 clients", 3.0),
    Budget("request-calls", "calls for a small request", 533.0, CALLS_ROOM, ""),
    Budget("token-calls", "calls for a token of a stream", 16.8, CALLS_ROOM, ""),
)


def rows(found: Mapping[str, float]) -> list[Row]:
    """What was measured, by name, beside its limits."""
    return [Row(one.about, found[one.name], "<=", one.limit, one.unit) for one in BUDGETS]
