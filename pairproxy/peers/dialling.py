"""Trying several addresses side by side: the first at which the peer proves its key wins.

The race is that of RFC 8305 (Happy Eyeballs), over all addresses that anybody named instead of those of one
name: a dead address costs a head start, not its timeout.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable

from pairproxy.core.errors import UpstreamError
from pairproxy.peers.addresses import MAX_ADDRESSES, Address, is_link_local

HEAD_START_S = 0.25  # RFC 8305 section 5: what one attempt has before the next begins
RESOLVE_S = 2.0  # a name server that does not answer must not hold up the addresses

Dial = Callable[[Address], Awaitable[None]]
"""Raises UpstreamError where the peer does not prove its key."""


async def race(
    candidates: Iterable[Address], dial: Dial, failed: Callable[[Address, UpstreamError], None]
) -> Address | None:
    """Dial in order, the next HEAD_START_S after the last or at once when one failed; None: nobody won.

    What is under way when one wins, or when this is cancelled, is cancelled. ``failed`` hears of each
    address that did not work.
    """
    waiting = list(candidates)
    under_way: dict[asyncio.Task[None], Address] = {}
    try:
        while waiting or under_way:
            if waiting:
                address = waiting.pop(0)
                under_way[asyncio.ensure_future(_dialled(dial, address))] = address
            done, _ = await asyncio.wait(
                under_way, timeout=HEAD_START_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            winners = []
            for task in sorted(done, key=list(under_way).index):
                address = under_way.pop(task)
                error = task.exception()
                if error is None:
                    winners.append(address)
                elif isinstance(error, UpstreamError):
                    failed(address, error)
                else:
                    raise error
            if winners:
                return winners[0]
        return None
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def resolved(candidates: Iterable[Address]) -> list[Address]:
    """The same with each name replaced by the addresses it has now, MAX_ADDRESSES at most, all at once."""
    lists = await asyncio.gather(*(_addresses_of(one) for one in candidates))
    found: dict[tuple[str, int], Address] = {}
    for one in (one for addresses in lists for one in addresses):
        found.setdefault(one.place, one)
    return list(found.values())


async def _dialled(dial: Dial, address: Address) -> None:
    await dial(address)


async def _addresses_of(candidate: Address) -> list[Address]:
    host, port = candidate.place
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        pass  # a name
    else:
        return [candidate]
    try:
        async with asyncio.timeout(RESOLVE_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # TimeoutError is an OSError
        return []
    hosts = list(dict.fromkeys(_with_zone(tuple(address)) for *_, address in found))
    hosts.sort(key=is_link_local)
    return [Address(one, port, candidate.source) for one in hosts[:MAX_ADDRESSES]]


def _with_zone(address: tuple[object, ...]) -> str:
    host = str(address[0])
    return f"{host}%{address[3]}" if len(address) == 4 and address[3] and "%" not in host else host
