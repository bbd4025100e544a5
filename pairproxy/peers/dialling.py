"""Trying several addresses side by side: the first at which the peer proves its key wins.

The race is that of RFC 8305 (Happy Eyeballs), over all addresses that anybody named instead of those of one
name: a dead address costs a head start, not its timeout.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable

from pairproxy.core.errors import Unreachable, UpstreamError
from pairproxy.peers.addresses import MAX_ADDRESSES, MDNS, Address, is_link_local

HEAD_START_S = 0.25  # RFC 8305 section 5: what one attempt has before the next begins
MOST_DIALS = 96  # in one race: all that may be known, and some that are named meanwhile
RESOLVE_S = 2.0  # a name server that does not answer must not hold up the addresses

Candidates = Callable[[], Iterable[Address]]
Dial = Callable[[Address], Awaitable[None]]
"""Raises UpstreamError where the peer does not prove its key."""


async def race(
    candidates: Candidates, dial: Dial, failed: Callable[[Address, UpstreamError], None]
) -> Address | None:
    """Dial in order, the next HEAD_START_S after the last or at once when one failed; None: nobody won.

    ``candidates`` is asked again before each dial: an address that is named meanwhile takes part. What is
    under way when one wins, or when this is cancelled, is cancelled. ``failed`` hears of each address that
    did not work.
    """
    tried: set[tuple[str, int]] = set()
    announced = 0  # of those that were tried: a flood of them must leave time for the others
    under_way: dict[asyncio.Task[Address], Address] = {}
    try:
        while True:
            known = (one for one in candidates() if one.source != MDNS or announced < MAX_ADDRESSES)
            fresh = next((one for one in known if one.place not in tried), None)
            if fresh is not None and len(tried) < MOST_DIALS:
                tried.add(fresh.place)
                announced += fresh.source == MDNS
                under_way[asyncio.create_task(_dialled(fresh, dial, failed), name="dial")] = fresh
            if not under_way:
                return None
            winner = await _first_won(under_way, failed)
            if winner is not None:
                return winner
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _first_won(
    under_way: dict[asyncio.Task[Address], Address], failed: Callable[[Address, UpstreamError], None]
) -> Address | None:
    """Wait for a head start, or until one is over; those that are leave ``under_way``."""
    done, _ = await asyncio.wait(under_way, timeout=HEAD_START_S, return_when=asyncio.FIRST_COMPLETED)
    winner: Address | None = None
    for task in sorted(done, key=list(under_way).index):
        address = under_way.pop(task)
        error = task.exception()
        if error is None:
            winner = winner or task.result()
        elif isinstance(error, UpstreamError):
            failed(address, error)
        else:
            raise error
    return winner


async def _dialled(
    candidate: Address, dial: Dial, failed: Callable[[Address, UpstreamError], None]
) -> Address:
    """Where the peer proved its key: a name is a race of its own, over the addresses that it has now."""
    if _is_number(candidate):
        await dial(candidate)
        return candidate
    found = await resolved(candidate)
    winner = await race(lambda: found, dial, failed)
    if winner is None:
        raise Unreachable(
            f"Nothing answers at {candidate}. See whether the name is right, and it runs there."
        )
    return winner


async def resolved(name: Address) -> list[Address]:
    """The addresses a name has now, MAX_ADDRESSES at most, link-local ones last; none if it has none."""
    host, port = name.place
    try:
        async with asyncio.timeout(RESOLVE_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # TimeoutError is an OSError
        return []
    hosts = list(dict.fromkeys(_with_zone(tuple(address)) for *_, address in found))
    hosts.sort(key=is_link_local)
    return [Address(one, port, name.source) for one in hosts[:MAX_ADDRESSES]]


def _is_number(address: Address) -> bool:
    try:
        ipaddress.ip_address(address.host)
    except ValueError:
        return False
    return True


def _with_zone(address: tuple[object, ...]) -> str:
    host = str(address[0])
    return f"{host}%{address[3]}" if len(address) == 4 and address[3] and "%" not in host else host
