"""Records -> runs: requests that belong together, on which speedup is reported.

A run is named by its client (the ``run`` of its requests), or else found: requests of one client belong
together while something of it is in flight, and across pauses of at most ``idle_gap_s``; across longer ones
if the next request goes on with the prompt of one of them, as a chain does after a long tool.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pairproxy.core.accounting.open_requests import OpenRequest
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.models import ModelName, RequestId

IDLE_GAP_S = 5.0  # an agent's tool step between two requests takes seconds; a person who reads takes longer
TOOL_GAP_S = 60.0  # the same where the next request goes on with one of the run: a tool may run tests
NAMED_GAP_S = 3600.0  # a job of the same name that comes again is another run
SHORT_ID = 8  # characters of an id that faces show


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


@dataclass(frozen=True, slots=True)
class Group:
    """A run with what of it is still open, both by arrival; never empty. ``id`` is that of the run."""

    id: str
    name: str | None
    started_at: float
    ended: tuple[RequestRecord, ...]
    open: tuple[OpenRequest, ...]

    @property
    def run(self) -> Run | None:
        """What of it has ended; None: nothing."""
        return Run(self.id, self.name, self.ended) if self.ended else None

    @property
    def is_loop(self) -> bool:
        """Whether a request of it came when another had ended: after the end of all there may be more."""
        first_end = min((one.ended_at for one in self.ended), default=math.inf)
        return any(part[-1].arrived_at > first_end for part in (self.ended, self.open) if part)

    @property
    def models(self) -> frozenset[ModelName]:
        """What its requests asked for."""
        return frozenset([one.model for one in self.ended] + [one.request.model for one in self.open])


_Member = RequestRecord | OpenRequest


def current_of(groups: Iterable[Group], at: float) -> Group | None:
    """The run that goes on at ``at``, of several the one that began last; None: none.

    An agent's tools run between two of its requests, so where nothing is open, one that may go on does so for
    IDLE_GAP_S.
    """
    return max(
        (one for one in groups if _goes_on_at(one, at)),
        key=lambda one: (bool(one.open), one.started_at),
        default=None,
    )


def _goes_on_at(group: Group, at: float) -> bool:
    if group.open or not group.is_loop:
        return bool(group.open)
    return at - max(one.ended_at for one in group.ended) <= IDLE_GAP_S


def is_id(run: str, name: str | None, wanted: str) -> bool:
    """Whether this is a run's id; of an unnamed one, also as short as it is shown."""
    return run == wanted or (name is None and len(wanted) >= SHORT_ID and run.startswith(wanted))


def id_of(members: Sequence[_Member]) -> str:
    """The id of an unnamed run of these (by arrival): that of its first request.

    Of several that arrived in one moment of a coarse clock it is the same one, whichever of them ends first.
    """
    return min(one.id for one in members if one.arrived_at == members[0].arrived_at)


def group_runs(records: Iterable[RequestRecord], idle_gap_s: float = IDLE_GAP_S) -> tuple[Run, ...]:
    """Group records into runs, the one that ended last at the end.

    A request that came from a peer is left out: its origin accounts for it. A request still open is not
    seen here, and may join two runs when it ends.
    """
    runs = (group.run for group in group_all(records, (), idle_gap_s))
    return tuple(sorted(filter(None, runs), key=lambda run: (run.ended_at, run.started_at)))


def group_all(
    records: Iterable[RequestRecord], open_requests: Iterable[OpenRequest], idle_gap_s: float = IDLE_GAP_S
) -> tuple[Group, ...]:
    """Group what ended together with what is open: a run that goes on has the id that it will end with."""
    named: defaultdict[str, list[_Member]] = defaultdict(list)
    unnamed: defaultdict[str, list[_Member]] = defaultdict(list)
    members: list[_Member] = [*records, *open_requests]
    for one in sorted(members, key=lambda one: one.arrived_at):
        if one.origin is None:
            group = unnamed[one.client] if one.run is None else named[one.run]
            group.append(one)
    return (
        *(_group(name, part) for name, group in named.items() for part in _split(group, NAMED_GAP_S)),
        *(_group(None, part) for group in unnamed.values() for part in _split(group, idle_gap_s)),
    )


def recent(records: Sequence[RequestRecord], open_requests: Iterable[OpenRequest]) -> list[RequestRecord]:
    """Those of the records (the earliest end first) of which a run may consist that goes on, or ended last.

    Or in the IDLE_GAP_S before the last one, for such a one may go on as well. Of a day of single requests
    these are a few, which are grouped at each look: all that is older ended so long before the others
    arrived that nothing joins them.
    """
    own = [one for one in records if one.origin is None]
    opened = [*open_requests]
    just_now = own[-1].ended_at - IDLE_GAP_S if own else math.inf
    found: list[RequestRecord] = []
    for gap_s, is_named in ((NAMED_GAP_S, True), (TOOL_GAP_S, False)):
        kind = [one for one in own if (one.run is not None) is is_named]
        since = min((one.arrived_at for one in opened if (one.run is not None) is is_named), default=math.inf)
        first = len(kind)
        while first and (since - kind[first - 1].ended_at <= gap_s or kind[first - 1].ended_at >= just_now):
            first -= 1
            since = min(since, kind[first].arrived_at)
        found += kind[first:]
    return found


def known_as(groups: Iterable[Group], id_of: Callable[[RequestId], str | None]) -> tuple[Group, ...]:
    """Unnamed groups by the ids that their runs had when more of them was remembered; one group for each id.

    ``id_of`` a request is the id of its run, where that began before what is remembered; else None.
    """
    named = tuple(group for group in groups if group.name is not None)
    found: dict[str, Group] = {}
    for group in groups:
        if group.name is None:
            id_ = (id_of(group.ended[0].id) if group.ended else None) or group.id
            first = found.get(id_, Group(id_, None, group.started_at, (), ()))
            ended, still_open = first.ended + group.ended, first.open + group.open
            found[id_] = Group(id_, None, first.started_at, ended, still_open)
    return (*named, *found.values())


def _group(name: str | None, part: Sequence[_Member]) -> Group:
    ended = tuple(one for one in part if isinstance(one, RequestRecord))
    still_open = tuple(one for one in part if isinstance(one, OpenRequest))
    return Group(id_of(part) if name is None else name, name, part[0].arrived_at, ended, still_open)


def _split(members: Iterable[_Member], idle_gap_s: float) -> list[list[_Member]]:
    """Cut one client's requests (by arrival) where nothing was in flight for longer than the gap."""
    parts: list[list[_Member]] = []
    busy_until = 0.0
    for one in members:
        pause_s = one.arrived_at - busy_until
        if not parts or (pause_s > idle_gap_s and not (pause_s <= TOOL_GAP_S and _goes_on(parts[-1], one))):
            parts.append([])
            busy_until = one.ended_at
        parts[-1].append(one)
        busy_until = max(busy_until, one.ended_at)
    return parts


def _goes_on(part: Sequence[_Member], one: _Member) -> bool:
    """Whether a request begins with the whole prompt of one of these, or its client named their chain.

    Mostly it is the last one: a chain of thousands is grouped as fast as as many alone.
    """
    if one.chain and any(last.chain == one.chain for last in reversed(part)):
        return True
    begun, blocks = frozenset(one.prefix), len(one.prefix)
    ends = (last.prefix for last in reversed(part))
    return any(prefix and len(prefix) < blocks and prefix[-1] in begun for prefix in ends)
