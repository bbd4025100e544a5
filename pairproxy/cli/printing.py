"""Text for people: a console that obeys NO_COLOR, tables that stack where they do not fit, right plurals."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pairproxy.tui.words import counted

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "counted", "show_table"]


def console(*, to_stderr: bool = False) -> "Console":
    """Standard output or error. NO_COLOR beats FORCE_COLOR: no escape sequence at all, nor bold."""
    from rich.console import Console

    return Console(
        stderr=to_stderr, color_system=None if os.environ.get("NO_COLOR") else "auto", highlight=False
    )


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
