"""Requests as bytes: written as given, and never as two."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from pairproxy.core.errors import BadRequest, BrokenReply
from pairproxy.upstreams import Outgoing
from pairproxy.upstreams.outgoing import SLICE_BYTES, request_head, upload
from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, json_bytes, pieces_of, raw
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.relaying import GET, Sink, post, serving, upstream_of
from tests.support.running import run_async

OK = json_bytes({"ok": 1})


def test_the_head_is_what_was_given_in_order() -> None:
    """Target, header names, values and their order are the client's own."""
    target = "//api/a%2Fb?x=\udcff"
    outgoing = Outgoing(
        "POST", target, ((b"hOST", b"a:1"), (b"X", b"\xff"), (b"X", b""), (b"Host", b"b")), b""
    )
    expected = b"POST //api/a%2Fb?x=\xff HTTP/1.1\r\nhOST: a:1\r\nX: \xff\r\nX: \r\nHost: b\r\n\r\n"
    assert request_head(outgoing) == expected
    assert request_head(Outgoing("GET", "/", version=(1, 0))) == b"GET / HTTP/1.0\r\n\r\n"


def test_an_iterator_is_chunked_unless_its_length_is_given() -> None:
    """A known length stays known, an unknown one stays chunked."""
    body = pieces_of(b"", 1)
    assert b"\r\nTransfer-Encoding: chunked\r\n" in request_head(Outgoing("POST", "/", ((b"A", b"b"),), body))
    known = Outgoing("POST", "/", ((b"content-LENGTH", b"5"),), body)
    assert b"Transfer-Encoding" not in request_head(known)


@pytest.mark.parametrize(
    "outgoing",
    [
        Outgoing("GET", "/a b"),
        Outgoing("GET", "/a HTTP/1.1\r\nX: y\r\n\r\nGET /"),
        Outgoing("GET /x", "/"),
        Outgoing("GET", "/\n"),
        Outgoing("GET", "/\0"),
        Outgoing("GET", "/", ((b"A", b"b\r\nC: d"),)),
        Outgoing("GET", "/", ((b"A", b"b\rc"),)),
        Outgoing("GET", "/", ((b"A\n", b"b"),)),
        Outgoing("GET", "/", ((b"A", b"\0"),)),
        Outgoing("POST", "/", (), pieces_of(b"x", 1), version=(1, 0)),
    ],
)
def test_nothing_in_a_request_can_begin_another_one(outgoing: Outgoing) -> None:
    """Line breaks and spaces where none belong are refused before a byte is sent."""
    with pytest.raises(BadRequest):
        request_head(outgoing)


@pytest.mark.parametrize("size", [SLICE_BYTES - 1, SLICE_BYTES, 3 * SLICE_BYTES + 1])
def test_a_large_body_goes_in_slices_and_waits_before_each(size: int) -> None:
    """What is handed over at once is bounded."""
    body = bytes(range(256)) * (size // 256 + 1)
    written: list[bytes | memoryview] = []
    waits = 0

    async def writable() -> None:
        nonlocal waits
        waits += 1

    run_async(upload(Outgoing("POST", "/", (), body[:size]), written.append, writable))
    assert b"".join(written) == body[:size]
    assert max(map(len, written)) <= SLICE_BYTES
    assert waits == len(written)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [((), b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"), (((b"Content-Length", b"4"),), b"abcd")],
)
def test_an_iterator_is_framed_as_its_head_says(
    headers: tuple[tuple[bytes, bytes], ...], expected: bytes
) -> None:
    """Each part is one chunk, or goes as it is under a Content-Length."""
    written: list[bytes | memoryview] = []

    async def writable() -> None:
        pass

    run_async(upload(Outgoing("POST", "/", headers, pieces_of(b"abcd", 3)), written.append, writable))
    assert b"".join(written) == expected


BIG = bytes(range(256)) * 4 * 1024 * 20  # 20 MiB


@pytest.mark.parametrize("is_iterated", [False, True])
def test_a_big_upload_arrives_whole(is_iterated: bool) -> None:
    """More than any buffer holds, as bytes or as an iterator."""

    async def talk() -> None:
        async with serving(raw(OK)) as (engine, upstream):
            request = post(BIG)
            if is_iterated:
                request = Outgoing("POST", "/", (), pieces_of(BIG, 100_000))
            assert (await upstream.send(request)).status == 200
            assert engine.requests[0].body == BIG
            if not is_iterated:
                await upstream.send(GET)
                assert len(engine.connections) == 1

    run_async(talk())


def test_an_upload_is_never_faster_than_the_engine() -> None:
    """An engine that stops reading stops the client's body after what the buffers hold."""

    async def talk() -> None:
        taken = 0

        async def body() -> AsyncIterator[bytes]:
            nonlocal taken
            while True:
                taken += 65536
                yield bytes(65536)

        async def script(request: ParsedRequest, connection: EngineConnection) -> None:
            connection.pause()
            await asyncio.sleep(600)

        async with FakeEngine(script, is_at_head=True) as engine, upstream_of(engine) as upstream:
            task = asyncio.create_task(upstream.send(Outgoing("POST", "/", (), body())))
            await eventually(lambda: len(engine.requests) == 1)
            stuck = -1
            while stuck < taken < 32 * 1024 * 1024:  # until buffers are full; an unbounded sender goes on
                stuck = taken
                await asyncio.sleep(0.1)
            assert taken < 32 * 1024 * 1024
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    run_async(talk())


@pytest.mark.parametrize("is_iterated", [False, True])
@pytest.mark.parametrize("closes", [False, True])
def test_an_early_refusal_wins_over_the_upload(is_iterated: bool, closes: bool) -> None:
    """J23: 413 is relayed while 20 MiB are still to be sent, and the connection is not used again."""

    async def talk() -> None:
        async def script(request: ParsedRequest, connection: EngineConnection) -> None:
            await connection.received_bytes(100_000)
            connection.pause()
            await connection.send(json_bytes({"error": "too large"}, 413))
            if closes:
                connection.close()
            else:
                await asyncio.sleep(600)

        async with FakeEngine(script, is_at_head=True) as engine, upstream_of(engine) as upstream:
            request = Outgoing("POST", "/", (), pieces_of(BIG, 50_000)) if is_iterated else post(BIG)
            reply = await upstream.send(request)
            sink = Sink()
            await sink.relay(reply)
            assert (reply.status, sink.raw) == (413, b'{"error":"too large"}')
            assert upstream._pool.take(engine.address()) is None

    run_async(talk())


def test_an_early_success_waits_for_the_end_of_the_upload() -> None:
    """An engine may begin its reply while the body is still coming; it gets all of it."""

    async def talk() -> None:
        go = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b"first"
            await go.wait()
            yield b"second"

        async def script(request: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(chunked_head() + chunk(b"a"), gap_s=0.05)  # send() has seen it by then
            go.set()
            await connection.read_body(request)
            await connection.send(chunk(b"b") + LAST_CHUNK)

        async with FakeEngine(script, is_at_head=True) as engine, upstream_of(engine) as upstream:
            reply = await upstream.send(Outgoing("POST", "/", (), body()))
            assert await reply.read(10) == b"ab"
            assert engine.requests[0].body == b"firstsecond"

    run_async(talk())


def test_what_the_body_raises_is_raised_by_send() -> None:
    """A client that breaks off its upload is the client's own fault, and the engine sees it leave."""

    async def talk() -> None:
        async def body() -> AsyncIterator[bytes]:
            yield b"first"
            raise BadRequest("The body broke off. Send it again.")

        async with FakeEngine(raw(then="hang"), is_at_head=True) as engine, upstream_of(engine) as upstream:
            with pytest.raises(BadRequest):
                await upstream.send(Outgoing("POST", "/", (), body()))
            await engine.connections[0].peer_left()

    run_async(talk())


def test_an_engine_that_dies_during_the_upload_is_a_broken_reply() -> None:
    """The upload ends with it; nothing waits for ever."""

    async def talk() -> None:
        async def script(request: ParsedRequest, connection: EngineConnection) -> None:
            await connection.received_bytes(100_000)
            connection.reset()

        async with FakeEngine(script, is_at_head=True) as engine, upstream_of(engine) as upstream:
            with pytest.raises(BrokenReply):
                await upstream.send(post(BIG))

    run_async(talk())
