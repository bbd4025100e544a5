"""What waits in the outbox when its connection is ended, given away, or left: it leaves first, and once."""

import asyncio
from collections.abc import Callable

import pytest

from pairproxy.proxy.connection import Connection
from pairproxy.proxy.request import HttpRequest, Written
from pairproxy.upstreams import Upstream
from pairproxy.upstreams.outbox import outbox_of
from tests.support.engine_scripts import json_bytes, raw
from tests.support.fake_engine import FakeEngine
from tests.support.open_ports import open_port
from tests.support.raw_client import RawClient, request
from tests.support.relaying import LIMITS, post
from tests.support.running import run_async

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def expect_two() -> None:
    """More are to write in this turn: whoever writes first waits."""
    for _ in range(2):
        outbox_of(asyncio.get_running_loop()).expect()


def given_away(connection: Connection) -> None:
    """As to a tunnel, which ends it."""
    transport, _, _ = connection.hand_over()
    assert transport is not None
    transport.close()


def half_closed(connection: Connection) -> None:
    """The client ended its side, and the port does not wait for those: the loop closes it."""
    wire = connection._wire
    assert wire is not None
    if not connection.eof_received():
        wire.close()


def cut(connection: Connection) -> None:
    """As where a key or a peer is forgotten: what the client should have got before, it has."""
    assert connection.transport is not None
    connection.transport.abort()


ENDS: dict[str, Callable[[Connection], object]] = {
    "closed": Connection.end,
    "closed after it": Connection.close_after,
    "broken off": Connection.break_off,
    "parted": Connection.part,
    "given away": given_away,
    "half-closed": half_closed,
    "cut": cut,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_what_waits_leaves_before_its_connection_ends(end: Callable[[Connection], object]) -> None:
    """However it ends."""

    async def main() -> None:
        async def answer(asked: HttpRequest) -> Written:
            expect_two()
            connection = asked.connection
            connection.send(ANSWER)
            assert connection.unsent_bytes() == len(ANSWER)
            connection.is_answering = True
            end(connection)
            return Written(False)

        port, number = await open_port(answer)
        async with await RawClient.open(number) as client:
            await client.send(request())
            assert await client.end() == ANSWER
        await port.stop()

    run_async(main())


def test_what_is_written_beside_the_outbox_comes_behind_what_waits() -> None:
    """And the reply to what a client sent behind its request comes behind that one's."""

    async def main() -> None:
        async def answer(asked: HttpRequest) -> Written:
            expect_two()
            asked.connection.send(ANSWER)
            if asked.path == "/last":
                assert asked.transport is not None
                asked.transport.write(CONTINUE)
                asked.connection.send(ANSWER)
            return Written(asked.path != "/last")

        port, number = await open_port(answer)
        async with await RawClient.open(number) as client:
            await client.send(request() * 5 + request("POST /last HTTP/1.1"))
            assert await client.end() == ANSWER * 6 + CONTINUE + ANSWER
        await port.stop()

    run_async(main())


def test_a_request_whose_connection_is_lost_while_it_waits_is_sent_once() -> None:
    """On another one: nobody got it."""

    async def main() -> None:
        async with FakeEngine(raw(json_bytes({}))) as engine:
            upstream = Upstream(engine, limits=LIMITS)
            await (await upstream.send(post(b"first"))).read(99)
            expect_two()
            sending = asyncio.create_task(upstream.send(post(b"second")))
            await asyncio.sleep(0)
            assert upstream.reused == 1
            upstream.drop(lambda one: one.unsent_bytes() > 0)
            await (await sending).read(99)
            assert [one.body for one in engine.requests] == [b"first", b"second"]
            assert upstream.dialled == 2
            await upstream.close()

    run_async(main())
