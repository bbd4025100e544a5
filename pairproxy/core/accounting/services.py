"""Who worked how long at what: the time a request holds a slot of a place, counted per place or node."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pairproxy.core.models import NodeId, Place

OVERLAP_S = 0.05  # an origin hears of an end when the slot is in use again already

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Service:
    """One request holding one slot of ``place`` from ``start_s`` to ``end_s`` (seconds on one clock)."""

    place: Place
    start_s: float
    end_s: float
    output_tokens: int = 0
    prompt_tokens: int = 0
    is_reply: bool = True  # False: the attempt led to nothing, but the place was busy with it

    @property
    def service_s(self) -> float:
        """Seconds of work."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Tally:
    """What one place or node did. Tokens count as far as the engines reported them."""

    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    busy_s: float = 0.0  # seconds in which at least one request ran there
    share: float = 0.0  # of all output tokens; of all replies where no engine reported tokens


def at_place(place: Place) -> Place:
    """Count each engine on its own."""
    return place


def at_node(place: Place) -> NodeId:
    """Count all engines of a node together."""
    return place.node


def tally(services: Iterable[Service], key: Callable[[Place], K]) -> dict[K, Tally]:
    """Count services per ``key`` of their place (at_place or at_node); shares add up to 1."""
    groups: defaultdict[K, list[Service]] = defaultdict(list)
    for service in services:
        groups[key(service.place)].append(service)
    every = [service for group in groups.values() for service in group]
    all_output = sum(service.output_tokens for service in every)
    all_replies = sum(service.is_reply for service in every)
    counts = {}
    for name, group in groups.items():
        output = sum(service.output_tokens for service in group)
        replies = sum(service.is_reply for service in group)
        counts[name] = Tally(
            requests=replies,
            prompt_tokens=sum(service.prompt_tokens for service in group),
            output_tokens=output,
            busy_s=busy_seconds((service.start_s, service.end_s) for service in group),
            share=output / all_output if all_output else replies / max(all_replies, 1),
        )
    return counts


def busy_seconds(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of (start, end) intervals."""
    total_s, covered_to = 0.0, -math.inf
    for start, end in sorted(intervals):
        total_s += max(0.0, end - max(start, covered_to))
        covered_to = max(covered_to, end)
    return total_s


def peak(intervals: Iterable[tuple[float, float]]) -> int:
    """The most (start, end) intervals that overlap at one moment, by more than OVERLAP_S."""
    steps = [step for start, end in intervals for step in ((start, 1), (max(end - OVERLAP_S, start), -1))]
    running = highest = 0
    for _, step in sorted(steps):  # at one moment, ends come before starts
        running += step
        highest = max(highest, running)
    return highest


def seen_slots(services: Sequence[Service], slots: Mapping[NodeId, int]) -> dict[NodeId, int]:
    """Slots per node, never fewer than were seen in use: a bound must allow for what happened."""
    running: defaultdict[NodeId, list[tuple[float, float]]] = defaultdict(list)
    for service in services:
        running[service.place.node].append((service.start_s, service.end_s))
    nodes = dict.fromkeys([*slots, *running])
    return {node: max(slots.get(node, 1), peak(running[node]), 1) for node in nodes}


def percentile(values: Iterable[float], part: float) -> float | None:
    """The nearest-rank percentile, ``part`` in (0, 1]; None of nothing."""
    ordered = sorted(values)
    return ordered[max(math.ceil(part * len(ordered)), 1) - 1] if ordered else None
