"""pairproxy report: what the last run achieved, next to its bounds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default
from pairproxy.cli.printing import console, say, show_table

if TYPE_CHECKING:
    from pairproxy.api.schema import Report


Run = Annotated[str | None, typer.Option(help="A run's name (header X-Pairproxy-Run). Default: the last.")]
Since = Annotated[
    str | None,
    typer.Option(help="The runs since then as a table: 30m, 6h, 1d, 2w, or a date like 2026-11-01."),
]
AllRuns = Annotated[bool, typer.Option("--all", help="All runs that are kept, as a table.")]
Export = Annotated[
    Path | None,
    typer.Option(help="Write their requests to FILE.jsonl or FILE.csv (with --since, --run or all)."),
]
Form = Annotated[
    str | None, typer.Option("--format", help="jsonl or csv, for --export, or to print it instead.")
]
Svg = Annotated[
    Path | None, typer.Option(help="Write its timeline to FILE as a picture; one that is there is replaced.")
]
Html = Annotated[
    Path | None,
    typer.Option(help="Write all of it to FILE, a page that needs no network; replaced as well."),
]
From = Annotated[
    Path | None,
    typer.Option("--from", help="What `pairproxy report --json` printed, instead of the daemon."),
]


def report(
    run: Run = None,
    since: Since = None,
    all_runs: AllRuns = False,
    export: Export = None,
    form: Form = None,
    svg: Svg = None,
    html: Html = None,
    file: From = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show a run: who did what and when, its speedup next to its bounds, what limited it and what would help.

    Examples: `pairproxy report`; `pairproxy report --run nightly --html nightly.html`;
    `pairproxy report --since 1d`; `pairproxy report --all --export runs.csv`.
    """
    from pairproxy.cli.report_history import Back, look_back
    from pairproxy.cli.report_pictures import read_report, write_pictures

    place = home_or_default(home)
    is_look_back = since is not None or all_runs or export is not None or form is not None
    if is_look_back and (svg is not None or html is not None or file is not None):
        raise typer.BadParameter("--svg, --html and --from are about one run: name it with --run.")
    if file is not None and run is not None:
        raise typer.BadParameter("--from reads one run from a file: leave --run out.")
    if svg is not None and svg == html:
        raise typer.BadParameter("--svg and --html cannot be the same file.")
    if is_look_back:
        look_back(place, Back(run, since, export, form), as_json=as_json)
        return
    found = fetch(place, run, with_recording=as_json) if file is None else read_report(file)
    if svg is not None or html is not None:
        write_pictures(found, svg, html)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    show(found)


def fetch(home: Path, run: str | None, *, with_recording: bool) -> "Report":
    """From the daemon; a named run also from disk, where no daemon runs. Raises PairproxyError."""
    from pairproxy.api.client import NoDaemon, get_report
    from pairproxy.cli.report_history import stored_report

    try:
        return get_report(home, run, with_recording=with_recording)
    except NoDaemon:
        found = None if run is None else stored_report(home, run, with_recording=with_recording)
        if found is None:
            raise
        return found


def show(found: "Report") -> None:
    """Print one run."""
    from pairproxy.cli.report_pictures import show_timeline
    from pairproxy.cli.report_text import NOTHING, TITLES, judged, lines, rows

    out = console()
    if found.run is None:
        say(out, NOTHING)
        return
    show_table(out, TITLES, rows(found, found.run), frozenset(("node",)))
    show_timeline(out, found)
    for line in judged(found):
        say(out, line, style="bold")
    for line in lines(found, found.run):
        say(out, line)
