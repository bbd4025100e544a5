"""pairproxy pair: show a code and wait for the machine where it is typed."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pairproxy.api.commands import Offered
from pairproxy.cli.options import Home, home_or_default
from pairproxy.cli.pairing import (
    JsonLines,
    Machine,
    OneWay,
    clear,
    count_down,
    prepare,
    say,
    settle,
)
from pairproxy.cli.trusting import Models, Slots

if TYPE_CHECKING:
    from pairproxy.core.handshake_steps import Failed
    from pairproxy.peers.pairing import Exchange
    from pairproxy.security.pairing import Secret


def pair(
    home: Home = None,
    token: Annotated[
        bool, typer.Option("--token", help="Print one line to paste, good for 10 minutes, instead of a code.")
    ] = False,
    one_way: OneWay = False,
    slots: Slots = None,
    models: Models = None,
    as_json: JsonLines = False,
) -> None:
    """Show a code with which another machine can join this one; good for two minutes and three tries.

    Pair only with machines whose owner may read what you ask: what is sent there can be read there.

    Examples: `pairproxy pair`, `pairproxy pair --token`, `pairproxy pair --slots 1 --model 'qwen*'`.
    """
    from pairproxy.cli.ending import run_to_its_end
    from pairproxy.security.pairing import new_code, new_token

    machine = prepare(home_or_default(home), one_way=one_way, slots=slots, models=models)
    secret = new_token(machine.me.identity.certificate) if token else new_code()
    run_to_its_end(_pair(machine, secret, as_json))


async def _pair(machine: Machine, secret: "Secret", as_json: bool) -> None:
    await settle(machine, await _wait(machine, secret, as_json), as_json)


async def _wait(machine: Machine, secret: "Secret", as_json: bool) -> "Exchange":
    import asyncio

    from pairproxy.peers.pairing_host import opened
    from pairproxy.peers.pairing_mdns import announced

    is_on_loopback = machine.me.is_on_loopback
    async with (
        opened(machine.me, secret, lambda failed: say(_told(failed))) as port,
        announced(secret.nameplate, port.port, is_on_loopback=is_on_loopback) as announced_at,
    ):
        _show(secret, _places(machine.me.card.hosts, port.port), bool(announced_at), as_json)
        counting = asyncio.ensure_future(count_down(secret.life_s))
        try:
            return await port.paired()
        except asyncio.CancelledError:
            say("Stopped: this code is void, and nothing was paired.")
            raise
        finally:
            counting.cancel()
            await asyncio.wait([counting])
            clear()


def _show(secret: "Secret", places: tuple[str, ...], is_announced: bool, as_json: bool) -> None:
    if as_json:
        offered = Offered(secret.text, secret.life_s, places, is_announced)
        typer.echo(msgspec.json.encode(offered).decode())
        return
    minutes = f"{secret.life_s / 60:.0f} min"
    if secret.certificate_hash is None:
        typer.echo(f"Pairing code: {secret.text} ({minutes})")
    else:
        typer.echo(f"Pairing token ({minutes}, keep it to yourself):\n{secret.text}")
    typer.echo(f"On the other machine: pairproxy join {secret.text}")
    if not places:
        typer.echo(
            "This machine is on no network where another could reach it: connect it and run this again."
        )
    elif not is_announced:
        typer.echo("mDNS does not work here, so add one of this machine's addresses:")
        for place in places:
            typer.echo(f"  pairproxy join {secret.text} --at {place}")
    else:
        typer.echo(f"If it finds nothing: add --at {places[0]}")


def _places(hosts: tuple[str, ...], port: int) -> tuple[str, ...]:
    from pairproxy.peers.addresses import joined
    from pairproxy.peers.pairing import PREFERRED_PORT

    return hosts if port == PREFERRED_PORT else tuple(joined(host, port) for host in hosts)


def _told(failed: "Failed") -> str:
    """What a try that came to nothing means, and how many are left."""
    from pairproxy.core.handshake_steps import Reason

    sentences = {
        Reason.CODE: "A wrong code was tried: it was mistyped, or somebody else on this network is guessing.",
        Reason.VERSION: "A machine with another version of pairproxy tried. Bring both to one version.",
        Reason.STORE: "The other machine could not store this one; its screen says why. Nothing is kept.",
        Reason.CARD: "The code was right, but one machine does not accept the other's certificate; the other "
        "screen may say why.",
        Reason.LOST: "A try broke off before it was complete. Nothing was kept.",
        Reason.BROKEN: "Something came that is no part of a pairing, or was changed on its way.",
    }
    left = failed.tries_left
    tries = "" if left is None else f" ({left} {'try' if left == 1 else 'tries'} left)"
    return sentences.get(failed.reason, "A try came to nothing.") + tries
