"""Text for people: a console that obeys NO_COLOR, sentences and tables that fit it, right plurals."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pairproxy.tui.words import counted

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "counted", "say", "show_table"]

LEAST_COLUMNS = 20  # below, lines are longer than the terminal instead of unreadable


def console(*, to_stderr: bool = False) -> "Console":
    """Standard output or error. NO_COLOR beats FORCE_COLOR: no escape sequence at all, nor bold."""
    from rich.console import Console

    return Console(
        stderr=to_stderr, color_system=None if os.environ.get("NO_COLOR") else "auto", highlight=False
    )


def say(out: "Console", text: str, *, hang: int = 2, style: str = "") -> None:
    """A sentence in as many lines as it takes, those after the first ``hang`` columns further right.

    A command in it, between backticks, is not broken apart where it fits a line.
    """
    from rich.cells import cell_len
    from rich.text import Text

    start = " " * (len(text) - len(text.lstrip()))
    line, room = start, max(out.width, LEAST_COLUMNS)
    for gap, piece in _pieces(text.strip(), room - len(start) - hang):
        if line.strip() and cell_len(line + gap + piece) > room:
            out.print(Text(line, style), soft_wrap=True)
            line = start + " " * hang + piece
        else:
            line += gap + piece
    out.print(Text(line, style), soft_wrap=True)


def _pieces(text: str, most: int) -> Iterator[tuple[str, str]]:
    """Words, and `commands` in one piece, each behind its blanks; what is longer than a line in several."""
    from rich.cells import cell_len, chop_cells

    for gap, piece in re.findall(r"(\s*)(\S*`[^`]*`\S*|\S+)", text):
        parts = [(gap, piece)] if cell_len(piece) <= most else re.findall(r"(\s*)(\S+)", gap + piece)
        for blanks, word in parts:
            first, *others = chop_cells(word, most) if cell_len(word) > most else [word]
            yield blanks, first
            yield from (("", other) for other in others)


def show_table(
    out: "Console", titles: Sequence[str], rows: Iterable[Sequence[str]], left: frozenset[str]
) -> None:
    """Print rows below their titles; those not in ``left`` are numbers and stand to the right.

    Where the lines are too long for the console, each row becomes a block of ``title: cell`` lines.
    """
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=None, header_style="bold")
    for title in titles:
        table.add_column(Text(title), justify="left" if title in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    if table.__rich_measure__(out, out.options.update(width=10_000)).maximum <= out.width:
        out.print(table)
        return
    for row in rows:
        first, *others = (
            f"{title}: {cell.strip()}" if title else cell
            for title, cell in zip(titles, row, strict=True)
            if cell
        )
        for line in (first, *(f"  {other}" for other in others)):
            out.print(Text(line))
