"""pairproxy advise: what would make this workload faster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.printing import console, counted, say
from pairproxy.tui.words import called

if TYPE_CHECKING:
    from rich.console import Console

    from pairproxy.api.advice import AdviceReport

NOTHING_YET = (
    "No request has ended since the daemon started, so there is nothing to advise on. Point a tool at the "
    "port of an engine (`pairproxy status` lists them), let it work, and ask again."
)
GUTTER = 3  # columns before a sentence: its number, or what marks a rejected one


def advise(
    run: Annotated[str | None, typer.Option(help="A run's name, or its id. Default: the last.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Say what would make the last run faster, from what was measured and what the simulator finds.

    Nothing is sent to any engine. Each line has the numbers that it was concluded from; what was looked at
    and does not help comes last. Examples: `pairproxy advise`, `pairproxy advise --run nightly --json`.
    """
    from pairproxy.api.client import get_advice

    with _waiting():
        found = get_advice(home_or_default(home), run)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    show(console(), found)


def show(out: "Console", found: "AdviceReport") -> None:
    """Print what helps, most first, then what does not, then what is missing."""
    if found.run is None:
        say(out, NOTHING_YET)
        return
    for line in _head(found):
        say(out, line)
    helping = [one for one in found.advice if one.helps]
    for number, one in enumerate(helping, 1):
        _say(out, "*" if one.lever == "nothing" else f"{number}", one.sentence)
    rejected = [one for one in found.advice if not one.helps]
    if rejected:
        say(out, "Looked at, and no help here:")
    for one in rejected:
        _say(out, "-", one.sentence)
    for sentence in found.missing:
        _say(out, "!", sentence)


def _head(found: "AdviceReport") -> list[str]:
    head = [f"Looked at {counted(found.requests, 'request')} of the run {plain(called(found.run or ''))}."]
    if found.model_error is not None and any(one.gain is not None for one in found.advice):
        head.append(f"What would be is simulated; the run as it was is met within {found.model_error:.1%}.")
    return head


def _say(out: "Console", mark: str, sentence: str) -> None:
    say(out, f"{mark:<{GUTTER}}{plain(sentence)}", hang=GUTTER)


@contextmanager
def _waiting() -> Iterator[None]:
    """What takes seconds says so, on a terminal."""
    err = console(to_stderr=True)
    if not err.is_terminal:
        yield
        return
    with err.status("simulating the run with one thing otherwise at a time"):
        yield
