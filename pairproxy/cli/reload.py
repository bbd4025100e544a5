"""pairproxy reload: let the running daemon read its settings anew."""

import typer

from pairproxy.cli.options import Home, Json, home_or_default


def reload(home: Home = None, as_json: Json = False) -> None:
    """Let the daemon read its settings anew, without dropping a request. Exit status 3 if none runs.

    It reads what it read at its start: its config.toml and its own flags and environment. It says what is in
    force now, and what needs a restart: ports, engines, most limits. A file with a fault changes nothing.

    Examples: `pairproxy reload`, `pairproxy reload --json`.
    """
    from pairproxy.api.client import settings_changed

    found = settings_changed(home_or_default(home))
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    if not (found.applied or found.needs_restart):
        typer.echo("Nothing has changed.")
    if found.applied:
        typer.echo(f"In force now: {', '.join(found.applied)}")
    if found.needs_restart:
        typer.echo(f"Changed, restart the daemon to apply: {', '.join(found.needs_restart)}")
