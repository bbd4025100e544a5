"""A run as lines of text.

::

    laptop   1▒▒██████████2▒▒████████╎
    spark    1▒▒▒█████████████--2▒▒▒█╎███
    waiting  ▅▅▅▅▅▅▅▅▅▅▅▅▂▂▂▂▂▂      ╎
             0         5        10   ╎   15 s

A digit begins a bar and is its wave: how many bars of its row there were with it.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from pairproxy.api.schema import Report
from pairproxy.core.accounting.occupancy import waits
from pairproxy.core.accounting.services import peak
from pairproxy.core.accounting.timeline import Bar, Timeline
from pairproxy.core.accounting.verdict import shown
from pairproxy.drawing.palette import MEANINGS
from pairproxy.drawing.rows import Row, phases, rows_of
from pairproxy.drawing.scale import SHORTEST_S, counts, tick_label, ticks
from pairproxy.tui.palette import BAD, BUSY, LIMIT, READING, WAITING
from pairproxy.tui.words import counted, named

LEAST_COLUMNS = 40  # below, lines are longer than the terminal instead of unreadable
MOST_LABEL = 24  # columns of a row's name
TICK_COLUMNS = 10  # between two numbers of the scale at least


@dataclass(frozen=True, slots=True)
class Characters:
    """One column each. ``levels``: from nothing to most."""

    waiting: str
    load: str
    prefill: str
    decode: str
    failed: str
    bound: str
    begins: str  # a bar that has no room for its wave
    levels: str
    ellipsis: str


BLOCKS = Characters("╌", "░", "▒", "█", "\u00d7", "╎", "▐", " ▁▂▃▄▅▆▇█", "…")
ASCII = Characters("-", "%", "=", "#", "x", "|", "[", " _.-:=+*#", ".")
STYLES = {
    "waiting": WAITING,
    "load": "magenta",
    "prefill": READING,
    "decode": BUSY,
    "failed": BAD,
    "bound": LIMIT,
}
"""The colours of the live view, where it has them."""
WAVES = {phase: f"black on {STYLES[phase]}" for phase in ("load", "prefill", "decode")}
WAVES["failed"] = "white on red"

Cell = tuple[str, str]
"""A character and its style."""


@dataclass(frozen=True, slots=True)
class _Canvas:
    """Where a moment is drawn: ``columns`` for the whole run."""

    characters: Characters
    columns: int
    end_s: float
    bound: int | None  # the column of the bound

    def at(self, moment_s: float) -> int:
        """The column in which a moment is; the first or the last one for what is outside."""
        return min(self._columns(moment_s), self.columns - 1)

    def span(self, start_s: float, end_s: float) -> range:
        """The columns of a time, one at least."""
        start = self.at(start_s)
        return range(start, max(self._columns(end_s), start + 1))

    def _columns(self, moment_s: float) -> int:
        """How many of them are before a moment."""
        return int(min(max(moment_s / self.end_s, 0.0), 1.0) * self.columns + 1e-9)


def timeline_text(report: Report, columns: int, most_rows: int, *, is_ascii: bool = False) -> list[Text]:
    """Draw a report; nothing if it has no timeline. More than ``most_rows`` are put together, counted."""
    timeline = report.timeline
    if timeline is None or not (timeline.bars or timeline.unplaced) or timeline.makespan_s <= SHORTEST_S:
        return []
    characters = ASCII if is_ascii else BLOCKS
    rows = rows_of(report, max(most_rows, 1))
    labels = [named(row.label, is_ascii=is_ascii) for row in rows]
    beside = ["waiting", "no place"]
    width = min(max(map(cell_len, [*labels, *beside])), MOST_LABEL, max(columns, LEAST_COLUMNS) // 3)
    room = max(columns, LEAST_COLUMNS) - width - 2
    bound = timeline.lower_bound_s
    canvas = _Canvas(
        characters,
        room,
        timeline.makespan_s,
        None if bound is None else int(min(max(bound / timeline.makespan_s, 0.0), 1.0) * room + 0.5),
    )
    drawn = [(label, _row(canvas, row)) for label, row in zip(labels, rows, strict=True)]
    drawn += _below(canvas, timeline)
    lines = [_line(canvas, _fit(label, width, characters), cells) for label, cells in drawn]
    signs = {character for _, cells in drawn for character, _ in cells}
    return [*lines, _scale(canvas, width), *_legend(canvas, timeline, rows, signs, columns)]


def _line(canvas: _Canvas, label: str, cells: Sequence[Cell]) -> Text:
    """A row with its name; the line of the bound goes through all of them."""
    line = Text(f"{label} ", no_wrap=True, overflow="crop")
    for column, (character, style) in enumerate([*cells, (" ", "")]):
        if column == canvas.bound:
            line.append(canvas.characters.bound, STYLES["bound"])
        else:
            line.append(character, style)
    line.rstrip()
    return line


def _row(canvas: _Canvas, row: Row) -> list[Cell]:
    return _lane(canvas, row) if row.is_one_lane else _levels(canvas, row)


def _lane(canvas: _Canvas, row: Row) -> list[Cell]:
    """Bars behind each other, and where nothing ran, whether the next one waited."""
    drawn = {column for bar in row.bars for column in canvas.span(bar.dispatched_s, bar.ended_s)}
    doing = [
        max(shares, key=shares.__getitem__, default="") if column in drawn else ""
        for column, shares in enumerate(_shares(canvas, row))
    ]
    cells = [(getattr(canvas.characters, phase), STYLES[phase]) if phase else (" ", "") for phase in doing]
    for bar in row.bars:
        _begin(canvas, cells, doing, bar)
        for column in range(canvas.at(bar.waiting_s), canvas.at(bar.dispatched_s)):
            if not doing[column]:
                cells[column] = canvas.characters.waiting, STYLES["waiting"]
    return cells


def _begin(canvas: _Canvas, cells: list[Cell], doing: Sequence[str], bar: Bar) -> None:
    """Say where a bar begins: by its wave where there is room, else by a mark between what looks alike."""
    wave, span = str(bar.wave), canvas.span(bar.dispatched_s, bar.ended_s)
    if len(span) > len(wave) + 1:
        for column, character in zip(span, wave, strict=False):
            cells[column] = character, WAVES[doing[column]]
    elif doing[span.start] == "decode" and span.start > 0 and doing[span.start - 1]:
        cells[span.start] = canvas.characters.begins, STYLES["decode"]


def _shares(canvas: _Canvas, row: Row) -> list[dict[str, float]]:
    """What its bars do in each column: phase -> the part of the column's time, of all slots together."""
    found: list[dict[str, float]] = [{} for _ in range(canvas.columns)]
    column_s = canvas.end_s / canvas.columns
    for bar in row.bars:
        columns = range(canvas.at(bar.dispatched_s), canvas.at(bar.ended_s) + 1)
        for phase, (start_s, end_s) in phases(bar).items():
            for column in columns:
                until_s = min(end_s, (column + 1) * column_s)
                part = (until_s - max(start_s, column * column_s)) / column_s
                found[column][phase] = found[column].get(phase, 0.0) + max(part, 0.0)
    return found


def _levels(canvas: _Canvas, row: Row) -> list[Cell]:
    """How many of a row's slots were busy, in the colour of what most of them did."""
    cells = []
    for shares in _shares(canvas, row):
        most = max(shares, key=shares.__getitem__, default="decode")
        cells.append((_level(canvas, sum(shares.values()) / row.slots if row.slots else 0.0), STYLES[most]))
    return cells


def _level(canvas: _Canvas, part: float) -> str:
    """A character for a part from 0 to 1; what is not nothing is seen."""
    levels = canvas.characters.levels
    least = 1 if part > 0.0 else 0
    return levels[max(min(round(part * (len(levels) - 1)), len(levels) - 1), least)]


def _below(canvas: _Canvas, timeline: Timeline) -> Iterator[tuple[str, list[Cell]]]:
    """How many waited, and those that found no place."""
    steps = counts(waits(timeline))
    most = max((count for _, count in steps), default=0)
    if most:
        highest = [0] * canvas.columns
        for (start, count), end in zip(steps, [*(at for at, _ in steps[1:]), canvas.end_s], strict=True):
            for column in canvas.span(start, end):
                highest[column] = max(highest[column], count)
        yield "waiting", [(_level(canvas, count / most), STYLES["waiting"]) for count in highest]
    if timeline.unplaced:
        cells: list[Cell] = [(" ", "")] * canvas.columns
        for request in timeline.unplaced:
            cells[canvas.at(request.ended_s)] = canvas.characters.failed, STYLES["failed"]
        yield "no place", cells


def _scale(canvas: _Canvas, width: int) -> Text:
    marks = ticks(canvas.end_s, max(canvas.columns // TICK_COLUMNS, 2))
    step_s = marks[1] if len(marks) > 1 else canvas.end_s
    line = " " * (width + 1)
    for mark in marks:
        at = width + 1 + round(mark / canvas.end_s * canvas.columns)
        label = tick_label(mark, step_s)
        if at + len(label) + 2 > width + 2 + canvas.columns:
            break
        line = f"{line.ljust(at)}{label}"
    return Text(f"{line} s", no_wrap=True, overflow="crop")


def _legend(
    canvas: _Canvas, timeline: Timeline, rows: Sequence[Row], drawn: Set[str], columns: int
) -> list[Text]:
    """What stands in the picture, and nothing else; in as many lines as it takes."""
    words = [
        (character, STYLES[phase], MEANINGS[phase])
        for phase in ("waiting", *WAVES)
        if (character := getattr(canvas.characters, phase)) in drawn and any(row.is_one_lane for row in rows)
    ]
    if "1" in drawn:
        words.append(("1 2", "", "its wave"))
    if not all(row.is_one_lane for row in rows):
        levels = canvas.characters.levels
        words.append((f"{levels[2]}{levels[4]}{levels[-1]}", "", "how many of the slots are busy"))
    if most := peak(waits(timeline)):
        words.append(("waiting", "", f"up to {counted(most, 'request')}"))
    if timeline.lower_bound_s is not None:
        told = f"{MEANINGS['bound']} {shown(timeline.lower_bound_s)} s"
        words.append((canvas.characters.bound, STYLES["bound"], told))
    lines = [Text()]
    for sign, style, meaning in words:
        if lines[-1].plain and lines[-1].cell_len + 3 + cell_len(sign) + len(meaning) > columns:
            lines.append(Text())
        lines[-1].append("  " if lines[-1].plain else "").append(sign, style).append(f" {meaning}")
    return lines


def _fit(label: str, width: int, characters: Characters) -> str:
    """A name in exactly so many columns."""
    if cell_len(label) <= width:
        return label + " " * (width - cell_len(label))
    return set_cell_size(label, width - 1) + characters.ellipsis
