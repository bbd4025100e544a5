"""The pictures of `pairproxy report`: its timeline on the terminal, and files to keep or to send."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from pairproxy.cli.options import plain

if TYPE_CHECKING:
    from rich.console import Console

    from pairproxy.api.schema import Report

WRITE_ONE = "Write one with `pairproxy report --json > FILE`."
MOST_FILE_BYTES = 64 * 1024 * 1024  # a report of thousands of requests is some megabytes
LINES_BESIDE = 16  # of a screen, for the table, the sentences and the prompt
LEAST_ROWS, MOST_ROWS = 8, 40  # of the timeline; the latter where nobody says how high the screen is


def read_report(file: Path) -> "Report":
    """What `pairproxy report --json` wrote. Raises BadRequest."""
    import msgspec

    from pairproxy.api.client import UNREADABLE
    from pairproxy.api.schema import Report
    from pairproxy.core.errors import BadRequest

    try:
        with file.open("rb") as source:
            return msgspec.json.decode(source.read(MOST_FILE_BYTES), type=Report)
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}. {WRITE_ONE}") from None
    except UNREADABLE:
        raise BadRequest(f"{file} holds no report. {WRITE_ONE}") from None


def show_timeline(out: "Console", found: "Report") -> None:
    """Print the timeline; as many rows as the screen has room for, what is more is put together."""
    from pairproxy.drawing.terminal import timeline_text
    from pairproxy.tui.palette import palette_for

    most = max(out.height - LINES_BESIDE, LEAST_ROWS) if out.is_terminal else MOST_ROWS
    for line in timeline_text(found, out.width, most, is_ascii=palette_for(out.encoding).is_ascii):
        out.print(line, no_wrap=True, overflow="crop")


def write_pictures(found: "Report", svg: Path | None, html: Path | None) -> None:
    """Write the files that are asked for, and say so on standard error.

    Raises BadRequest if there is nothing to draw, or one cannot be written.
    """
    from pairproxy.core.errors import BadRequest

    if found.run is None:
        raise BadRequest("There is no run to draw. Send requests to the port first, then ask again.")
    if svg is not None:
        from pairproxy.drawing.svg import timeline_svg

        with replacing(svg) as out:
            out.write(timeline_svg(found))
        typer.echo(f"{plain(str(svg))} is written.", err=True)
    if html is not None:
        from pairproxy.cli.report_text import lines
        from pairproxy.drawing.html import report_html

        with replacing(html) as out:
            out.write(report_html(found, lines(found, found.run)))
        typer.echo(f"{plain(str(html))} is written.", err=True)


@contextmanager
def replacing(file: Path, mode: int = 0o666) -> Iterator[TextIO]:
    """A text file that is there when all of it is written; what was there before stays until then.

    ``mode`` is narrowed by the umask. Raises BadRequest if it is no plain file, or cannot be written.
    """
    from pairproxy.core.errors import BadRequest

    try:
        file = file.resolve()  # what a link leads to is written, not the link
        if file.exists() and not file.is_file():
            raise BadRequest(f"{plain(str(file))} is not a plain file. Name another one.")
        part = file.with_name(f".{file.name[:100]}.{secrets.token_hex(8)}.part")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as out:
                yield out
            part.replace(file)
        finally:
            with suppress(OSError):
                part.unlink()
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        why = error.strerror if isinstance(error, OSError) else "its links lead in a circle"
        raise BadRequest(f"{plain(str(file))} cannot be written: {why}. Name another file.") from None
