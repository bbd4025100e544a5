"""A run as SVG: a row for each slot, a bar for each attempt, who waited above a scale of seconds.

A bar, from left to right, each part with a height and a pattern of its own so that it needs no colour::

    waits           a thin line at the foot of the row
    loads a model   low, dotted
    reads           low, hatched
    writes          high, filled; its number is its wave
    led to nothing  high, crossed

Whatever a machine or a client named is plain text in it: escaped, and without control characters.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from pairproxy.api.schema import Report
from pairproxy.core.accounting.occupancy import waits
from pairproxy.core.accounting.services import peak
from pairproxy.core.accounting.timeline import Bar, Timeline
from pairproxy.core.accounting.verdict import shown
from pairproxy.drawing.palette import MEANINGS
from pairproxy.drawing.rows import Row, phases, rows_of
from pairproxy.drawing.scale import counts, merged, tick_label, ticks
from pairproxy.drawing.styles import picture_css
from pairproxy.tui.words import counted, plain

WIDTH = 960.0
LABELS = 150.0  # of it for the names
EDGE = 14.0
HIGH, LOW = 22.0, 11.0  # a row, with few and with many of them
MANY = 48  # rows from which they are low
MOST_ROWS = 192  # a page of them is read no more; above, the slots of a node come together
QUEUE = 34.0  # the height of who waited
LABEL_CHARACTERS = 22
LINE_CHARACTERS = 140  # of a sentence under the picture
TICKS = 9
WAVE_ROOM = 15.0  # of the writing part of a bar, so that a number fits


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where things are, in the picture's own units."""

    end_s: float
    top: float
    row: float

    def x(self, at_s: float) -> float:
        """Of a moment."""
        return LABELS + min(max(at_s / self.end_s, 0.0), 1.0) * (WIDTH - LABELS - EDGE)

    def y(self, row: int) -> float:
        """The upper edge of a row."""
        return self.top + row * self.row


def timeline_svg(report: Report, *, is_part: bool = False) -> str:
    """Draw a report as an SVG document; ``is_part``: for a page that has ``picture_css`` already.

    A run that has no timeline is a picture that says so.
    """
    timeline, run = report.timeline, report.run
    if timeline is None or run is None or timeline.makespan_s <= 0.0:
        return _document(
            ["No timeline is known."], "", 60.0, [_text(EDGE, 30.0, "No timeline is known.")], is_part
        )
    rows = rows_of(report, MOST_ROWS)
    frame = _Frame(timeline.makespan_s, 64.0 if is_part else 92.0, HIGH if len(rows) <= MANY else LOW)
    bottom = frame.y(len(rows))
    verdict = [report.verdict.limited_by, report.verdict.change] if report.verdict else []
    said = [line for sentence in verdict for line in _wrapped(plain(sentence))]
    foot = bottom + (QUEUE + 10.0 if any(waits(timeline)) else 0.0)
    title = _title(report)
    parts = [
        *([] if is_part else [_text(EDGE, 24.0, title, "ppt")]),
        *_legend(timeline, rows, frame.top - 44.0),
        *_grid(frame, len(rows), foot),
        *(line for number, row in enumerate(rows) for line in _row(frame, number, row)),
        *_waiting(frame, timeline, bottom),
        *_bound(frame, timeline, foot),
        *([] if is_part else [_text(EDGE, foot + 48.0 + 17.0 * at, line) for at, line in enumerate(said)]),
    ]
    height = foot + 34.0 + (0.0 if is_part else 17.0 * len(said) + 12.0)
    return _document([title], " ".join(verdict), height, parts, is_part)


def _document(
    title: Sequence[str], description: str, height: float, parts: Iterable[str], is_part: bool
) -> str:
    style = "" if is_part else f"<style>{picture_css()}</style>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pp" viewBox="0 0 {WIDTH:.0f} {height:.0f}"'
        f' width="{WIDTH:.0f}" height="{height:.0f}" role="img" aria-labelledby="pptitle ppdesc">'
        f'<title id="pptitle">{_safe(" ".join(title))}</title><desc id="ppdesc">{_safe(description)}</desc>'
        f"{style}{_patterns()}"
        f'<rect class="ppb" width="{WIDTH:.0f}" height="{height:.0f}"/>' + "\n".join(parts) + "</svg>\n"
    )


def _patterns() -> str:
    """What fills a part of a bar, in lines of its colour."""

    def pattern(name: str, size: int, line: str) -> str:
        return (
            f'<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse">'
            f'<path class="{name}" style="" d="{line}"/></pattern>'
        ).replace(' style=""', "")

    return (
        "<defs>"
        + pattern("ppp", 4, "M-1 1L1-1M0 4L4 0M3 5L5 3").replace("<path", '<path stroke-width="1.6"')
        + pattern("ppl", 4, "M1 1h1M3 3h1").replace("<path", '<path stroke-width="1.6"')
        + pattern("ppf", 5, "M0 0L5 5M0 5L5 0")
        + "</defs>"
    )


def _title(report: Report) -> str:
    run = report.run
    if run is None:
        return ""
    told = f"Run {plain(run.run)}: {counted(run.requests, 'request')} in {shown(run.makespan_s)} s"
    if run.speedup is not None and run.bound_provable is not None:
        told += f", speedup {run.speedup:.2f} of at most {run.bound_provable:.2f}"
    return told


def _grid(frame: _Frame, rows: int, foot: float) -> Iterator[str]:
    """Seconds under the picture, and a line up from each."""
    marks = ticks(frame.end_s, TICKS)
    step_s = marks[1] if len(marks) > 1 else frame.end_s
    for mark in marks:
        yield f'<path class="ppg" d="M{frame.x(mark):.1f} {frame.top - 4:.1f}V{foot:.1f}"/>'
        yield _text(frame.x(mark), foot + 16.0, tick_label(mark, step_s), "pps ppm")
    yield _text(EDGE, foot + 16.0, "seconds", "pps")
    if rows == 0:
        yield _text(LABELS, frame.top + 16.0, "No node served anything.", "pps")


def _row(frame: _Frame, number: int, row: Row) -> Iterator[str]:
    y = frame.y(number)
    label = _short(row.label)
    whole = f"<title>{_safe(row.label)}</title>" if label != row.label else ""
    kind = "pps ppe" if frame.row >= HIGH else "pps ppe ppw"
    at = f'x="{LABELS - 10:.0f}" y="{y + frame.row * (0.72 if frame.row >= HIGH else 0.8):.1f}"'
    yield f'<text class="{kind}" {at}>{whole}{_safe(label)}</text>'
    yield from _lane(frame, y, row) if row.is_one_lane else _levels(frame, y, row)


def _lane(frame: _Frame, y: float, row: Row) -> Iterator[str]:
    """Bars behind each other; under them, when those of this row waited."""
    thick, gap = (2.0, 2.0) if frame.row >= HIGH else (1.0, 1.0)
    foot = y + frame.row - gap
    strips = "".join(
        f"M{frame.x(start):.1f} {foot:.1f}H{frame.x(end):.1f}v-{thick:.0f}H{frame.x(start):.1f}z"
        for start, end in merged((bar.waiting_s, bar.dispatched_s) for bar in row.bars)
    )
    if strips:
        yield f'<path class="ppq" d="{strips}"/>'
    for bar in row.bars:
        yield _bar(frame, y + gap, frame.row - thick - 2.5 * gap, bar)


def _bar(frame: _Frame, y: float, height: float, bar: Bar) -> str:
    """The parts of a bar, and in words what they are."""
    told = [f"{plain(bar.request)[:8]}", f"wave {bar.wave}"]
    parts = []
    spans = phases(bar)
    for phase, (start, end) in spans.items():
        told.append(f"{MEANINGS[phase]} {shown(end - start)} s")
        part, rim = (height, 0.8) if phase in _HIGH else (height * 0.6, 0.0)
        left, width = frame.x(start), max(frame.x(end) - frame.x(start) - rim, 0.6)
        outline = f"M{left:.1f} {y + height - part:.1f}h{width:.1f}v{part:.1f}h-{width:.1f}z"
        parts.append(f'<path class="{_KINDS[phase]}" d="{outline}"/>')
    if bar.end != "done":
        told.append(plain(bar.end))
    elif height > 12.0:
        start, end = spans["decode"]
        if frame.x(end) - frame.x(start) > WAVE_ROOM:
            parts.append(_text(frame.x(start) + 3.0, y + height - 4.0, str(bar.wave), "ppw"))
    waited_s = bar.dispatched_s - bar.waiting_s
    told.insert(2, f"waited {shown(waited_s)} s")
    return f"<g><title>{_safe(', '.join(told))}</title>{''.join(parts)}</g>"


_KINDS = {"load": "ppl", "prefill": "ppp", "decode": "ppd", "failed": "ppf"}  # classes of styles.py
_HIGH = ("decode", "failed")  # phases that are as high as their row


def _levels(frame: _Frame, y: float, row: Row) -> Iterator[str]:
    """How many slots of a row were busy."""
    steps = counts((bar.dispatched_s, bar.ended_s) for bar in row.bars)
    told = f"{row.label}: {counted(len(row.bars), 'attempt')}"
    path = _area(frame, steps, y + frame.row - 2.0, (frame.row - 4.0) / max(row.slots, 1))
    yield f'<g><title>{_safe(told)}</title><path class="ppd" d="{path}"/></g>'


def _waiting(frame: _Frame, timeline: Timeline, bottom: float) -> Iterator[str]:
    """How many requests waited, as an area under the rows."""
    spans = list(waits(timeline))
    if not spans:
        return
    steps, most = counts(spans), peak(spans)
    highest = max(count for _, count in steps)
    foot = bottom + QUEUE + 4.0
    yield _text(LABELS - 10.0, foot - 18.0, "waiting", "pps ppe")
    yield _text(LABELS - 10.0, foot - 4.0, f"up to {most}", "pps ppe")
    path = _area(frame, steps, foot, (QUEUE - 6.0) / highest)
    yield f'<g><title>Up to {counted(most, "request")} waited.</title><path class="ppq" d="{path}"/></g>'


def _area(frame: _Frame, steps: Sequence[tuple[float, int]], foot: float, unit: float) -> str:
    """The outline of counts over time."""
    path = [f"M{LABELS:.1f} {foot:.1f}"]
    for at_s, count in steps:
        path.append(f"H{frame.x(at_s):.1f}V{foot - count * unit:.1f}")
    return "".join(path) + f"V{foot:.1f}z"


def _bound(frame: _Frame, timeline: Timeline, foot: float) -> Iterator[str]:
    """The line before which no schedule ends."""
    if timeline.lower_bound_s is None:
        return
    x = frame.x(timeline.lower_bound_s)
    told = f"{MEANINGS['bound']} {shown(timeline.lower_bound_s)} s"
    yield f'<path class="ppo" d="M{x:.1f} {frame.top - 8:.1f}V{foot:.1f}"/>'
    yield _text(min(x + 4.0, WIDTH - EDGE), frame.top - 10.0, told, "ppn ppe" if x > WIDTH / 2.0 else "ppn")


def _legend(timeline: Timeline, rows: Sequence[Row], y: float) -> Iterator[str]:
    """What the parts of the bars in the picture mean."""
    seen = {phase for bar in timeline.bars for phase in phases(bar)}
    x = LABELS
    if any(row.is_one_lane for row in rows) and any(
        bar.dispatched_s > bar.waiting_s for bar in timeline.bars
    ):
        yield f'<path class="ppq" d="M{x:.0f} {y - 2:.1f}h18v2h-18z"/>'
        yield _text(x + 24.0, y, MEANINGS["waiting"], "pps")
        x += 24.0 + 7.0 * len(MEANINGS["waiting"]) + 16.0
    for phase, kind in _KINDS.items():
        if phase in seen:
            high = 12.0 if phase in _HIGH else 8.0
            yield f'<path class="{kind}" d="M{x:.0f} {y:.1f}h18v-{high:.0f}h-18z"/>'
            yield _text(x + 24.0, y, MEANINGS[phase], "pps")
            x += 24.0 + 7.0 * len(MEANINGS[phase]) + 16.0


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text{of_kind} x="{x:.1f}" y="{y:.1f}">{_safe(text)}</text>'


def _safe(text: str) -> str:
    """Text for XML: whoever named it, it stays text."""
    return escape(plain(text), {'"': "&quot;", "'": "&#39;"})


def _short(label: str) -> str:
    return label if len(label) <= LABEL_CHARACTERS else f"{label[: LABEL_CHARACTERS - 1]}\u2026"


def _wrapped(sentence: str) -> Iterator[str]:
    """Lines of at most LINE_CHARACTERS."""
    line = ""
    for word in sentence.split(" "):
        if line and len(line) + 1 + len(word) > LINE_CHARACTERS:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line
