"""The settings of our servers: what comes on a connection after what, and how a port ends."""

import asyncio
import contextlib
import socket
from functools import partial

import pytest

from pairproxy.config import Limits
from pairproxy.proxy import server
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.server import PagePort
from pairproxy.responses import Response
from pairproxy.security import tls
from tests.support.fake_engine import FakeEngine
from tests.support.node import Node, identity, node_before
from tests.support.open_ports import echo, hello, open_port
from tests.support.peer_calls import STATE, ben_trusting_anna, call, sent
from tests.support.raw_client import MAKERS, RawClient, request
from tests.support.running import run_async

TAGS = "GET /api/tags HTTP/1.1"


def test_requests_in_a_row_are_answered_in_a_row() -> None:
    """A client may send many requests before it reads an answer; each gets its own, in order."""

    async def main() -> None:
        async with node_before(echo) as (node, engine), await RawClient.open(node.port) as client:
            many = b"".join(request(f"GET /{number} HTTP/1.1", None) for number in range(100))
            client.writer.write(many + request("POST /last HTTP/1.1", b"body"))
            for number in range(100):
                assert (await client.reply()).json() == {"target": f"/{number}"}
            assert (await client.reply()).json() == {"target": "/last"}
            assert engine.requests[-1].body == b"body"

    run_async(main())


def test_no_reply_of_ours_says_with_what_it_was_made() -> None:
    """Neither aiohttp nor Python is named to peers or clients: not in a stream, a refusal or an error."""
    peers = {
        "state": (STATE, 200),
        "catalogue": (request("GET /pairproxy/catalogue HTTP/1.1", None, host="x"), 200),
        "shown": (sent(path="/api/show"), 404),
        "refused": (sent(path="/api/pull"), 403),
        "bad": (request("POST /api/chat HTTP/1.1", b"{"), 400),
    }
    clients = {
        "no HTTP": (b"hello\r\n\r\n", 400),
        "a foreign name": (request(TAGS, None, host="evil.example"), 403),
        "too much": (request(TAGS, None, "X: " + "y" * 2**20), 400),
    }

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine):
            engine.stop_listening()
            for open_one, asked in (
                (partial(call, ben), peers),
                (partial(RawClient.open, ben.port), clients),
            ):
                for name, (data, status) in asked.items():
                    async with await open_one() as client:
                        await client.send(data)
                        head = await client.head()
                        assert head.status == status, name
                        assert not MAKERS.search(repr(head.headers)), name

    run_async(main())


@pytest.mark.parametrize("line", [TAGS, "POST /api/chat HTTP/1.1"])
@pytest.mark.parametrize("protocol", ["websocket", "h2c", "foo"])
def test_an_upgrade_is_answered_as_a_plain_request(line: str, protocol: str) -> None:
    """Never 101; what follows on the connection is the next request."""

    async def main() -> None:
        body = b'{"model":"m:1"}' if line.startswith("POST") else None
        upgrade = request(line, body, "Connection: Upgrade", f"Upgrade: {protocol}", "Sec-WebSocket-Key: x")
        async with node_before(echo) as (node, engine), await RawClient.open(node.port) as client:
            assert [(await client.ask(upgrade)).status for _ in range(2)] == [200, 200]
            assert (await client.ask(request("GET /next HTTP/1.1", None))).json() == {"target": "/next"}
            is_asked = protocol == "websocket" and body is None  # the engine, who does not agree
            seen = protocol.encode() if is_asked else None
            assert [one.header("Upgrade") for one in engine.requests] == [seen, seen, None]

    run_async(main())


def test_stopping_ends_what_hangs() -> None:
    """A handler that never ends is cancelled; afterwards nobody answers at the port."""

    async def main() -> None:
        ended: list[str] = []
        began = asyncio.Event()

        async def hang(_: object) -> Response:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")
            raise AssertionError

        port, number = await open_port(hang)
        async with await RawClient.open(number) as client:
            await client.send(request(TAGS, None))
            await began.wait()
            await port.stop()
            assert ended == ["cancelled"]
            assert await client.end() == b""
        with pytest.raises(ConnectionRefusedError):
            await RawClient.open(number)

    run_async(main())


def test_stopping_lets_a_reply_end_within_its_grace() -> None:
    """What ends in time is delivered whole."""

    async def main() -> None:
        began = asyncio.Event()

        async def slow(_: object) -> Response:
            began.set()
            await asyncio.sleep(0.05)
            return Response(b"whole")

        port, number = await open_port(slow)
        async with await RawClient.open(number) as client:
            await client.send(request(TAGS, None))
            await began.wait()
            await port.stop(grace_s=30.0)
            assert (await client.reply()).body == b"whole"

    run_async(main())


@pytest.mark.parametrize(
    ("start", "drop"), [(b"", b""), (b"GET /api/tags HTT", b""), (b"GET / HTTP/1.1\r\n", b"X: 1\r\n")]
)
def test_a_head_that_does_not_come_is_not_waited_for(
    start: bytes, drop: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence, half a line and headers that drip in all end at the same deadline."""
    monkeypatch.setattr(server, "IDLE_S", 0.15)

    async def main() -> None:
        async with FakeEngine(echo) as engine, Node(engine) as node:
            async with await RawClient.open(node.port) as client:

                async def drip() -> None:
                    client.writer.write(start)
                    while drop:  # until the connection ends
                        client.writer.write(drop)
                        await asyncio.sleep(0.02)

                dripping = asyncio.create_task(drip())
                with contextlib.suppress(ConnectionError):  # a drop that came after it
                    assert await client.end() == b""
                dripping.cancel()
            assert engine.requests == []

    run_async(main())


def test_a_stranger_that_never_shakes_hands_is_put_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS has a deadline of its own, far below asyncio's."""
    monkeypatch.setattr(server, "HANDSHAKE_S", 0.1)

    async def main() -> None:
        (sock,) = bind("127.0.0.1", 0, "")
        port = PagePort(hello, Limits())
        await port.start(sock, tls.server_context(identity("anna"), []))
        async with await RawClient.open(port_of(sock)) as client:
            assert await client.end() == b""  # sooner than a client here loses patience
        await port.stop()

    run_async(main())


def test_a_large_header_is_fine_up_to_its_limit() -> None:
    """The limit is ours, not aiohttp's 8190 bytes."""

    async def main() -> None:
        port, number = await open_port(hello)
        async with await RawClient.open(number) as client:
            reply = await client.ask(request(TAGS, None, "Cookie: " + "c" * 60_000))
            assert reply.body == b"hello"
            too_long = await client.ask(request(TAGS, None, "Cookie: " + "c" * 70_000))
            assert too_long.status == 400
        await port.stop()

    run_async(main())


def test_a_head_has_a_limit_in_all() -> None:
    """A hundred headers that are fine each are eight megabytes; the engine hears nothing of them."""
    many = tuple(f"X-Trace-{number}: {'a' * 1000}" for number in range(80))

    async def main() -> None:
        async with node_before(echo) as (node, engine):
            for count, status in ((40, 200), (80, 431)):
                async with await RawClient.open(node.port) as client:
                    reply = await client.ask(request("GET /x HTTP/1.1", None, *many[:count]))
                    assert reply.status == status
            assert len(engine.requests) == 1

    run_async(main())


def test_small_packets_are_not_held_back() -> None:
    """Chunks of a stream leave at once: Nagle's algorithm is off towards the client."""

    async def main() -> None:
        async with node_before(echo) as (node, _), await RawClient.open(node.port) as client:
            await client.ask(request(TAGS, None))
            (connection,) = node.client_port._connections.open
            assert connection.transport is not None
            sock = connection.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run_async(main())
