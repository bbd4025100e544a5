"""Opening a TCP connection, and the socket options that differ between platforms."""

import asyncio
import socket
from contextlib import suppress
from typing import Any

KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES = 5, 2, 3  # a vanished host is noticed in 11 s
USER_TIMEOUT_MS = 10_000  # sent bytes unacknowledged for so long: the cable is out


async def open_socket(host: str, port: int, *, is_peer: bool) -> socket.socket:
    """Connect to ``host``, trying its addresses in turn; no timeout. Raises OSError, UnicodeError."""
    loop = asyncio.get_running_loop()
    found: list[Any] = []
    with suppress(socket.gaierror):
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    if not found:  # a name, not an address: ask the resolver, which may block
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError("no address")
    for family, kind, protocol, _, address in found:
        try:
            return await _connect(socket.socket(family, kind, protocol), _with_zone(address), is_peer)
        except OSError as error:
            failure = error
    raise failure


def give_away(sock: socket.socket) -> None:
    """Leave a socket to the transport that was made of it, or that failed to be: that one closes it, once.

    uvloop forgets to take it from who made it where the connection is lost before create_connection returns.
    The descriptor was closed a second time then, with the number of somebody else's connection.
    """
    if type(asyncio.get_running_loop()).__module__.startswith("uvloop"):
        sock.detach()


def _with_zone(address: tuple[Any, ...]) -> tuple[Any, ...]:
    """Write the zone of a link-local address into its host: uvloop takes no notice of the number."""
    host, port, *others = address
    return (f"{host}%{others[1]}", port, *others) if len(others) == 2 and others[1] else address


async def _connect(sock: socket.socket, address: tuple[Any, ...], is_peer: bool) -> socket.socket:
    try:
        sock.setblocking(False)
        _set_options(sock, is_peer)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _set_options(sock: socket.socket, is_peer: bool) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not is_peer:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPALIVE", KEEPALIVE_IDLE_S),  # what macOS calls it
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", USER_TIMEOUT_MS),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
