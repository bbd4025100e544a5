"""Lines of a reply: whole and bounded, whatever the reads were."""

import contextlib

import pytest

from pairproxy.core.errors import BrokenReply
from tests.support import engine_scripts as scripts
from tests.support.engine_scripts import chunk, chunked_head, endless, raw
from tests.support.relaying import GET, serving
from tests.support.running import run_async


def test_lines_come_whole_and_bounded() -> None:
    """lines() joins and splits whatever the chunks were; a line over the limit is an error."""

    async def talk() -> None:
        parts = [b'{"a":', b"1}\n\n{", b'"b":2}\n{"c":3}\nrest']
        async with serving(scripts.in_chunks(parts, gap_s=0.002, content_type="x")) as (_, upstream):
            reply = await upstream.send(GET)
            assert [line async for line in reply.lines(100)] == [
                b'{"a":1}',
                b"",
                b'{"b":2}',
                b'{"c":3}',
                b"rest",
            ]
            reply = await upstream.send(GET)
            with pytest.raises(BrokenReply):
                [line async for line in reply.lines(6)]

    run_async(talk())


def test_an_endless_line_is_cut_off() -> None:
    """J27 for documents: memory does not grow with a line that never ends."""

    async def talk() -> None:
        async with serving(endless()) as (engine, upstream):
            reply = await upstream.send(GET)
            with pytest.raises(BrokenReply):
                [line async for line in reply.lines(100_000)]
            await engine.connections[0].peer_left()

    run_async(talk())


@pytest.mark.parametrize("too_long", [b"x" * 11, b"x" * 11 + b"\n", b"x" * 11 + b"\ny\n"])
def test_lines_before_one_that_is_too_long_come_though_all_came_at_once(too_long: bytes) -> None:
    """What a reader has of a reply is no matter of how it was cut into reads."""

    async def talk() -> None:
        async with serving(raw(chunked_head() + chunk(b"a\nb\n") + chunk(too_long), then="hang")) as (
            _,
            upstream,
        ):
            lines = (await upstream.send(GET)).lines(10)
            assert [await anext(lines), await anext(lines)] == [b"a", b"b"]
            with pytest.raises(BrokenReply):
                await anext(lines)
            with pytest.raises(StopAsyncIteration):
                await anext(lines)

    run_async(talk())


def test_leaving_the_lines_early_drops_the_connection() -> None:
    """A reader of a state stream that stops is seen to leave."""

    async def talk() -> None:
        async with serving(raw(chunked_head() + chunk(b"a\nb\n"), then="hang")) as (engine, upstream):
            reply = await upstream.send(GET)
            async with contextlib.aclosing(reply.lines(100)) as lines:
                assert await anext(lines) == b"a"
            await engine.connections[0].peer_left()

    run_async(talk())
