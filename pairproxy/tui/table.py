"""Rows in columns that fit: wide ones are cut, then those that matter least are left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from pairproxy.tui.fitting import cut, padded
from pairproxy.tui.palette import HEAD

GAP = 2  # columns between two columns


@dataclass(frozen=True, slots=True)
class Column:
    """``least``: it is not made narrower, nor, so that a live page stands still, shown narrower.

    ``rank``: the highest is left out first where there is no room; 0 always stays. ``is_rigid``: what is in
    it is never cut, for a part of it would say something else.
    """

    title: str
    least: int = 4
    rank: int = 0
    is_right: bool = False
    is_rigid: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int, ellipsis: str) -> list[Text]:
    """The titles and the rows, a line each, no line wider than ``width``."""
    natural = [_natural(columns, rows, index) for index in range(len(columns))]
    widths = _fitted(columns, natural, width)
    heads = [Text(column.title, HEAD) for column in columns]
    return [_line(columns, row, widths, width, ellipsis) for row in (heads, *rows)]


def blocks(columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> list[Text]:
    """The same for a page too narrow for the rows: each a block of ``title: cell`` lines, nothing cut."""
    lines = []
    for row in rows:
        cells = [
            (column.title, cell) for column, cell in zip(columns, row, strict=True) if cell.plain.strip()
        ]
        for number, (title, cell) in enumerate(cells):
            line = Text("  " if number else "").append(f"{title}: " if title else "")
            lines.append(line.append_text(cell))
    return lines


def natural_width(columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> int:
    """How wide the table is when nothing is cut."""
    widths = [_natural(columns, rows, index) for index in range(len(columns))]
    return sum(widths) + GAP * (len(widths) - 1)


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[Text]], index: int) -> int:
    column = columns[index]
    longest = max((cell_len(row[index].plain) for row in rows), default=0)
    return max(column.least, cell_len(column.title), longest)


def _fitted(columns: Sequence[Column], natural: list[int], width: int) -> list[int]:
    """The width of each column; 0: left out."""
    kept = list(range(len(columns)))
    least = [
        wide if column.is_rigid else max(column.least, 1)
        for column, wide in zip(columns, natural, strict=True)
    ]
    while True:
        out = max(kept, key=lambda index: columns[index].rank)
        if sum(least[index] for index in kept) + GAP * (len(kept) - 1) <= width or not columns[out].rank:
            break
        kept.remove(out)
    widths = [natural[index] if index in kept else 0 for index in range(len(columns))]
    while sum(widths) + GAP * (len(kept) - 1) > width:
        over = sum(widths) + GAP * (len(kept) - 1) - width
        widest = max(kept, key=lambda index: widths[index] - least[index])
        room = widths[widest] - least[widest]
        if room <= 0:
            break
        widths[widest] -= min(over, max(room // 2, 1))
    return widths


def _line(
    columns: Sequence[Column], row: Sequence[Text], widths: Sequence[int], width: int, ellipsis: str
) -> Text:
    line = Text()
    for column, cell, columns_wide in zip(columns, row, widths, strict=True):
        if columns_wide:
            line.append(" " * (GAP if line else 0))
            line.append_text(padded(cell, columns_wide, ellipsis, to_right=column.is_right))
    line.rstrip()
    return cut(line, width, ellipsis)
