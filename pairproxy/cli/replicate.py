"""pairproxy replicate: a model of this machine's Ollama copied to a paired machine's, or the other way."""

import contextlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.completing import model_names, peer_names
from pairproxy.cli.options import Home, home_or_default, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from pairproxy.api.replication import CopyProgress, CopyWish

EVERY_S = 10.0  # a line, where there is no terminal for a bar
FAILED = 1
MB = 1_000_000

Model = Annotated[
    str,
    typer.Argument(
        help="The model's name, as `ollama list` has it.", show_default=False, autocompletion=model_names
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="NODE", help="The paired machine that shall have it.", autocompletion=peer_names
    ),
]
Source = Annotated[
    str | None,
    typer.Option("--from", metavar="NODE", help="The paired machine that has it.", autocompletion=peer_names),
]
Limit = Annotated[
    float | None, typer.Option("--limit", min=0.1, metavar="MB/S", help="As fast as that at most, in MB/s.")
]
Lines = Annotated[bool, typer.Option("--json", help="Print one JSON document a line, as the copy goes on.")]


def replicate(
    model: Model,
    to: To = None,
    source: Source = None,
    limit: Limit = None,
    home: Home = None,
    as_json: Lines = False,
) -> None:
    """Copy a model between the Ollamas of two paired machines, over their own network.

    Each part is checked by its hash; a model that is not whole has no name yet, and one with other content is
    never written over. What was cut off goes on where it stopped when the command is run again. Whose machine
    gets the model allows it there once: `pairproxy rights NAME --may-add-models`; with --from that is you.

    Examples: `pairproxy replicate qwen3:8b --to ben-ws`, `pairproxy replicate qwen3:8b --from ben-ws`,
    `pairproxy replicate qwen3:8b --to ben-ws --limit 40`.
    """
    from pairproxy.api.client import read_daemon_file
    from pairproxy.api.replication import CopyWish
    from pairproxy.cli.trusting import found_in
    from pairproxy.core.errors import PairproxyError

    if (to is None) == (source is None):
        raise typer.BadParameter("Say --to NODE or --from NODE: one of both.")
    directory = home_or_default(home)
    read_daemon_file(directory)
    _, peer = found_in(directory, to if to is not None else source or "")
    rate = round((limit or 0.0) * MB)
    wish = CopyWish(model, peer.node if to is not None else "", peer.node if source is not None else "", rate)
    last = _followed(directory, wish, as_json)
    if last is None or last.state == "failed":
        raise PairproxyError(
            plain(last.error) if last is not None else "The daemon told nothing. See its log."
        )
    if last.state != "done":
        raise PairproxyError("The daemon stopped meanwhile. Run this again: it goes on where it stopped.")
    if not as_json:
        _say_done(last)


def _followed(home: Path, wish: "CopyWish", as_json: bool) -> "CopyProgress | None":
    """Let the daemon do it and show how it goes; its last line."""
    from pairproxy.api.client import follow
    from pairproxy.api.replication import CopyProgress

    last: CopyProgress | None = None
    lines = follow(home, "/replicate", wish, CopyProgress, lambda told, node: told.node == node)
    try:
        with contextlib.closing(lines), _lines() if as_json else _bar() as show:
            for last in lines:
                show(last)
    except KeyboardInterrupt:
        typer.echo("Stopped. Run it again and it goes on where it stopped.", err=True)
        raise
    return last


def _say_done(last: "CopyProgress") -> None:
    where = "This machine" if last.is_to_here else plain(last.peer)
    if last.was_there:
        typer.echo(f"{where} has {plain(last.model)} already, with the same content.")
        return
    typer.echo(f"{where} has {plain(last.model)} now ({_size(last.total_bytes)}, every part checked).")
    if not last.is_identical:
        typer.echo(
            "Ollama there is older than 0.19 and gave it another digest; the same replica where weights,"
            " template and parameters are equal."
        )


@contextmanager
def _lines() -> "Iterator[Callable[[CopyProgress], None]]":
    import msgspec

    def show(told: "CopyProgress") -> None:
        sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
        sys.stdout.flush()

    yield show


@contextmanager
def _bar() -> "Iterator[Callable[[CopyProgress], None]]":
    """A bar on a terminal; a line every ten seconds elsewhere, both to standard error."""
    if not sys.stderr.isatty():
        yield _every_while()
        return
    from rich.progress import BarColumn, Progress, TextColumn

    from pairproxy.cli.printing import console

    columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console(to_stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(told: "CopyProgress") -> None:
            total = told.total_bytes or None
            bar.update(task, completed=told.done_bytes, total=total, description=in_words(told))

        yield show


def _every_while() -> "Callable[[CopyProgress], None]":
    said_at, said = -EVERY_S, ""

    def show(told: "CopyProgress") -> None:
        nonlocal said_at, said
        kind = f"{told.state} {told.problem}"
        if told.state in ("done", "failed") or (kind == said and time.monotonic() - said_at < EVERY_S):
            return
        said_at, said = time.monotonic(), kind
        typer.echo(in_words(told), err=True)

    return show


def in_words(told: "CopyProgress") -> str:
    """How it goes, on one line."""
    if told.problem:
        return plain(told.problem)
    if told.state == "checking" or not told.total_bytes:
        return "looking what is there"
    if told.state == "verifying":
        return f"checking the hashes of {_size(told.total_bytes)}"
    words = [f"{_size(told.done_bytes)} of {_size(told.total_bytes)}"]
    if told.bytes_per_s is not None:
        words.append(f"{told.bytes_per_s / MB:.0f} MB/s")
    if told.left_s is not None:
        words.append(f"{_span(told.left_s)} left")
    return f"{', '.join(words)} (part {told.blob} of {told.blobs})"


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" if minutes >= 10 else f"{minutes}:{rest:02d} min" if minutes else f"{rest} s"


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
