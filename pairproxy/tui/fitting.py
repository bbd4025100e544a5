"""Text made to fit into columns of a terminal, some characters of which take two, or none."""

from rich.cells import cell_len
from rich.text import Text


def cut(text: Text, columns: int, ellipsis: str) -> Text:
    """The text in at most so many columns; what was cut off is told by ``ellipsis``, if that has room."""
    if cell_len(text.plain) <= columns:
        return text
    mark = ellipsis if cell_len(ellipsis) < columns else ""
    short = text.copy()
    short.truncate(max(columns - cell_len(mark), 0), overflow="crop")
    return short.append(mark)


def padded(text: Text, columns: int, ellipsis: str, *, to_right: bool = False) -> Text:
    """The text in exactly so many columns."""
    text = cut(text, columns, ellipsis)
    room = columns - cell_len(text.plain)
    if room <= 0:
        return text
    return Text(" " * room).append_text(text) if to_right else text.copy().append(" " * room)


def wrapped(text: str, columns: int, most: int | None = None) -> list[str]:
    """The text in lines of at most so many columns, broken between words.

    A word that is longer, and the last of ``most`` lines, are wider: to be cut where that can be seen.
    """
    lines: list[str] = []
    line = ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= columns:
            line = joined
            continue
        if line:
            lines.append(line)
        line = word
    lines += [line] if line else []
    return lines if most is None or len(lines) <= most else [*lines[: most - 1], " ".join(lines[most - 1 :])]
