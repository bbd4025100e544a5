"""pairproxy status: the cluster on one page, or the same live."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default
from pairproxy.cli.printing import console

if TYPE_CHECKING:
    from pairproxy.api.schema import Status


def status(
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it live, until q or Ctrl-C; with --json a line each.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show nodes, engines, models, what runs and what waits. Exit status 3 if no daemon runs.

    Examples: `pairproxy status`, `pairproxy status --watch`, `pairproxy status --json`.
    """
    from pairproxy.api.client import NoDaemon, get_status

    home = home_or_default(home)
    try:
        found = get_status(home)
    except NoDaemon:
        if (home / "takeover.json").exists():  # else what reads it need not be loaded: that takes longer
            from pairproxy.cli.up_takeover import say_where_engines_are

            say_where_engines_are(home)
        raise
    if watch:
        _watch(home, found, as_json)
    elif as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        from pairproxy.tui.page import one_page
        from pairproxy.tui.palette import palette_for

        out = console()
        for line in one_page(found, found.limit, out.width, palette_for(out.encoding)):
            out.print(line, soft_wrap=True)


def _watch(home: Path, first: "Status", as_json: bool) -> None:
    from pairproxy.api.watching import watch_status
    from pairproxy.tui.feed import Feed
    from pairproxy.tui.live import show_lines, show_live, show_pages
    from pairproxy.tui.palette import palette_for

    out = console()
    with watch_status(home) as seen:
        feed = Feed(first, seen)
        feed.start()
        if as_json:
            show_lines(feed)
        elif out.is_terminal and not out.is_dumb_terminal:
            show_live(out, palette_for(out.encoding), feed)
        else:
            show_pages(out, palette_for(out.encoding), feed)
