"""pairproxy join: pair with the machine that shows a code."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, home_or_default
from pairproxy.cli.pairing import JsonLines, Machine, OneWay, prepare, say, settle
from pairproxy.cli.trusting import Models, Slots

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pairproxy.peers.pairing_mdns import Candidate
    from pairproxy.security.pairing import Secret

_MOST_INPUT = 1024  # characters; a token has 81


def join(
    code: Annotated[
        str, typer.Argument(help="What `pairproxy pair` shows there; - reads it from standard input.")
    ],
    at: Annotated[
        str | None,
        typer.Option(help="Where that machine is, if it is not found by itself.", metavar="HOST[:PORT]"),
    ] = None,
    home: Home = None,
    one_way: OneWay = False,
    slots: Slots = None,
    models: Models = None,
    as_json: JsonLines = False,
) -> None:
    """Pair this machine with the one that shows the code.

    Pair only with machines whose owner may read what you ask: what is sent there can be read there.

    Examples: `pairproxy join 4821-9376`, `pairproxy join 4821-9376 --at 192.168.1.7`, `pairproxy join -`.
    """
    from pairproxy.cli.ending import run_to_its_end
    from pairproxy.peers.pairing_mdns import at as place
    from pairproxy.security.pairing import read_secret

    secret = read_secret(sys.stdin.read(_MOST_INPUT) if code == "-" else code)
    candidate = None if at is None else place(at)
    machine = prepare(home_or_default(home), one_way=one_way, slots=slots, models=models)
    run_to_its_end(_join(machine, secret, candidate, as_json))


async def _join(machine: Machine, secret: "Secret", place: "Candidate | None", as_json: bool) -> None:
    import asyncio

    from pairproxy.core.errors import PairingFailed
    from pairproxy.peers.pairing_joiner import join as join_one
    from pairproxy.peers.pairing_mdns import candidates

    if place is None:
        if not as_json:
            say("Looking for the machine that shows this code...")
        found = candidates(secret.nameplate, is_on_loopback=machine.me.is_on_loopback)
    else:
        found = _only(place)
    said: list[str] = []

    def tell(sentence: str) -> None:
        said.append(sentence)
        say(sentence)

    try:
        exchange = await join_one(machine.me, secret, found, tell)
    except asyncio.CancelledError:
        say(f"Stopped. {_IN_VAIN}")
        raise
    except PairingFailed as error:
        raise PairingFailed(_IN_VAIN) if error.sentence in said else error from None
    await settle(machine, exchange, as_json)


_IN_VAIN = "Not paired; nothing was stored on this machine."


async def _only(place: "Candidate") -> "AsyncGenerator[Candidate, None]":
    yield place
