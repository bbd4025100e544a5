"""Records -> runs: requests that belong together, on which speedup is reported.

A run is named by its client (the ``run`` of its requests), or else found: requests of one client belong
together while something of it is in flight, and across pauses of at most ``idle_gap_s``; across longer ones
if the next request goes on with the prompt of one of them, as a chain does after a long tool.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from pairproxy.core.accounting.records import RequestRecord

IDLE_GAP_S = 5.0  # an agent's tool step between two requests takes seconds; a person who reads takes longer
TOOL_GAP_S = 60.0  # the same where the next request goes on with one of the run: a tool may run tests
NAMED_GAP_S = 3600.0  # a job of the same name that comes again is another run


@dataclass(frozen=True, slots=True)
class Run:
    """Requests that belong together, by arrival; never empty.

    ``id`` is the given name, or the id of its first request; it stays while the run grows.
    """

    id: str
    name: str | None
    records: tuple[RequestRecord, ...]

    @property
    def started_at(self) -> float:
        """The first arrival."""
        return self.records[0].arrived_at

    @property
    def ended_at(self) -> float:
        """The last end."""
        return max(record.ended_at for record in self.records)

    @property
    def makespan_s(self) -> float:
        """From the first arrival to the last end."""
        return self.ended_at - self.started_at

    @property
    def is_chain(self) -> bool:
        """Whether each of several requests arrived when the one before had ended."""
        steps = pairwise(self.records)
        return len(self.records) > 1 and all(after.arrived_at >= before.ended_at for before, after in steps)


def group_runs(records: Iterable[RequestRecord], idle_gap_s: float = IDLE_GAP_S) -> tuple[Run, ...]:
    """Group records into runs, the one that ended last at the end.

    A request that came from a peer is left out: its origin accounts for it. A request still open is not
    seen yet, and may join two runs when it ends.
    """
    named: defaultdict[str, list[RequestRecord]] = defaultdict(list)
    unnamed: defaultdict[str, list[RequestRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.arrived_at):
        if record.origin is None:
            group = unnamed[record.client] if record.run is None else named[record.run]
            group.append(record)
    runs = [
        Run(name, name, tuple(part)) for name, group in named.items() for part in _split(group, NAMED_GAP_S)
    ]
    for group in unnamed.values():
        runs += [Run(part[0].id, None, tuple(part)) for part in _split(group, idle_gap_s)]
    return tuple(sorted(runs, key=lambda run: (run.ended_at, run.started_at)))


def _split(records: list[RequestRecord], idle_gap_s: float) -> list[list[RequestRecord]]:
    """Cut one client's records (by arrival) where nothing was in flight for longer than the gap."""
    parts: list[list[RequestRecord]] = []
    busy_until = 0.0
    for record in records:
        pause_s = record.arrived_at - busy_until
        if not parts or (
            pause_s > idle_gap_s and not (pause_s <= TOOL_GAP_S and _goes_on(parts[-1], record))
        ):
            parts.append([])
            busy_until = record.ended_at
        parts[-1].append(record)
        busy_until = max(busy_until, record.ended_at)
    return parts


def _goes_on(part: list[RequestRecord], record: RequestRecord) -> bool:
    """Whether a request begins with the whole prompt of one of these, or its client named their chain."""
    ends = {last.prefix[-1] for last in part if last.prefix and len(last.prefix) < len(record.prefix)}
    is_named = bool(record.chain) and any(last.chain == record.chain for last in part)
    return is_named or not ends.isdisjoint(record.prefix)
