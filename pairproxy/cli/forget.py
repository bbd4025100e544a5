"""pairproxy forget: a paired machine gets nothing more from this one, and this one sends it nothing."""

import msgspec
import typer

from pairproxy.api.commands import Forgot
from pairproxy.cli.options import Home, Json, home_or_default
from pairproxy.cli.trusting import Peer, found_in, named


def forget(
    peer: Peer,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Trust a machine no longer, at once: also while it is off, and while requests run on either side.

    What it runs here ends, what we run there goes elsewhere or ends. It hears why it is refused. To trust
    it again, pair anew.

    Examples: `pairproxy forget ben-ws`, `pairproxy forget 5XRB-9TTC`.
    """
    from pairproxy.api.client import trust_changed

    directory = home_or_default(home)
    store, record = found_in(directory, peer)
    store.forget(record.node)
    has_daemon = trust_changed(directory)
    if as_json:
        typer.echo(msgspec.json.encode(Forgot(record.name, record.node, has_daemon)).decode())
        return
    done = "It is cut off." if has_daemon else "No daemon runs here; the next one will not know it."
    typer.echo(
        f"Forgot {named(record)}. {done}\nOn that machine, `pairproxy forget` takes this one off its list."
    )
