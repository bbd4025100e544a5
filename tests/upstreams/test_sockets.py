"""The options that decide how soon a vanished host is noticed."""

import asyncio
import contextlib
import errno
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pairproxy.config import Limits
from pairproxy.core.errors import PairproxyError
from pairproxy.security import tls
from pairproxy.upstreams import Upstream
from pairproxy.upstreams import upstream as upstream_module
from pairproxy.upstreams.sockets import USER_TIMEOUT_MS, open_socket
from tests.support.fake_engine import eventually
from tests.support.node import Address
from tests.support.node import identity as own
from tests.support.running import run_async


async def opened(is_peer: bool) -> dict[str, int]:
    """The options of a socket that open_socket made."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        sock = await open_socket(*server.sockets[0].getsockname(), is_peer=is_peer)
        with sock:
            options = {"nodelay": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)}
            options["keepalive"] = sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if sys.platform == "linux":
                for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT"):
                    options[name] = sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
    return options


def test_tokens_are_never_held_back() -> None:
    """TCP_NODELAY is set on every connection, keepalive on none to a local engine."""
    options = run_async(opened(is_peer=False))
    assert options["nodelay"]
    assert not options["keepalive"]


@pytest.mark.skipif(sys.platform != "linux", reason="the options are read back under their Linux names")
def test_a_vanished_peer_is_noticed_by_tcp() -> None:
    """Probes after 5 s, every 2 s, three of them; sent bytes are waited for 10 s."""
    options = run_async(opened(is_peer=True))
    assert options["keepalive"]
    assert (options["TCP_KEEPIDLE"], options["TCP_KEEPINTVL"], options["TCP_KEEPCNT"]) == (5, 2, 3)
    assert options["TCP_USER_TIMEOUT"] == USER_TIMEOUT_MS


def test_all_addresses_of_a_name_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that refuses costs nothing but its refusal."""

    async def talk() -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        with socket.socket() as refusing:
            refusing.bind(("127.0.0.1", 0))
            places = [refusing.getsockname(), server.sockets[0].getsockname()]
            found: list[tuple[object, ...]] = [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places
            ]

            async def resolve(*_: object, **__: object) -> list[tuple[object, ...]]:
                return found

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
            with await open_socket("two-addresses.invalid", 80, is_peer=False) as sock:
                assert sock.getpeername() == places[1]
            found.pop()
            with pytest.raises(ConnectionRefusedError):
                await open_socket("two-addresses.invalid", 80, is_peer=False)
        server.close()
        await server.wait_closed()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # uvloop asks the resolver twice
        runner.run(talk())


@pytest.mark.parametrize(
    "new_loop", [asyncio.SelectorEventLoop, pytest.importorskip("uvloop").new_event_loop]
)
@pytest.mark.skipif(sys.platform == "win32", reason="uvloop does not exist for Windows")
def test_a_link_local_address_keeps_its_zone(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """fe80::1 on the loopback interface leads nowhere; without its zone it would be an invalid argument."""

    async def talk() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(open_socket("fe80::1%1", 9, is_peer=False), 0.2)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        failure: OSError | None = None
        try:
            runner.run(talk())
        except OSError as error:
            failure = error
        assert failure is None or failure.errno not in (errno.EINVAL, None)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_connection_that_is_reset_at_once_is_closed_once(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody keeps the number of a descriptor that is closed: it may be another connection's by then."""
    sockets: list[socket.socket] = []

    async def recorded(*where: Any, is_peer: bool) -> socket.socket:
        sockets.append(await open_socket(*where, is_peer=is_peer))
        return sockets[-1]

    def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def scene() -> None:
        server = await asyncio.start_server(reset, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        who = own("anna")
        context = tls.client_context(who, who.certificate)
        for number in range(60):
            upstream = Upstream(
                Address(port),
                limits=Limits(),
                tls=context if number % 2 else None,
            )
            with contextlib.suppress(PairproxyError):
                await upstream.fetch("GET", "/", limit_bytes=10, timeout_s=5.0)
            await upstream.close()
        server.close()
        await eventually(lambda: all(sock.fileno() == -1 for sock in sockets))

    monkeypatch.setattr(upstream_module, "open_socket", recorded)
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    run_async(scene(), loop_factory=factory)
    assert len(sockets) >= 60
