"""A connection to a port: ended on one side, and faults told without a word of the request."""

import asyncio
import gc
import logging
from collections.abc import Callable

import pytest

from pairproxy.proxy import server
from pairproxy.proxy.connection import Connection
from pairproxy.proxy.request import HttpRequest
from pairproxy.responses import Response, StreamResponse
from tests.support.fake_engine import eventually
from tests.support.node import node_before
from tests.support.open_ports import echo, hello, open_port
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed

TAGS = "GET /api/tags HTTP/1.1"


def test_a_second_request_may_be_the_one_that_ends_a_side() -> None:
    """Half-closing is for any request of a connection, and it ends the connection after the reply."""

    async def main() -> None:
        async with node_before(echo) as (node, _), await RawClient.open(node.port) as client:
            assert (await client.ask(request(TAGS, None))).status == 200
            client.writer.write(request(TAGS, None))
            client.half_close()
            assert (await client.final()).status == 200
            assert await client.end() == b""

    run_async(main())


def test_an_idle_client_that_ends_its_side_is_let_go() -> None:
    """Before, between and after requests there is nothing to wait for."""

    async def main() -> None:
        async with node_before(echo) as (node, _):
            async with await RawClient.open(node.port) as early, await RawClient.open(node.port) as late:
                early.half_close()
                assert await early.end() == b""
                await late.ask(request(TAGS, None))
                late.half_close()
                assert await late.end() == b""
            await eventually(lambda: node.client_port.connections == 0)

    run_async(main())


def test_only_ports_that_say_so_wait_for_the_half_closed() -> None:
    """Elsewhere the end of a side is the end."""

    async def main() -> None:
        async def slow(_: HttpRequest) -> StreamResponse:
            is_begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        is_begun = asyncio.Event()
        port, number = await open_port(slow)
        async with await RawClient.open(number) as client:
            await client.send(request(TAGS, None))
            await is_begun.wait()
            client.half_close()
            assert await client.end() == b""
        await port.stop()

    run_async(main())


def test_a_fault_is_told_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """Where a handler leaves the answer to its port, a fault is 500 in JSON; the log says where it was."""

    async def main() -> None:
        async def fails(_: HttpRequest) -> StreamResponse:
            raise ValueError("CANARY-44f0")

        port, number = await open_port(fails)
        async with await RawClient.open(number) as client:
            reply = await client.ask(request(TAGS, None))
            assert (reply.status, set(reply.json())) == (500, {"error"})
            assert b"CANARY" not in reply.body
            assert await client.end() == b""
        await port.stop()

    with caplog.at_level(logging.DEBUG):
        run_async(main())
    assert "CANARY" not in caplog.text
    assert "ValueError in fails:" in caplog.text


@pytest.mark.breaks_off("a fault of ours in the middle")
def test_a_fault_in_the_middle_of_a_reply_adds_nothing_to_it() -> None:
    """The reply ends where it was, without its terminator."""

    async def main() -> None:
        async def fails(incoming: HttpRequest) -> StreamResponse:
            response = StreamResponse()
            await response.prepare(incoming)
            await response.write(b"half")
            raise ValueError

        port, number = await open_port(fails)
        async with await RawClient.open(number) as client:
            reply = await client.ask(request(TAGS, None))
            assert (reply.is_whole, reply.chunks) == (False, [b"half"])
        await port.stop()

    run_async(main())


@pytest.mark.parametrize("end", [Connection.give_way, Connection.part])
def test_a_request_that_came_is_answered_whenever_its_connection_is_to_end(
    end: Callable[[Connection], object],
) -> None:
    """In each turn of the loop from its being read to its being answered, the first one or a later one."""

    async def main(turns: int, earlier: int) -> None:
        port, number = await open_port(hello)
        async with await RawClient.open(number) as client:
            for _ in range(earlier):
                assert (await client.ask(request(TAGS, None))).status == 200
            await eventually(lambda: port.connections == 1)
            (connection,) = port._connections.open
            assert isinstance(connection, Connection)
            client.writer.write(request(TAGS, None))
            async with asyncio.timeout(5):
                while connection._request_count == earlier:  # noqa: ASYNC110 each turn counts here
                    await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            end(connection)
            assert (await client.reply()).body == b"hello", (turns, earlier)
        await port.stop()

    for turns in range(8):
        for earlier in (0, 1):
            run_async(main(turns, earlier))


async def at_once(_: HttpRequest) -> StreamResponse:
    """An answer that waits for no body."""
    return Response(b"hello")


def test_the_rest_of_a_body_is_read_away_and_the_next_request_answered() -> None:
    """Who answered before the body ended did not want it; its end is where the next request begins."""

    async def main() -> None:
        port, number = await open_port(at_once)
        sent = request("POST / HTTP/1.1", b"x" * 1_000_000)
        async with await RawClient.open(number) as client:
            for _ in range(2):
                await client.send(sent[:1000])
                assert (await client.reply()).body == b"hello"
                await client.send(sent[1000:])
            assert (await client.ask(request(TAGS, None))).body == b"hello"
        await port.stop()

    run_async(main())


def test_the_rest_of_a_body_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may never come."""
    monkeypatch.setattr(server, "LINGERING_S", 0.05)

    async def main() -> None:
        port, number = await open_port(at_once)
        async with await RawClient.open(number) as client:
            await client.send(request("POST / HTTP/1.1", b"x" * 1000)[:-1])
            assert (await client.reply()).body == b"hello"
            (connection,) = port._connections.open
            assert not connection.give_way(), "its client may not have read the answer"
            assert await client.end() == b""
        await port.stop()

    run_async(main())


def test_what_comes_behind_a_request_is_held_back_until_its_answer() -> None:
    """Somebody who sends without end fills no memory, and everything is answered in the end."""

    async def main() -> None:
        async def slow(incoming: HttpRequest) -> StreamResponse:
            await may_end.wait()
            return await hello(incoming)

        may_end = asyncio.Event()
        port, number = await open_port(slow)
        one = request(TAGS, None, "X: " + "x" * 50_000)
        async with await RawClient.open(number) as client:
            client.writer.write(one * 400)
            await eventually(lambda: port.connections == 1 and port._connections.open[0]._reading_paused)
            (connection,) = port._connections.open
            assert len(connection._inflow._behind) < 10 * len(one)
            may_end.set()
            for _ in range(400):
                assert (await client.reply()).body == b"hello"
        await port.stop()

    run_async(main())


def open_now() -> int:
    """Connections in memory."""
    return sum(type(one) is Connection for one in gc.get_objects())


def test_a_client_that_leaves_cancels_its_request_also_while_its_body_comes() -> None:
    """Nothing of it stays in memory then, without a collection of cycles."""

    async def main() -> None:
        async def reads(incoming: HttpRequest) -> StreamResponse:
            try:
                async for _ in incoming.content.iter_any():
                    is_begun.set()
            finally:
                ended.set()
            raise AssertionError

        is_begun, ended = asyncio.Event(), asyncio.Event()
        port, number = await open_port(reads)
        async with await RawClient.open(number) as client:
            await client.send(request("POST / HTTP/1.1", b"xx")[:-1])
            await is_begun.wait()
            assert open_now() == 1
        await ended.wait()
        await eventually(lambda: open_now() == 0)
        await port.stop()

    gc.collect()
    gc.disable()
    try:
        run_async(main())
    finally:
        gc.enable()
