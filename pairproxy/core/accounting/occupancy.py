"""What can be read off a run's timeline: how many requests were open, and when slots had nothing to do."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from pairproxy.core.accounting.services import OVERLAP_S, peak
from pairproxy.core.accounting.timeline import Bar, Timeline

Interval = tuple[float, float]

LONG = 1.5  # times as many tokens as half of all: more than what one node writes faster than another explains
EARLY = 0.05  # of the makespan: what came until then came at once
CLOSED = 0.8  # of what came late: a pool of clients hands on at once, but begins and ends with fewer open


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Seconds from the run's start; idle time in slots times seconds, and only while nothing waited."""

    most_open: int  # requests that waited or ran at one moment
    most_waiting: int
    last_arrival_s: float
    idle_before_s: float  # until the last arrival: the clients had not asked for more
    idle_after_s: float  # from then on: nothing was left to do
    busy: float  # the part of all slots' time in which they ran something, from 0 to 1
    longest: Bar | None  # of the replies
    median_s: float  # of what the replies took on their slots
    waited_s: float  # the mean of all requests
    reading: float  # the part of their time on slots in which replies had no byte yet, loading left out
    is_long: bool  # whether the longest has more to write than most: else its node took long for it
    is_closed: bool  # whether requests came whenever others had ended: their clients keep so many open
    most_at_node: int  # requests that ran on one node at one moment
    floor_s: float  # more slots like these end it no sooner: its longest, and where they came late, its last


def occupancy(timeline: Timeline, slots: int) -> Occupancy:
    """Look at a run on ``slots`` slots."""
    spans = list(_spans(timeline))
    waited = list(waits(timeline))
    runs = [(bar.dispatched_s, bar.ended_s) for bar in timeline.bars]
    last = max((start for start, _ in spans), default=0.0)
    before, after = _idle(runs, waited, slots, last, timeline.makespan_s)
    replies = [bar for bar in timeline.bars if bar.end == "done"]
    longest = max(replies, key=service_s, default=None)
    is_closed = _is_closed(spans, timeline.makespan_s)
    return Occupancy(
        most_open=peak(spans),
        most_waiting=peak(waited),
        last_arrival_s=last,
        idle_before_s=before,
        idle_after_s=after,
        busy=min(sum(end - start for start, end in runs) / (slots * timeline.makespan_s or 1.0), 1.0),
        longest=longest,
        median_s=median(map(service_s, replies)) if replies else 0.0,
        waited_s=sum(end - start for start, end in waited) / max(len(spans), 1),
        reading=sum(map(_reading_s, replies)) / (sum(map(service_s, replies)) or 1.0),
        is_long=longest is not None and _is_long(longest, replies),
        is_closed=is_closed,
        most_at_node=_most_at_node(timeline),
        floor_s=max((service_s(bar) + (0.0 if is_closed else bar.waiting_s) for bar in replies), default=0.0),
    )


def service_s(bar: Bar) -> float:
    """How long an attempt held its slot."""
    return bar.ended_s - bar.dispatched_s


def _is_long(longest: Bar, replies: Sequence[Bar]) -> bool:
    """Whether its reply has LONG times the tokens of half of all; as far as nobody counts them, it is."""
    counts = [bar.output_tokens for bar in replies if bar.output_tokens is not None]
    return longest.output_tokens is None or longest.output_tokens >= LONG * median(counts)


def _is_closed(spans: Sequence[Interval], makespan_s: float) -> bool:
    """Whether nearly all that came late found one less open than there ever were."""
    most, ends = peak(spans), sorted(end for _, end in spans)
    late = [
        (number, start)
        for number, start in enumerate(sorted(start for start, _ in spans))
        if start > EARLY * makespan_s
    ]
    full = sum(number - bisect_right(ends, start + OVERLAP_S) >= most - 1 for number, start in late)
    return bool(late) and full >= CLOSED * len(late)


def _most_at_node(timeline: Timeline) -> int:
    runs: defaultdict[str, list[Interval]] = defaultdict(list)
    for bar in timeline.bars:
        runs[timeline.lanes[bar.lane].node].append((bar.dispatched_s, bar.ended_s))
    return max(map(peak, runs.values()), default=0)


def _reading_s(bar: Bar) -> float:
    """How long the prompt of an attempt was read, as its client sees it."""
    if bar.first_byte_s is None:
        return 0.0
    return max(bar.first_byte_s - bar.dispatched_s - bar.load_s, 0.0)


def _spans(timeline: Timeline) -> Iterator[Interval]:
    """Each request from its arrival to its end."""
    whole: dict[str, Interval] = {}
    for bar in timeline.bars:
        start, end = whole.get(bar.request, (bar.waiting_s, bar.ended_s))
        whole[bar.request] = min(start, bar.waiting_s), max(end, bar.ended_s)
    yield from whole.values()
    for request in timeline.unplaced:
        yield request.waiting_s, request.ended_s


def waits(timeline: Timeline) -> Iterator[Interval]:
    """When requests waited, OVERLAP_S and longer: each one takes a moment to be placed."""
    for bar in timeline.bars:
        if bar.dispatched_s - bar.waiting_s > OVERLAP_S:
            yield bar.waiting_s, bar.dispatched_s
    for request in timeline.unplaced:
        if request.ended_s - request.waiting_s > OVERLAP_S:
            yield request.waiting_s, request.ended_s


def _idle(
    runs: Iterable[Interval], waits: Iterable[Interval], slots: int, last_s: float, end_s: float
) -> tuple[float, float]:
    """Slot-seconds without work while nothing waited: until the last arrival, and from then on."""
    changes = [(0.0, 0, 0), (last_s, 0, 0), (end_s, 0, 0)]
    for start, end in runs:
        changes += [(start, 1, 0), (end, -1, 0)]
    for start, end in waits:
        changes += [(start, 0, 1), (end, 0, -1)]
    running = waiting = 0
    before_s = after_s = 0.0
    for (at, started, queued), (until, _, _) in pairwise(sorted(changes)):
        running, waiting = running + started, waiting + queued
        if waiting > 0:
            continue
        idle_s = (until - at) * max(slots - running, 0)
        if at < last_s:
            before_s += idle_s
        else:
            after_s += idle_s
    return before_s, after_s
