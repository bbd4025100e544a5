"""pairproxy advise: what would make this workload faster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.printing import console, counted

if TYPE_CHECKING:
    from rich.console import Console

    from pairproxy.api.advice import Advice, AdviceReport

NOTHING_YET = (
    "No request has ended yet, so there is nothing to advise on. Point a tool at the port of an engine "
    "(`pairproxy status` lists them), let it work, and ask again."
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
    """Print what helps, most first, then what does not then what is missing."""
    if found.run is None:
        out.print(NOTHING_YET, markup=False)
        return
    out.print(_head(found), markup=False)
    helping = [one for one in found.advice if one.helps]
    for number, one in enumerate(helping, 1):
        _print(out, "*" if one.lever == "nothing" else f"{number}", one)
    rejected = [one for one in found.advice if not one.helps]
    if rejected:
        out.print("Looked at, and no help here:", markup=False)
    for one in rejected:
        _print(out, "-", one)
    for sentence in found.missing:
        _print_sentence(out, "!", plain(sentence))


def _head(found: "AdviceReport") -> str:
    head = f"Looked at {counted(found.requests, 'request')} of the run {plain(found.run or '')}."
    if found.model_error is None:
        return head
    return f"{head} What would be is simulated; what was, it finds within {found.model_error:.1%}."


def _print(out: "Console", mark: str, one: "Advice") -> None:
    _print_sentence(out, mark, plain(one.sentence))


def _print_sentence(out: "Console", mark: str, sentence: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    text = Text(f"{mark:<{GUTTER}}{sentence}")
    lines = text.wrap(out, max(out.width - GUTTER, 20))
    for index, line in enumerate(lines):
        line.rstrip()
        out.print(line if index == 0 else Padding(line, (0, 0, 0, GUTTER), expand=False))


@contextmanager
def _waiting() -> Iterator[None]:
    """What takes seconds says so, on a terminal."""
    err = console(to_stderr=True)
    if not err.is_terminal:
        yield
        return
    with err.status("simulating the run with one thing otherwise at a time"):
        yield
