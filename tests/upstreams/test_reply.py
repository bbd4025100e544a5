"""What a reply's caller gets: every byte as it was sent, bounded memory, and the truth about its end."""

import asyncio
import contextlib
import functools
from collections.abc import Callable

import pytest

from pairproxy.core.errors import BrokenReply, ReplyTruncated
from pairproxy.upstreams import FunctionSink, Outgoing, pool
from tests.support import engine_scripts as scripts
from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, head, raw
from tests.support.fake_engine import EngineConnection, ParsedRequest, eventually
from tests.support.relaying import GET, Sink, serving
from tests.support.running import run_async

LINES = [
    b'{"message":{"content":"\xf0\x9f\x98\x80\\u0000\x1b[2J \xff"},"done":false}\n',
    b'{"half":',
    b"1}\n",
    b'{"done":true}\n',
]
MESSAGE = b"".join(map(chunk, LINES)) + b"0\r\nX-Trailer: 1\r\n\r\n"


def relayed(
    *pieces: bytes, gap_s: float = 0.0, then: str = "keep", request: Outgoing = GET
) -> tuple[Sink, int, str]:
    """Send the pieces through relay; return what the client got, the status, and the framing."""

    async def talk() -> tuple[Sink, int, str]:
        async with serving(raw(*pieces, gap_s=gap_s, then=then)) as (_, upstream):
            reply = await upstream.send(request)
            sink = Sink()
            await sink.relay(reply)
            return sink, reply.status, reply.framing

    return run_async(talk())


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 64, 10_000])
def test_raw_bytes_pass_untouched_at_any_split(size: int) -> None:
    """Chunk sizes, extensions and trailers arrive as they were sent; the meter sees the decoded body."""
    pieces = [MESSAGE[start : start + size] for start in range(0, len(MESSAGE), size)]
    sink, status, framing = relayed(chunked_head(), *pieces, gap_s=0.0005)
    assert (status, framing) == (200, "chunked")
    assert sink.raw == MESSAGE
    assert sink.body == b"".join(LINES)


def _has_writes(sink: Sink, count: int) -> bool:
    return len(sink.writes) == count


def test_each_chunk_is_passed_on_when_it_comes() -> None:
    """What the engine sends as one chunk reaches the client as one write, before the next is made."""

    async def talk() -> None:
        go = asyncio.Event()

        async def script(request: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(chunked_head())
            for line in LINES:
                await connection.send(chunk(line))
                await go.wait()
                go.clear()
            await connection.send(LAST_CHUNK)

        async with serving(script) as (_, upstream):
            reply = await upstream.send(GET)
            sink = Sink()
            task = asyncio.create_task(sink.relay(reply))
            for number, line in enumerate(LINES, start=1):
                await eventually(functools.partial(_has_writes, sink, number))
                assert sink.writes[-1] == chunk(line)
                assert sink.parts[-1] == line
                assert reply.is_at_chunk_boundary
                go.set()
            await task
            assert not reply.is_at_chunk_boundary

    run_async(talk())


def test_a_reply_that_came_whole_in_one_read_is_whole() -> None:
    """Small JSON, an empty body, and a body-less status need no second read."""
    sink, status, framing = relayed(scripts.json_bytes({"ok": True}))
    assert (status, framing, sink.raw) == (200, "length", b'{"ok":true}')
    sink, status, _ = relayed(head(500, ("Content-Length", "0")))
    assert (status, sink.raw) == (500, b"")
    sink, status, framing = relayed(head(204))
    assert (status, framing, sink.raw) == (204, "none", b"")
    sink, _, framing = relayed(chunked_head() + LAST_CHUNK)
    assert (framing, sink.raw, sink.body) == ("chunked", LAST_CHUNK, b"")
    sink, _, framing = relayed(head(200, ("Content-Length", "17")), request=Outgoing("HEAD", "/"))
    assert (framing, sink.raw) == ("none", b"")


def test_the_end_of_the_connection_ends_a_body_without_framing() -> None:
    """J07: close-delimited replies are complete at FIN; a script for HTTP/1.0 clients relies on it."""
    sink, status, framing = relayed(head(200), b'{"done":', b"true}\n", gap_s=0.005, then="close")
    assert (status, framing, sink.raw) == (200, "close", b'{"done":true}\n')


def test_interim_replies_never_reach_the_client() -> None:
    """J13: only the final reply counts."""
    sink, status, _ = relayed(
        b"HTTP/1.1 100 Continue\r\n\r\n" * 16 + head(200, ("Content-Length", "2")) + b"ok"
    )
    assert (status, sink.raw) == (200, b"ok")


def truncated(*pieces: bytes, then: str, gap_s: float = 0.02) -> tuple[Sink, bool]:
    """Relay a reply that ends too early; return what the client got and whether a chunk could follow."""

    async def talk() -> tuple[Sink, bool]:
        async with serving(raw(*pieces, gap_s=gap_s, then=then)) as (_, upstream):
            reply = await upstream.send(GET)
            sink = Sink()
            with pytest.raises(ReplyTruncated):
                await sink.relay(reply)
            return sink, reply.is_at_chunk_boundary

    return run_async(talk())


@pytest.mark.parametrize("then", ["close", "reset"])
def test_death_after_the_first_byte_is_a_truncation(then: str) -> None:
    """J05: the client has what came, and one more chunk could be written after whole ones."""
    sink, may_add = truncated(chunked_head(), chunk(b"one\n"), chunk(b"two\n"), then=then)
    assert sink.raw == chunk(b"one\n") + chunk(b"two\n")
    assert may_add


@pytest.mark.parametrize("cut", [b"5", b"5\r\n", b"5\r\nhel", b"5\r\nhello", b"5\r\nhello\r", b"0\r\n"])
def test_nothing_may_be_added_inside_a_chunk(cut: bytes) -> None:
    """Where the engine died inside a chunk, another one would be read as part of it."""
    sink, may_add = truncated(chunked_head(), chunk(b"one\n"), cut, then="close")
    assert sink.raw == chunk(b"one\n") + cut
    assert not may_add


def test_broken_framing_after_the_first_byte_is_a_truncation() -> None:
    """J06 later: the broken bytes are kept from the client, so that a chunk may follow the whole ones."""
    sink, may_add = truncated(chunked_head(), chunk(b"one\n"), chunk(b"two\n") + b"zz\r\nthree", then="hang")
    assert sink.raw == chunk(b"one\n") + chunk(b"two\n")
    assert may_add


def test_what_came_whole_before_a_fault_in_the_same_read_is_relayed() -> None:
    """The first body byte decides that it is a reply, even if its failure is known already."""
    sink, may_add = truncated(chunked_head() + chunk(b"one\n") + b"zz\r\n", then="hang")
    assert sink.raw == chunk(b"one\n")
    assert may_add


@pytest.mark.parametrize("pieces", [(head(200, ("Content-Length", "10")), b"12345"), (head(200), b"{half")])
def test_a_body_that_stays_short_is_a_truncation(pieces: tuple[bytes, ...]) -> None:
    """Too few bytes for Content-Length, or RST where FIN would have been the end."""
    sink, may_add = truncated(*pieces, then="reset")
    assert sink.raw == pieces[-1]
    assert not may_add


def abandoned_within(stop: Callable[[asyncio.Task[None]], object], *pieces: bytes) -> float:
    """Start a relay, ``stop`` it in the middle; return the seconds until the engine saw its client leave."""

    async def talk() -> float:
        async with serving(raw(*pieces, then="hang")) as (engine, upstream):
            reply = await upstream.send(GET)
            sink = Sink()
            task = asyncio.create_task(sink.relay(reply))
            await eventually(lambda: bool(sink.writes))
            started = asyncio.get_running_loop().time()
            stop(task) if stop is not abandon else reply.abandon()
            with contextlib.suppress(asyncio.CancelledError, ReplyTruncated):
                await task
            return await engine.connections[0].peer_left() - started

    return run_async(talk())


def abandon(task: asyncio.Task[None]) -> None:
    """Stands for ``reply.abandon()``."""


@pytest.mark.timed
@pytest.mark.parametrize("stop", [asyncio.Task.cancel, abandon])
def test_the_engine_sees_at_once_that_its_client_left(stop: Callable[[asyncio.Task[None]], object]) -> None:
    """Cancelling a relay, or abandoning the reply, closes the connection within a second."""
    assert abandoned_within(stop, chunked_head() + chunk(b"one\n")) < 1.0


def test_what_the_clients_side_raises_ends_the_relay() -> None:
    """A fault in the meter is the relay's own error, and the engine sees its client leave."""

    async def talk() -> None:
        async with serving(raw(chunked_head() + chunk(b"one"), chunk(b"two"), gap_s=0.02, then="hang")) as (
            engine,
            upstream,
        ):
            reply = await upstream.send(GET)
            sink = Sink()

            def meter(part: bytes) -> None:
                if part == b"two":
                    raise KeyError("meter")

            with pytest.raises(KeyError):
                await reply.relay(FunctionSink(sink.write, meter, sink.drain, sink.buffered))
            await engine.connections[0].peer_left()

    run_async(talk())


def test_a_body_can_be_read_whole_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """read() decodes; one byte too many is an error and the connection is dropped."""
    monkeypatch.setattr(pool, "IDLE_S", 0.05)

    async def talk() -> None:
        async with serving(
            raw(chunked_head(), chunk(b"12345"), chunk(b"67890") + LAST_CHUNK, gap_s=0.005)
        ) as (engine, upstream):
            assert await (await upstream.send(GET)).read(10) == b"1234567890"
            with pytest.raises(BrokenReply, match="more than 9 bytes"):
                await (await upstream.send(GET)).read(9)
            await eventually(lambda: engine.open_connections == 0)

    run_async(talk())


def test_reading_a_reply_that_dies_is_an_error() -> None:
    """read() never returns a part for the whole."""

    async def talk() -> None:
        async with serving(raw(head(200, ("Content-Length", "9")), b"half", gap_s=0.005, then="close")) as (
            _,
            upstream,
        ):
            with pytest.raises(ReplyTruncated):
                await (await upstream.send(GET)).read(100)

    run_async(talk())
