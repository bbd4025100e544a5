"""The side of a pairing where the code is typed: it tries the machines that may have shown it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from pairproxy.core.errors import PairingFailed
from pairproxy.core.handshake import Joiner
from pairproxy.core.handshake_steps import Failed, Reason
from pairproxy.peers.pairing import Exchange, Keeping, Me
from pairproxy.peers.pairing_mdns import Candidate
from pairproxy.security.pairing import Sealing, Secret, Spake

MOST_CANDIDATES = 3  # that are asked: each may check one guess of the code
MOST_UNREACHABLE = 8  # machines that do not answer, before the search is given up
CONNECT_S = 1.5  # a host that is gone; LAN handshakes take milliseconds
DIAL_S = 6.0  # for all addresses of one machine: sixteen dead ones must not use up the code's time
BUSY_TRIES = 14  # while another exchange is under way there; a silent one is thrown out after 5 s
BUSY_S = 0.5

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Tell = Callable[[str], None]
"""Takes a sentence for the screen."""


async def join(me: Me, secret: Secret, found: AsyncGenerator[Candidate, None], tell: Tell) -> Exchange:
    """Try the machines that were found until one proves that it knows the code; the exchange is settled.

    ``tell`` hears what went wrong with each. Raises PairingFailed with what to do if none does, StoreError
    if the one that does cannot be stored.
    """
    sentence = ""
    asked = unreachable = 0
    async with contextlib.aclosing(found):
        async for candidate in found:
            streams = await connected(candidate)
            if streams is None:
                unreachable += 1
                sentence = sentence or _unreachable(candidate)
            else:
                exchange = await _asked(me, secret, candidate, streams)
                if exchange.record is not None:
                    return exchange
                asked += 1
                sentence = _why(exchange, candidate)
                tell(sentence)
            if asked >= MOST_CANDIDATES or unreachable >= MOST_UNREACHABLE:
                break
    raise PairingFailed(sentence or _NOBODY)


def _why(exchange: Exchange, candidate: Candidate) -> str:
    """Why it failed. Raises if it was with the machine that knows the code: there is no other to look for."""
    failed = exchange.failed or Failed(Reason.LOST)
    if exchange.error is not None:
        raise exchange.error
    if exchange.problem:
        raise PairingFailed(exchange.problem)
    sentence = _sentence(failed, candidate)
    if exchange.has_accepted and failed.reason in (Reason.CARD, Reason.STORE):
        raise PairingFailed(sentence)
    return sentence


async def connected(candidate: Candidate) -> Streams | None:
    """A connection to the first of its addresses that answers; None if none does in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DIAL_S):
            for host in candidate.hosts:
                with contextlib.suppress(OSError, UnicodeError):  # its own TimeoutError is an OSError
                    async with asyncio.timeout(CONNECT_S):
                        return await asyncio.open_connection(host, candidate.port)
    return None


async def _asked(me: Me, secret: Secret, candidate: Candidate, streams: Streams) -> Exchange:
    """One exchange, begun anew as long as the other side is busy with somebody else."""
    left = BUSY_TRIES
    while True:
        exchange = await _once(me, secret, streams)
        left -= 1
        is_busy = exchange.failed is not None and exchange.failed.reason is Reason.BUSY
        if not is_busy or not left:
            return exchange
        await asyncio.sleep(BUSY_S)
        again = await connected(candidate)
        if again is None:
            return exchange
        streams = again


async def _once(me: Me, secret: Secret, streams: Streams) -> Exchange:
    keeping = Keeping(me, secret.certificate_hash)
    side = Joiner(Spake(secret.password, is_host=False), Sealing(), keeping.case)
    exchange = Exchange(side, keeping, streams)
    is_settled = False
    try:
        is_settled = await exchange.run()
    finally:
        if not is_settled:
            await exchange.close()
    return exchange


def _unreachable(candidate: Candidate) -> str:
    host = str(candidate)
    if ":" not in host and not host.replace(".", "").isdigit():  # a name, as a person may type one
        return (
            f"Nothing answers at {host}, port {candidate.port}. Is a machine called so here (its address, "
            "which `pairproxy pair` shows, is surer), does `pairproxy pair` still run there, and does its "
            "firewall let that port in?"
        )
    return (
        f"Nothing answers at {candidate}, port {candidate.port}. Is `pairproxy pair` still running there, "
        "and does its firewall let that port in?"
    )


def _sentence(failed: Failed, candidate: Candidate) -> str:
    """Why it came to nothing with this machine, and what to do."""
    if failed.reason is Reason.CODE and not failed.is_told:
        return (
            f"{candidate} answered but does not know this code: it was mistyped, or someone else may be "
            "answering."
        )
    if failed.reason is Reason.CODE:
        left = "" if failed.tries_left is None else f" ({_tries(failed.tries_left)})"
        then = "Compare it with the other screen." if failed.tries_left != 0 else "Make a new one there."
        return f"{candidate} says that the code is wrong{left}. {then}"
    sentences = {
        Reason.BUSY: "is busy with somebody else's try. Try again in a few seconds.",
        Reason.CLOSED: "no longer takes this code: it was used, or tried too often. Make a new one there.",
        Reason.VERSION: "runs another version of pairproxy. Bring both to one version and pair again.",
        Reason.CARD: "does not accept this machine's certificate. Bring both to one version of pairproxy and "
        "pair again.",
        Reason.STORE: "could not store this machine as a peer, so nothing was stored here either. Its screen "
        "says why.",
        Reason.LOST: "broke off, so nothing was stored here. Run both commands again.",
    }
    return f"{candidate} {sentences.get(failed.reason, _BROKEN)}"


def _tries(left: int) -> str:
    return "1 try left" if left == 1 else f"{left} tries left"


_BROKEN = (
    "sent what is no part of a pairing, or somebody changed it on its way. Nothing was stored. Run both "
    "commands again."
)
_NOBODY = (
    "No machine that shows this code was found on the network. Is `pairproxy pair` still running there? "
    "Where mDNS does not pass, add --at with the address that it shows."
)
