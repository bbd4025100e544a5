"""Collapsed stacks -> a flame graph as SVG, and the most expensive lines. Pure.

A frame is as wide as its part of all samples and stands on the frame that called it; the whole name and the
part are shown where the pointer rests.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

MAIN_THREAD = "MainThread"  # runs the event loop; the others of a daemon mostly wait
WIDTH, ROW, CHARACTER = 1600.0, 17, 6.6  # pixels
LEAST = 0.5  # pixels: narrower frames are not drawn
COLOURS = ("#f4a259", "#f6bd60", "#e8985e", "#f2cc8f", "#eb9d6c")  # warm, with black text on it

Stacks = Counter[tuple[str, ...]]
"""How many samples were seen with each stack, outermost frame first."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the source, and which part of all samples ended in it."""

    where: str
    part: float


@dataclass
class _Frame:
    name: str
    samples: int = 0
    inner: dict[str, "_Frame"] = field(default_factory=dict)


def read_stacks(text: str) -> Stacks:
    """Those of the main thread in ``thread (1): NAME;outer (file:line);inner (file:line) SAMPLES``."""
    stacks: Stacks = Counter()
    for line in text.splitlines():
        stack, _, samples = line.rpartition(" ")
        thread, *frames = stack.split(";")
        if thread.endswith(f": {MAIN_THREAD}") and frames:
            stacks[tuple(frames)] += int(samples)
    return stacks


def hottest(stacks: Stacks, count: int) -> list[Line]:
    """The lines in which most samples ended."""
    samples: Counter[str] = Counter()
    for stack, seen in stacks.items():
        samples[_where(stack[-1])] += seen
    total = samples.total() or 1
    return [Line(where, seen / total) for where, seen in samples.most_common(count)]


def flame_graph(stacks: Stacks, title: str) -> str:
    """The whole picture."""
    root = _Frame("all", stacks.total())
    for stack, seen in stacks.items():
        frame = root
        for name in stack:
            frame = frame.inner.setdefault(name, _Frame(name))
            frame.samples += seen
    rows = max(map(len, stacks), default=0) + 2
    height = rows * ROW + ROW
    scale = WIDTH / max(root.samples, 1)
    drawn = "".join(_drawn(root, 0.0, height - ROW - ROW // 2, scale, root.samples or 1))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height}" '
        'font-family="monospace" font-size="11">'
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="4" y="14">{escape(title)}</text>'
        f"{drawn}</svg>\n"
    )


def _drawn(frame: _Frame, left: float, top: float, scale: float, total: int) -> Iterator[str]:
    width = frame.samples * scale
    if width < LEAST:
        return
    colour = COLOURS[sum(frame.name.encode()) % len(COLOURS)]
    shown = frame.name[: int((width - 4) / CHARACTER)] if width > 4 * CHARACTER else ""
    yield (
        f"<g><title>{escape(frame.name)}: {frame.samples / total:.1%}</title>"
        f'<rect x="{left:.1f}" y="{top:.0f}" width="{max(width - 0.4, 0.1):.1f}" height="{ROW - 1}" '
        f'fill="{colour}"/><text x="{left + 2:.1f}" y="{top + 12:.0f}">{escape(shown)}</text></g>'
    )
    for inner in sorted(frame.inner.values(), key=lambda one: one.name):
        yield from _drawn(inner, left, top - ROW, scale, total)
        left += inner.samples * scale


def _where(frame: str) -> str:
    """``function (file:line)`` as ``file:line function``."""
    function, _, place = frame.rpartition(" (")
    return f"{place.rstrip(')')} {function}" if function else frame
