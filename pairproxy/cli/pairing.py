"""What `pair` and `join` share: who this machine is, what the other may do here, and what came of it."""

import logging
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pairproxy.api.commands import Paired
from pairproxy.cli.options import plain
from pairproxy.cli.trusting import named, share

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pairproxy.config import Settings
    from pairproxy.peers.pairing import Exchange, Granted, Me, Report
    from pairproxy.security.peer_record import PeerRecord

REACH_S = 10.0  # for the daemons to find each other: 0.3 s at the address just used, 3 s by mDNS alone
_POLL_S = 0.2
_TRIAL_FILE = ".pairing"

OneWay = Annotated[
    bool, typer.Option("--one-way", help="Use the other machine, but do not let it use this one.")
]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON, one document a line, instead of text.")]


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine, ready to pair. ``peer_port`` is 0 if the system will choose it."""

    home: Path
    me: "Me"
    peer_port: int


def prepare(home: Path, *, one_way: bool, slots: int | None, models: list[str] | None) -> Machine:
    """Load or make the identity of ``home`` and see that a peer can be stored there.

    Raises SetupError saying what to mend, before the other machine is bothered; typer.BadParameter for
    options that contradict each other.
    """
    if one_way and (slots is not None or models):
        raise typer.BadParameter(
            "--one-way lets it use nothing here: leave out that, or --slots and --model."
        )
    from pairproxy.loading import load
    from pairproxy.peers import own_addresses
    from pairproxy.peers.pairing import Granted, Me
    from pairproxy.security.identity import load_or_create
    from pairproxy.security.pairing_cards import own_card
    from pairproxy.security.peer_record import printable
    from pairproxy.security.private_files import remove_private, write_private
    from pairproxy.security.trust import TrustStore

    logging.getLogger("zeroconf").setLevel(logging.CRITICAL)  # odd packets of others are nothing to tell here
    config = home / "config.toml"
    settings = load(config if config.exists() else None, os.environ)
    identity = load_or_create(home)
    trust = TrustStore(home, identity.device_id)
    trust.load()
    write_private(home / "peers" / _TRIAL_FILE, b"x" * 4096)
    remove_private(home / "peers" / _TRIAL_FILE)
    is_on_loopback = settings.peers.loopback
    here = own_addresses.usable(own_addresses.snapshot())
    port = _peer_port(home, settings)
    card = own_card(
        identity,
        printable(settings.node.name or socket.gethostname()),
        you_may_use_me=not one_way,
        peer_port=port,
        hosts=(own_addresses.LOOPBACK,) if is_on_loopback else tuple(own_addresses.advertised(here)),
    )
    granted = Granted(may_use_me=not one_way, slots=slots, models=tuple(models or ()))
    _check(granted)
    return Machine(home, Me(identity, trust, card, granted, is_on_loopback), port)


async def settle(machine: Machine, exchange: "Exchange", as_json: bool) -> None:
    """Tell the daemons, compare what they reach, and say what happened."""
    import asyncio

    from pairproxy.api.client import trust_changed
    from pairproxy.peers.pairing import Report

    record = exchange.record
    if record is None:
        return
    try:
        if not as_json:
            told = _paired(record, exchange.was_forgotten)
            for line in [*told, *namesakes(record, machine.me.trust.peers())]:
                typer.echo(line)
        mine = Report(await asyncio.to_thread(trust_changed, machine.home))
        theirs = await exchange.compare(mine)
        if mine.has_daemon and theirs is not None and theirs.has_daemon:
            say("Seeing whether the daemons reach each other...")
            mine = Report(True, await _has_reached(machine.home, record) if record.i_may_use else None)
            theirs = await exchange.compare(mine)
    finally:
        await exchange.close()
    if as_json:
        typer.echo(msgspec.json.encode(_document(record, exchange.was_forgotten, mine, theirs)).decode())
        return
    for line in connection(plain(record.name), machine.peer_port, mine, theirs):
        typer.echo(line)
    if not mine.has_daemon:  # one of another user or --home may run, and look like the right one
        typer.echo(f"Only a daemon with this home goes by this pairing: {machine.home}")


def connection(name: str, port: int, mine: "Report", theirs: "Report | None") -> list[str]:
    """Whether the two daemons reach each other, as sentences: what is not so, and what to do about it."""
    if not mine.has_daemon and (theirs is None or not theirs.has_daemon):
        return ["Now start `pairproxy up` on both machines."]
    if not mine.has_daemon:
        return ["Now start `pairproxy up` on this machine."]
    if theirs is None:
        said = f"{name} did not say whether it reaches this machine; `pairproxy status` there shows it."
        return [*_reached(name, mine.has_reached), said]
    if not theirs.has_daemon:
        return [f"Now start `pairproxy up` on {name}."]
    if mine.has_reached and theirs.has_reached:
        return ["The connection works in both directions."]
    lines = _reached(name, mine.has_reached)
    if theirs.has_reached is False:
        port_text = f"TCP port {port}" if port else "the peer port"
        lines.append(
            f"{name} could not reach this machine within {REACH_S:.0f} s. Let {port_text} in through this "
            f"machine's firewall, or name this machine's address in peers.static on {name}."
        )
    elif theirs.has_reached:
        lines.append(f"{name} reaches this machine.")
    return lines


def namesakes(record: "PeerRecord", peers: "Iterable[PeerRecord]") -> list[str]:
    """What to do about other peers of this name: a machine with a new identity leaves its old one behind."""
    from pairproxy.security.identity import short_id

    return [
        f'Another pairing is called "{plain(one.name)}", too (id {short_id(one.node)}). If that was the same '
        f"machine before `reset-identity`: pairproxy forget {short_id(one.node)}"
        for one in peers
        if one.name == record.name and one.node != record.node
    ]


def say(text: str) -> None:
    """A line on standard error, over the countdown if there is one."""
    clear()
    typer.echo(text, err=True)


def clear() -> None:
    """Wipe the countdown off the line."""
    if sys.stderr.isatty():
        typer.echo("\r" + " " * _COUNTDOWN_WIDTH + "\r", nl=False, err=True)


async def count_down(seconds: float) -> None:
    """Show how long the code still lives, on a terminal; elsewhere do nothing."""
    import asyncio

    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while sys.stderr.isatty() and (left := end - loop.time()) > 0:
        text = f"waiting, {int(left) // 60}:{int(left) % 60:02d} left (Ctrl-C to stop)"
        typer.echo("\r" + text.ljust(_COUNTDOWN_WIDTH), nl=False, err=True)
        await asyncio.sleep(1.0)


def _check(granted: "Granted") -> None:
    from pairproxy.core.errors import ConfigError
    from pairproxy.security.peer_record import MOST_PATTERNS, PATTERN_CHARACTERS, are_patterns

    if not are_patterns(granted.models):
        raise ConfigError(
            f"--model takes up to {MOST_PATTERNS} names of up to {PATTERN_CHARACTERS} characters."
        )


def _peer_port(home: Path, settings: "Settings") -> int:
    """The port of the running daemon, else the one that it will have; 0 if nobody knows yet."""
    from pairproxy.api.client import NoDaemon, read_daemon_file
    from pairproxy.config import parse_listen

    try:
        port = read_daemon_file(home).peer_port
    except NoDaemon:
        port = None
    return port or parse_listen(settings.peers.listen, "peers.listen")[1]


async def _has_reached(home: Path, record: "PeerRecord") -> bool:
    import asyncio

    from pairproxy.api.client import NoDaemon, get_status

    loop = asyncio.get_running_loop()
    end = loop.time() + REACH_S
    while loop.time() < end:
        try:
            status = await asyncio.to_thread(get_status, home)
        except NoDaemon:  # it has just been stopped
            return False
        if any(node.node == record.node and node.is_up for node in status.nodes):
            return True
        await asyncio.sleep(_POLL_S)
    return False


def _paired(record: "PeerRecord", was_forgotten: bool) -> list[str]:
    name = plain(record.name)
    rights = f"{name} may use this machine: {share(record.may_use_me, record.slots, record.models)}."
    there = f"This machine may use {name}: {'yes' if record.i_may_use else 'no'}."
    lines = [f"Paired with {named(record)}. {rights} {there}"]
    if was_forgotten:
        lines.append(f"{name} had been forgotten here; now it is trusted again.")
    if record.i_may_use:
        lines.append(f"The owner of {name} can read whatever this machine sends there.")
    if record.may_use_me:
        lines.append(f"You could read what {name} sends here; its owner is told the same.")
    return lines


def _reached(name: str, has_reached: bool | None) -> list[str]:
    if has_reached is None:
        return []
    if has_reached:
        return [f"This machine reaches {name}."]
    what = f"This machine could not reach {name} within {REACH_S:.0f} s."
    remedy = f"Let its peer port (11634 if unchanged) in through the firewall of {name}"
    return [f"{what} {remedy}, or name its address in peers.static here."]


def _document(record: "PeerRecord", was_forgotten: bool, mine: "Report", theirs: "Report | None") -> Paired:
    return Paired(
        name=record.name,
        node=record.node,
        may_use_me=record.may_use_me,
        i_may_use=record.i_may_use,
        slots=record.slots,
        models=record.models,
        addresses=record.addresses,
        was_forgotten=was_forgotten,
        has_daemon=mine.has_daemon,
        has_reached=mine.has_reached,
        other_has_daemon=theirs.has_daemon if theirs else None,
        other_has_reached=theirs.has_reached if theirs else None,
    )


_COUNTDOWN_WIDTH = 44
