"""Rows of cells: slots, what waits, how far a run is, tokens per second over time."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from pairproxy.tui.palette import BUSY, READING, SOFT, WAITING, Palette

MOST_CELLS = 10_000  # no engine has more slots; a number from elsewhere does not become as many characters


@dataclass(frozen=True, slots=True)
class Slots:
    """An engine's slots: those that write and read for requests known here, those for others, the rest."""

    writing: int
    reading: int
    others: int
    free: int
    withheld: int = 0

    @property
    def busy(self) -> int:
        """Slots in use, for whomever."""
        return self.writing + self.reading + self.others

    @property
    def total(self) -> int:
        """Slots on offer; those withheld are not among them."""
        return self.busy + self.free


def slot_cells(slots: Slots, columns: int, palette: Palette) -> Text:
    """One cell for a slot, with gaps if they fit; of more slots than columns each cell stands for several."""
    kinds = (
        (slots.writing, palette.writing, BUSY),
        (slots.reading, palette.reading, READING),
        (slots.others, palette.others, WAITING),
        (slots.free, palette.free, SOFT),
        (slots.withheld, palette.withheld, SOFT),
    )
    counts = shares([count for count, _, _ in kinds], columns)
    gap = " " if 2 * sum(counts) - 1 <= columns else ""
    row = Text()
    for count, (_, cell, style) in zip(counts, kinds, strict=True):
        row.append((cell + gap) * count, style)
    row.rstrip()
    return row


def shares(counts: Sequence[int], columns: int) -> list[int]:
    """The counts, or if there are more than ``columns``, as many in proportion: none that is there is lost.

    Where there are more kinds than columns, the last kinds are lost.
    """
    counts = [min(max(count, 0), MOST_CELLS) for count in counts]
    total = sum(counts)
    if total <= columns:
        return counts
    shown = [max(count * columns // total, 1) if count else 0 for count in counts]
    while sum(shown) > columns:
        most = max(shown)
        at = max(index for index, count in enumerate(shown) if count == most)
        shown[at] -= 1
    shown[shown.index(max(shown))] += columns - sum(shown)
    return shown


def waiting_cells(count: int, columns: int, palette: Palette) -> Text:
    """One cell for a request that waits; what has no column is counted."""
    if count <= columns:
        return Text(palette.waiting * max(count, 0), WAITING)
    mark = f"+{count}"
    for shown in range(max(columns - 2, 0), -1, -1):
        mark = f"+{count - shown}"
        if shown + len(mark) <= columns:
            return Text(palette.waiting * shown + mark, WAITING)
    return Text(mark[: max(columns, 0)], WAITING)


def sparkline(values: Sequence[float], columns: int, most: float, palette: Palette) -> Text:
    """The last values, one a column, ``most`` being the highest character; what is not zero is seen."""
    steps = palette.sparks
    shown = [max(value, 0.0) for value in values[-columns:]] if columns > 0 else []
    heights = [
        0
        if value <= 0.0 or most <= 0.0
        else min(max(round(value / most * (len(steps) - 1)), 1), len(steps) - 1)
        for value in shown
    ]
    return Text(("".join(steps[height] for height in heights)).rjust(max(columns, 0)), READING)


def wave_bar(waves: int, done: float, running: float, columns: int, palette: Palette) -> Text:
    """A run's waves side by side, filled by what ended and what runs (in waves); at most ``columns``."""
    waves = max(waves, 1)
    each = (columns - waves - 1) // waves
    if each < 2:
        return gauge(done / waves, running / waves, columns, palette)
    bar = Text().append(palette.wave, SOFT)
    each = min(each, WAVE_COLUMNS)
    for wave in range(waves):
        bar.append_text(gauge(done - wave, running + min(done - wave, 0.0), each, palette))
        bar.append(palette.wave, SOFT)
    return bar


WAVE_COLUMNS = 16  # of one wave: wider bars say no more


def gauge(done: float, begun: float, columns: int, palette: Palette) -> Text:
    """A bar of so many columns: the parts of it (0 to 1) that are done and begun, the rest open."""
    columns = max(columns, 0)
    filled = round(min(max(done, 0.0), 1.0) * columns)
    started = min(round(max(min(max(done, 0.0), 1.0) + max(begun, 0.0), 0.0) * columns), columns) - filled
    bar = Text().append(palette.done * filled, BUSY)
    bar.append(palette.begun * max(started, 0), READING)
    return bar.append(palette.open * (columns - filled - max(started, 0)), SOFT)
