"""pairproxy reset-identity: this machine becomes a new one, with which everybody has to pair again."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from pairproxy.cli.options import Home, home_or_default
from pairproxy.cli.trusting import named, store_of


def reset_identity(
    home: Home = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Make a new key for this machine and end all pairings: if the old key may be known to others.

    Stop the daemon before. On each machine that was paired, `pairproxy forget` this one: until then whoever
    has the old key is still let in there.

    Examples: `pairproxy reset-identity`, `pairproxy reset-identity --yes`.
    """
    from pairproxy.security.identity import reset, short_id

    directory = home_or_default(home)
    store = store_of(directory)
    if store is None:
        typer.echo("This machine has no identity yet. `pairproxy up` or `pairproxy pair` makes one.")
        return
    with _no_daemon(directory):
        paired = store.peers()
        if paired:
            typer.echo("These machines will have to forget this one and pair with it again:", err=True)
            for record in paired:
                typer.echo(f"  {named(record)}", err=True)
        if not yes:
            typer.confirm("Make a new identity for this machine?", abort=True, err=True)
        store.clear()
        identity = reset(directory)
    typer.echo(f"This machine has a new identity: id {short_id(identity.device_id)}.")
    if paired:
        typer.echo("Pair again with `pairproxy pair` and `pairproxy join`.")


@contextlib.contextmanager
def _no_daemon(home: Path) -> Iterator[None]:
    """Keep a daemon of this home from running meanwhile. Raises StoreError if one does."""
    from pairproxy.api.client import LOCK_FILE, NoDaemon, read_daemon_file
    from pairproxy.security.private_files import exclusive

    who = ""
    with contextlib.suppress(NoDaemon):
        who = f" (pid {read_daemon_file(home).pid})"
    running = f"A daemon{who} runs with this identity. Stop it, then reset the identity."
    with exclusive(home / LOCK_FILE, tries=1, refusal=running):
        yield
