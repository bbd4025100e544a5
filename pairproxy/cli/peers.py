"""pairproxy peers: the paired machines, what they may do, and whether they are there."""

import contextlib
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from pairproxy.api.commands import Peer, Peers
from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.printing import console, say, show_table
from pairproxy.cli.trusting import NOBODY, share, store_of

if TYPE_CHECKING:
    from pairproxy.api.schema import NodeStatus
    from pairproxy.security.peer_record import PeerRecord

TITLES = ("peer", "id", "state", "may use this machine", "this may use it", "address", "paired")


def peers(home: Home = None, as_json: Json = False) -> None:
    """Show the paired machines: who is there, and what each may do. Works with and without a daemon.

    Examples: `pairproxy peers`, `pairproxy peers --json`.
    """
    found = _peers(home_or_default(home))
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    out = console()
    if not found.peers:
        say(out, NOBODY)
        return
    show_table(out, TITLES, (_row(one, found.has_daemon) for one in found.peers), frozenset(TITLES))
    for one in found.peers:
        if one.problem and not one.is_up and one.i_may_use:
            say(out, f"{plain(one.name)} ({one.id}): {plain(one.problem)}")
    if not found.has_daemon:
        say(out, "No daemon runs here, so nobody looks who is there: `pairproxy up`.")


def _peers(home: Path) -> Peers:
    from pairproxy.api.client import NoDaemon, get_status

    store = store_of(home)
    seen: dict[str, NodeStatus] | None = None
    with contextlib.suppress(NoDaemon):
        seen = {node.node: node for node in get_status(home).nodes}
    return Peers(
        has_daemon=seen is not None,
        peers=tuple(_peer(one, (seen or {}).get(one.node)) for one in (store.peers() if store else ())),
        forgotten={one.node: one.name for one in (store.forgotten() if store else ())},
    )


def _peer(record: "PeerRecord", seen: "NodeStatus | None") -> Peer:
    from pairproxy.security.identity import short_id

    address = seen.address if seen is not None else None
    return Peer(
        name=record.name,
        node=record.node,
        id=short_id(record.node),
        is_up=seen.is_up if seen is not None else None,
        problem=seen.problem if seen is not None else None,
        address=address or next(iter(record.addresses), None),
        age_s=seen.age_s if seen is not None else None,
        may_use_me=record.may_use_me,
        i_may_use=record.i_may_use,
        slots=record.slots,
        models=record.models,
        paired_at=record.paired_at or None,
        may_add_models=record.may_add_models,
    )


def _row(peer: Peer, has_daemon: bool) -> tuple[str, ...]:
    if not has_daemon:
        state = "-"
    elif peer.is_up is None:
        state = "not looked for"
    else:
        state = "there" if peer.is_up else "not there"
    allowed = share(peer.may_use_me, peer.slots, peer.models)
    if peer.may_add_models and peer.may_use_me:
        allowed += ", may add models"
    moment = datetime.datetime.fromtimestamp(peer.paired_at or 0, datetime.UTC).astimezone()
    on = moment.date().isoformat() if peer.paired_at else "-"
    uses = "yes" if peer.i_may_use else "no"
    return (plain(peer.name), peer.id, state, allowed, uses, plain(peer.address or "-"), on)
