"""The time scale of a picture, and counts along it."""

from collections.abc import Iterable, Iterator
from math import ceil, floor, log10

STEPS = (1.0, 2.0, 5.0, 10.0)
SHORTEST_S = 1e-9  # no clock tells less apart


def ticks(end_s: float, most: int) -> list[float]:
    """Round seconds from 0 on, equally far apart, none behind ``end_s``; at most ``most``, 2 or more."""
    if end_s <= SHORTEST_S:
        return [0.0]
    least = end_s / max(most - 1, 1)
    power = 10.0 ** floor(log10(least))
    step = next(power * step for step in STEPS if power * step >= least * (1.0 - 1e-9))
    return [number * step for number in range(floor(end_s / step * (1.0 + 1e-9)) + 1)]


def tick_label(at_s: float, step_s: float) -> str:
    """Seconds with as many digits as the step needs."""
    digits = max(0, ceil(-log10(step_s) - 1e-9)) if step_s > 0.0 else 0
    return f"{at_s:.{digits}f}"


def counts(spans: Iterable[tuple[float, float]]) -> list[tuple[float, int]]:
    """How many spans hold each moment: (from when on, how many), by time, only where that changes."""
    changes: dict[float, int] = {}
    for start, end in spans:
        changes[start] = changes.get(start, 0) + 1
        changes[end] = changes.get(end, 0) - 1
    steps: list[tuple[float, int]] = []
    count = 0
    for at, change in sorted(changes.items()):
        count += change
        if change:
            steps.append((at, count))
    return steps


def merged(spans: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Their union, without what is empty."""
    since = until = -1.0
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if start > until:
            if until > since:
                yield since, until
            since, until = start, end
        until = max(until, end)
    if until > since:
        yield since, until
