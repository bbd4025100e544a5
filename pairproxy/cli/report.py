"""pairproxy report: what the last run achieved, next to its bounds."""

from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default
from pairproxy.cli.printing import console, show_table

if TYPE_CHECKING:
    from pairproxy.api.schema import Report


def report(
    run: Annotated[
        str | None, typer.Option(help="A run's name (header X-Pairproxy-Run). Default: the last.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show the speedup of a run next to its bounds, and which node did what.

    Examples: `pairproxy report`, `pairproxy report --run nightly --json`. `pairproxy explain` takes the ids.
    """
    from pairproxy.api.client import get_report

    found = get_report(home_or_default(home), run, with_recording=as_json)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    show(found)


def show(found: "Report") -> None:
    """Print one run."""
    from pairproxy.cli.report_text import NOTHING, TITLES, lines, rows

    out = console()
    if found.run is None:
        out.print(NOTHING, markup=False)
        return
    show_table(out, TITLES, rows(found, found.run), frozenset(("node",)))
    for line in lines(found, found.run):
        out.print(line, markup=False)
