"""When a connection is used again, and when not."""

import asyncio

import pytest

from pairproxy.core.errors import BrokenReply
from pairproxy.upstreams import Outgoing
from pairproxy.upstreams import pool as pool_module
from pairproxy.upstreams.pool import REQUESTS
from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, head, json_bytes, pieces_of, raw
from tests.support.fake_engine import EngineConnection, ParsedRequest, Script, eventually
from tests.support.relaying import GET, Sink, post, serving
from tests.support.running import run_async

OK = json_bytes({"ok": 1})


def connections_used(script: Script, exchanges: int = 2, request: Outgoing = GET) -> int:
    """Do exchanges one after another; return how many connections the engine saw."""

    async def talk() -> int:
        async with serving(script) as (engine, upstream):
            for _ in range(exchanges):
                reply = await upstream.send(request)
                await Sink().relay(reply)
            return len(engine.connections)

    return run_async(talk())


@pytest.mark.parametrize(
    "reply",
    [
        OK,
        chunked_head() + chunk(b"x") + LAST_CHUNK,
        head(204),
        head(304, ("Content-Length", "5")),
        head(200, ("Content-Length", "0")),
    ],
)
def test_a_reply_that_ended_cleanly_leaves_its_connection_for_the_next(reply: bytes) -> None:
    """Every framing that ends by itself allows reuse."""
    assert connections_used(raw(reply), exchanges=3) == 1


@pytest.mark.parametrize(
    "reply",
    [
        head(200, ("Content-Length", "2"), ("Connection", "close")) + b"ok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
        chunked_head() + chunk(b"x") + LAST_CHUNK + b"\r\n",
        OK + b"x",
    ],
)
def test_a_connection_is_not_reused_after_anything_odd(reply: bytes) -> None:
    """An upstream that closes, speaks HTTP/1.0 or sent a byte too many gets a new connection."""
    assert connections_used(raw(reply)) == 2


def test_a_request_of_http_1_0_is_the_last_on_its_connection() -> None:
    """Its reply may end with the connection, whatever the engine says."""
    assert connections_used(raw(OK), request=Outgoing("GET", "/", version=(1, 0))) == 2


@pytest.mark.parametrize(
    ("method", "status", "expected"),
    [("POST", 200, 1), ("POST", 503, 2), ("POST", 400, 2),
     ("DELETE", 200, 1), ("GET", 200, 2), ("OPTIONS", 200, 2)],
)  # fmt: skip
def test_a_body_that_may_lie_unread_is_no_request(method: str, status: int, expected: int) -> None:
    """The next request would come behind it: whoever wrote the body would have written a request, too."""
    asked = Outgoing(method, "/", ((b"Content-Length", b"18"),), b"GET / HTTP/1.1\r\n\r\n")
    reply = raw(head(status, ("Content-Length", "2")) + b"ok")
    assert connections_used(reply, request=asked) == expected


def test_a_refusal_of_a_request_without_a_body_costs_no_connection() -> None:
    """Engines are asked all the time what they do not know."""
    assert connections_used(raw(head(404, ("Content-Length", "2")) + b"no")) == 1


def test_a_body_that_cannot_be_sent_twice_goes_out_on_a_fresh_connection() -> None:
    """A reused connection may turn out dead, and then there would be no second try."""

    async def talk() -> None:
        async with serving(raw(OK)) as (engine, upstream):
            for _ in range(2):
                request = Outgoing("POST", "/", (), pieces_of(b"abc", 2))
                assert await (await upstream.send(request)).read(100) == b'{"ok":1}'
            assert len(engine.connections) == 2
            assert [one.body for one in engine.requests] == [b"abc", b"abc"]

    run_async(talk())


def test_a_connection_serves_a_bounded_number_of_requests() -> None:
    """As many as servers usually allow; who allows fewer says so in the last reply."""
    assert connections_used(raw(OK), exchanges=REQUESTS) == 1
    assert connections_used(raw(OK), exchanges=REQUESTS + 1) == 2


def test_the_longest_idle_connection_is_used_first() -> None:
    """FIFO: all connections stay warm."""

    async def talk() -> None:
        async with serving(raw(OK)) as (engine, upstream):
            replies = await asyncio.gather(*(upstream.send(GET) for _ in range(3)))
            assert len(replies) == 3
            for _ in range(4):
                await upstream.send(GET)
            order = [
                engine.connections.index(one.connection) for one in engine.requests[3:] if one.connection
            ]
            assert order[:3] == [
                engine.connections.index(one.connection) for one in engine.requests[:3] if one.connection
            ]
            assert order[3] == order[0]
            assert (upstream.dialled, upstream.reused) == (3, 4)

    run_async(talk())


def test_a_byte_while_idle_closes_the_connection() -> None:
    """J24, F17: a second response never becomes the answer to the next request."""

    async def talk() -> None:
        poison = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"

        async def script(request: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(OK, gap_s=0.02)
            await connection.send(poison)

        async with serving(script) as (engine, upstream):
            assert await (await upstream.send(GET)).read(100) == b'{"ok":1}'
            await engine.connections[0].peer_left()
            assert await (await upstream.send(GET)).read(100) == b'{"ok":1}'
            assert len(engine.connections) == 2

    run_async(talk())


def test_idle_connections_are_closed_before_the_upstream_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """After their idle time nothing of them is left open."""
    monkeypatch.setattr(pool_module, "IDLE_S", 0.05)

    async def talk() -> None:
        async with serving(raw(OK)) as (engine, upstream):
            await upstream.send(GET)
            await engine.connections[0].peer_left()
            await upstream.send(GET)
            assert len(engine.connections) == 2
            await engine.connections[1].peer_left()

    run_async(talk())


def test_a_connection_that_idled_too_long_is_not_used_even_before_it_is_closed() -> None:
    """F29: after a sleep of the machine, timers are late, but the clock tells."""

    async def talk() -> None:
        async with serving(raw(OK)) as (engine, upstream):
            await upstream.send(GET)
            connection = upstream._pool.take(engine.address())
            assert connection is not None
            upstream._pool.give(connection)
            connection.idle_since -= pool_module.IDLE_S
            await upstream.send(GET)
            assert len(engine.connections) == 2

    run_async(talk())


def test_an_idle_connection_that_the_upstream_closed_is_not_used() -> None:
    """FIN while idle costs the next request nothing."""

    async def talk() -> None:
        async with serving(raw(OK, then="close")) as (engine, upstream):
            for _ in range(3):
                await upstream.send(GET)
                await eventually(lambda: engine.open_connections == 0)
            assert len(engine.connections) == 3

    run_async(talk())


def dies_on(numbers: set[int], then: str, first: bytes = b"") -> Script:
    """Answer requests, but on the given ones (counted from 1) send ``first`` and die."""
    count = 0

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        nonlocal count
        count += 1
        if count not in numbers:
            await connection.send(OK)
            return
        if first:
            await connection.send(first)
        connection.close() if then == "close" else connection.reset()

    return script


@pytest.mark.parametrize("then", ["close", "reset"])
def test_a_reused_connection_that_dies_without_a_byte_is_replaced_once(then: str) -> None:
    """The race of keep-alive against the server's timeout is invisible."""

    async def talk() -> None:
        async with serving(dies_on({2}, then)) as (engine, upstream):
            for _ in range(2):
                assert await (await upstream.send(post(b"{}"))).read(100) == b'{"ok":1}'
            assert len(engine.connections) == 2
            assert [one.body for one in engine.requests] == [b"{}"] * 3

    run_async(talk())


@pytest.mark.parametrize(
    ("numbers", "first", "requests"),
    [({2, 3}, b"", 3), ({2}, b"HTTP/1.1 200", 2), ({2}, b"garbage", 2), ({1}, b"", 1)],
)
def test_there_is_no_second_retry_and_none_after_a_byte(
    numbers: set[int], first: bytes, requests: int
) -> None:
    """A fresh connection that dies, and any that began to answer, is the upstream's failure."""

    async def talk() -> None:
        async with serving(dies_on(numbers, "close", first)) as (engine, upstream):
            if 1 not in numbers:
                assert await (await upstream.send(GET)).read(100) == b'{"ok":1}'
            with pytest.raises(BrokenReply):
                await upstream.send(GET)
            assert len(engine.requests) == requests

    run_async(talk())
