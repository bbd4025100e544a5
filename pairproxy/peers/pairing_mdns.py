"""Finding the machine that shows a code: a service of its own on mDNS, for as long as the code lives.

It tells two digits, a port and addresses, nothing else; whoever answers there must know the other six digits.
"""

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from zeroconf import Error as ZeroconfError
from zeroconf import ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from pairproxy.config import parse_listen
from pairproxy.core.errors import ConfigError, PairingFailed
from pairproxy.peers import own_addresses
from pairproxy.peers.announcement import LOWEST_PORT, MOST_ADDRESSES, Reader, dialable, txt_values
from pairproxy.peers.pairing import PREFERRED_PORT

SERVICE = "_pairproxy-pair._tcp.local."
LOOK_S = 6.0  # for machines with the nameplate: mDNS needs 0.1 s, up to 3 s where packets are lost
MOST_SEEN = 32  # announcements that are looked at; a flood of names must cost something of a known size
_HOST = re.compile(r"[\w.:%-]{1,253}", re.ASCII)  # a name, or an address with a zone
_ASK_MS = 2000
_CLOSE_S = 2.0  # goodbyes take a quarter of a second


@dataclass(frozen=True, slots=True)
class Candidate:
    """A machine that may be the one with the code: where it says it is."""

    hosts: tuple[str, ...]
    port: int

    def __str__(self) -> str:
        return self.hosts[0]


@contextlib.asynccontextmanager
async def announced(nameplate: str, port: int, *, is_on_loopback: bool) -> AsyncIterator[tuple[str, ...]]:
    """Announce the nameplate inside; yields the addresses announced, none if mDNS does not work here.

    Leaving the block says goodbye.
    """
    here = own_addresses.usable(await asyncio.to_thread(own_addresses.snapshot))
    addresses = [own_addresses.LOOPBACK] if is_on_loopback else own_addresses.advertised(here)
    mdns = await _opened(here, is_on_loopback)
    if mdns is None:
        yield ()
        return
    try:
        yield tuple(addresses) if await _registered(mdns, nameplate, port, addresses) else ()
    finally:
        await _closed(mdns)


async def candidates(
    nameplate: str, *, is_on_loopback: bool, look_s: float = LOOK_S
) -> AsyncGenerator[Candidate, None]:
    """Machines that announce the nameplate, as they are found, for ``look_s`` seconds.

    Raises PairingFailed where mDNS does not work.
    """
    everywhere = await asyncio.to_thread(own_addresses.snapshot)
    mdns = await _opened(own_addresses.usable(everywhere), is_on_loopback)
    if mdns is None:
        raise PairingFailed(
            "This machine has no network on which it could look for the other. Connect it, or add --at with "
            "the address that the other screen shows."
        )
    own = frozenset() if is_on_loopback else frozenset(one.address for one in everywhere)
    reader = Reader("", 0, own, is_on_loopback)
    found: asyncio.Queue[AsyncServiceInfo] = asyncio.Queue(MOST_SEEN)
    names: set[str] = set()

    def on_change(zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        if state_change is ServiceStateChange.Removed or name in names or len(names) >= MOST_SEEN:
            return
        names.add(name)
        with contextlib.suppress(ZeroconfError):  # a name that is none
            found.put_nowait(AsyncServiceInfo(service_type, name))

    browser = AsyncServiceBrowser(mdns.zeroconf, SERVICE, handlers=[on_change])
    end = asyncio.get_running_loop().time() + look_s
    try:
        while service := await _next(found, end):
            if await _is_known(mdns.zeroconf, service):
                candidate = read(service.text or b"", service.port, _addresses(service), nameplate, reader)
                if candidate is not None:
                    yield candidate
    finally:
        await browser.async_cancel()
        await _closed(mdns)


def read(
    text: bytes, port: int | None, addresses: tuple[str, ...], nameplate: str, reader: Reader
) -> Candidate | None:
    """What is usable of an announcement, if it is one of this nameplate."""
    values = txt_values(text)
    if values.get("n") != nameplate or port is None or not LOWEST_PORT <= port <= 65535:
        return None
    usable = (dialable(one, port, reader) for one in addresses[: 4 * MOST_ADDRESSES])
    in_order = sorted((one for one in usable if one), key=lambda one: one.is_link_local)
    hosts = tuple(dict.fromkeys(map(str, in_order)))[:MOST_ADDRESSES]
    return Candidate(hosts, port) if hosts else None


def at(text: str) -> Candidate:
    """HOST or HOST:PORT as a person typed it. Raises ConfigError if it is neither."""
    host, port = text, PREFERRED_PORT
    if text.startswith("[") and text.endswith("]"):
        host = text[1:-1]
    elif text.startswith("[") or text.count(":") == 1:
        try:
            host, port = parse_listen(text, "--at")
        except ConfigError:
            port = 0  # its example is of another kind of place
    if not _HOST.fullmatch(host) or port == 0:
        raise ConfigError(
            f"--at {text!r} is neither HOST nor HOST:PORT, for example 192.168.1.7 or 192.168.1.7:41234."
        )
    return Candidate((host,), port)


async def _opened(here: frozenset[own_addresses.OwnAddress], is_on_loopback: bool) -> AsyncZeroconf | None:
    interfaces: list[str | int] = (
        [own_addresses.LOOPBACK] if is_on_loopback else own_addresses.listening(here)
    )
    if not interfaces:
        return None
    try:
        return AsyncZeroconf(interfaces=interfaces)
    except (OSError, ZeroconfError):
        return None


async def _registered(mdns: AsyncZeroconf, nameplate: str, port: int, addresses: list[str]) -> bool:
    token = secrets.token_hex(8)  # says nothing about user or machine
    service = AsyncServiceInfo(
        SERVICE,
        f"{token}.{SERVICE}",
        port=port,
        properties={"n": nameplate},
        server=f"pp-{token}.local.",
        parsed_addresses=addresses,
    )
    try:
        # Names are random, so nobody is asked whether ours is free.
        await (await mdns.async_register_service(service, cooperating_responders=True))
    except (OSError, ZeroconfError):
        return False
    return True


async def _next(found: asyncio.Queue[AsyncServiceInfo], end: float) -> AsyncServiceInfo | None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(end):
            return await found.get()
    return None


async def _is_known(zeroconf: Zeroconf, service: AsyncServiceInfo) -> bool:
    try:
        return service.load_from_cache(zeroconf) or await service.async_request(zeroconf, _ASK_MS)
    except (ZeroconfError, OSError, ValueError):
        return False


def _addresses(service: AsyncServiceInfo) -> tuple[str, ...]:
    return tuple(service.parsed_scoped_addresses())


async def _closed(mdns: AsyncZeroconf) -> None:
    with contextlib.suppress(TimeoutError, ZeroconfError, OSError):
        async with asyncio.timeout(_CLOSE_S):
            await mdns.async_close()
