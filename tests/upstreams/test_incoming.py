"""What arrives: judged before the first body byte, and bounded while nobody takes it."""

import asyncio
import contextlib

import pytest

from pairproxy.config import Limits
from pairproxy.core.errors import BrokenReply, UpstreamError
from pairproxy.upstreams import Outgoing
from tests.support.engine_scripts import (
    ENDLESS_BLOCK,
    chunked_head,
    endless,
    head,
    json_bytes,
    raw,
)
from tests.support.fake_engine import EngineConnection, ParsedRequest, eventually
from tests.support.relaying import GET, Sink, serving
from tests.support.running import run_async

OK = json_bytes({"ok": 1})
CANARY = b"CANARY-7f3a"


def test_the_reply_is_there_with_its_first_body_byte_not_before() -> None:
    """Until then another node may still answer, so the head alone is no reply."""

    async def talk() -> None:
        go = asyncio.Event()

        async def script(request: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(chunked_head() + b"3\r\n")
            await go.wait()
            await connection.send(b"a")
            await connection.peer_left()

        async with serving(script) as (engine, upstream):
            task = asyncio.create_task(upstream.send(GET))
            await eventually(lambda: len(engine.requests) == 1)
            done, _ = await asyncio.wait({task}, timeout=0.1)
            assert not done
            go.set()
            reply = await task
            assert reply.headers == (
                (b"Content-Type", b"application/x-ndjson"),
                (b"Transfer-Encoding", b"chunked"),
            )
            reply.abandon()

    run_async(talk())


BROKEN = {
    "J01 close": ((b"",), "close"),
    "J01 reset": ((b"",), "reset"),
    "J02 bytes": ((b"\x00\x01" + CANARY,), "hang"),
    "J02 text": ((CANARY,), "hang"),
    "J03": ((b"HTTP/1.1 200 OK\r\n",), "close"),
    "J04 length": ((head(200, ("Content-Length", "10")),), "close"),
    "J04 chunked": ((chunked_head(),), "close"),
    "J04 inside the size": ((chunked_head() + b"a",), "reset"),
    "J06 size": ((chunked_head() + b"zz\r\n",), "hang"),
    "J06 17 digits": ((chunked_head() + b"00000000000000001\r\na",), "hang"),
    "J09 both": ((head(200, ("Content-Length", "5"), ("Transfer-Encoding", "chunked")),), "hang"),
    "J09 two": ((head(200, ("Content-Length", "5"), ("Content-Length", "6")),), "hang"),
    "J09 negative": ((head(200, ("Content-Length", "-1")),), "hang"),
    "J10 999": ((b"HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n",), "hang"),
    "J10 099": ((b"HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n",), "hang"),
    "J11": ((b"HTTP/1.1 20\r\nContent-Length: 0\r\n\r\n",), "hang"),
    "J12": ((b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",), "hang"),
    "J13 too many": ((b"HTTP/1.1 100 Continue\r\n\r\n" * 1025,), "hang"),
    "J14": ((b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",), "hang"),
    "J15 204": ((head(204) + b"body",), "hang"),
    "J15 304": ((head(304, ("Content-Length", "4")) + b"body",), "hang"),
    "J17 NUL": ((head(200, ("X", "a\0" + CANARY.decode())),), "hang"),
    "J17 CR": ((b"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",), "hang"),
    "J17 reason": ((b"HTTP/1.1 200 O\rK\r\n\r\n",), "hang"),
    "J19 many": ((b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n",), "hang"),
    "J19 endless": ((b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,), "hang"),
}  # fmt: skip


@pytest.mark.parametrize("row", BROKEN)
def test_a_reply_that_breaks_before_its_first_body_byte_may_be_had_elsewhere(row: str) -> None:
    """Each is a BrokenReply without a byte of the reply in its text, and the connection is dropped."""
    pieces, then = BROKEN[row]

    async def talk() -> None:
        async with serving(raw(*pieces, then=then)) as (engine, upstream):
            with pytest.raises(BrokenReply) as caught:
                await upstream.send(GET)
            assert caught.value.may_retry
            assert CANARY.decode() not in str(caught.value)
            assert caught.value.__cause__ is None
            await engine.connections[0].peer_left()
            assert len(engine.requests) == 1

    run_async(talk())


@pytest.mark.parametrize("status", [200, 302, 404, 413, 429, 500, 503])
def test_every_final_status_is_a_reply(status: int) -> None:
    """J16, J29: redirects are not followed and errors are not judged here."""

    async def talk() -> None:
        reply_bytes = head(status, ("Location", "http://169.254.169.254/"), ("Content-Length", "2")) + b"no"
        async with serving(raw(reply_bytes)) as (engine, upstream):
            reply = await upstream.send(GET)
            assert (reply.status, await reply.read(10), len(engine.requests)) == (status, b"no", 1)

    run_async(talk())


def test_encoded_bodies_are_not_decoded() -> None:
    """J21: what looks like gzip passes as it is."""

    async def talk() -> None:
        async with serving(
            raw(head(200, ("Content-Encoding", "gzip"), ("Content-Length", "4")) + b"\x1f\x8b\0\0")
        ) as (_, upstream):
            assert await (await upstream.send(GET)).read(10) == b"\x1f\x8b\0\0"

    run_async(talk())


def test_a_head_that_comes_byte_by_byte_is_waited_for() -> None:
    """J20: slowness is for the caller to judge; cancelling ends it."""

    async def talk() -> None:
        async with serving(raw(*(bytes([byte]) for byte in OK[:-4]), OK[-4:], gap_s=0.001)) as (
            engine,
            upstream,
        ):
            assert await (await upstream.send(GET)).read(100) == b'{"ok":1}'
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.03):
                    await upstream.send(GET)
            await engine.connections[0].peer_left()

    run_async(talk())


@pytest.mark.timed
@pytest.mark.parametrize("pieces", [(), (chunked_head(),)])
def test_cancelling_a_request_closes_its_connection_at_once(pieces: tuple[bytes, ...]) -> None:
    """J22, F31: a client that leaves before the first token is seen by the engine within a second."""

    async def talk() -> None:
        async with serving(raw(*pieces, then="hang")) as (engine, upstream):
            task = asyncio.create_task(upstream.send(GET))
            await eventually(lambda: len(engine.requests) == 1)
            cancelled_at = asyncio.get_running_loop().time()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await engine.connections[0].peer_left() - cancelled_at < 1.0

    run_async(talk())


def test_errors_say_what_to_do() -> None:
    """Every sentence ends as one and names the place."""

    async def talk() -> None:
        for pieces, then in BROKEN.values():
            async with serving(raw(*pieces, then=then)) as (engine, upstream):
                with pytest.raises(UpstreamError) as caught:
                    await upstream.send(GET)
                assert f"127.0.0.1:{engine.port}" in caught.value.sentence
                assert caught.value.sentence.endswith(".")

    run_async(talk())


@pytest.mark.parametrize("cut", [1, 10, 40, len(OK) - 9, len(OK) - 1])
def test_replies_that_begin_alike_are_read_alike_however_they_come(cut: int) -> None:
    """The head of the reply before is no end of one that is cut inside, and to HEAD it has no body."""

    async def talk() -> None:
        pieces = [[OK], [OK[:cut], OK[cut:]], [OK]]

        async def script(request: ParsedRequest, connection: EngineConnection) -> None:
            if request.method == "HEAD":
                await connection.send(head(200, ("Content-Length", "8")))
                return
            for piece in pieces.pop(0):
                await connection.send(piece)
                await asyncio.sleep(0.01)

        async with serving(script) as (engine, upstream):
            for request in (GET, GET, Outgoing("HEAD", "/", ((b"Host", b"engine"),)), GET):
                reply = await upstream.send(request)
                body = b"" if request.method == "HEAD" else b'{"ok":1}'
                assert (reply.status, await reply.read(100)) == (200, body)
            assert len(engine.connections) == 1

    run_async(talk())


SMALL = Limits(relay_buffer_bytes=64 * 1024)


def test_a_client_that_takes_nothing_stops_the_engine() -> None:
    """Back-pressure: what waits for a stuck client is bounded, and goes on when the client does."""

    async def talk() -> None:
        async with serving(endless(), SMALL) as (engine, upstream):
            reply = await upstream.send(GET)
            sink = Sink(capacity=0)
            task = asyncio.create_task(sink.relay(reply))
            await eventually(lambda: sink.drains == 1)
            await eventually(lambda: engine.connections[0].is_blocked)
            stuck = len(sink.raw)
            await asyncio.sleep(0.1)  # the time in which an unbounded relay would take hundreds of megabytes
            assert len(sink.raw) == stuck <= SMALL.relay_buffer_bytes + 2 * 256 * 1024
            sink.take()
            await eventually(lambda: sink.drains == 2)
            assert len(sink.raw) > stuck
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    run_async(talk())


def test_what_waits_before_the_relay_starts_is_bounded() -> None:
    """A reply that nobody relays yet stops its engine too, and nothing of it is lost."""

    async def talk() -> None:
        async with serving(endless(), SMALL) as (engine, upstream):
            reply = await upstream.send(GET)
            await eventually(lambda: engine.connections[0].is_blocked)
            await asyncio.sleep(0.1)  # the time in which an unbounded buffer would take hundreds of megabytes
            sink = Sink(capacity=0)
            task = asyncio.create_task(sink.relay(reply))
            await eventually(lambda: sink.drains == 1)
            assert len(sink.raw) <= SMALL.relay_buffer_bytes + 2 * 256 * 1024
            assert sink.raw == (ENDLESS_BLOCK * (len(sink.raw) // len(ENDLESS_BLOCK) + 1))[: len(sink.raw)]
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    run_async(talk())


def test_a_large_reply_leaves_its_connection_readable() -> None:
    """What paused the connection for one reply does not keep it paused for the next."""

    async def talk() -> None:
        body = b"x" * (SMALL.relay_buffer_bytes + 1)
        async with serving(raw(head(200, ("Content-Length", str(len(body)))) + body), SMALL) as (
            engine,
            upstream,
        ):
            for _ in range(3):
                assert await (await upstream.send(GET)).read(len(body)) == body
            assert len(engine.connections) == 1

    run_async(talk())
