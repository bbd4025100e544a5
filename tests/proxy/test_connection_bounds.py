"""A connection to a port whose client asks more than it takes, or sends before it is its turn."""

import asyncio
from collections.abc import Callable

import pytest

from pairproxy.config import Limits
from pairproxy.proxy import connection
from pairproxy.proxy.downstream import JSON, Downstream
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.request import HttpRequest, Written
from pairproxy.proxy.server import PagePort
from pairproxy.responses import Response, StreamResponse
from tests.support.fake_engine import eventually
from tests.support.open_ports import hello, open_port
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

TAGS = "GET /api/tags HTTP/1.1"


def test_who_takes_no_answers_gets_no_more_of_them() -> None:
    """Requests that come without end are not answered into memory; who reads has all answers, in order."""

    async def main() -> None:
        answered = 0

        async def large(incoming: HttpRequest) -> Written:
            nonlocal answered
            answered += 1
            downstream = Downstream(incoming)
            downstream.answer(200, (JSON,), incoming.raw_path.encode() + b"x" * 50_000)
            return downstream.written()

        port, number = await open_port(large)
        async with await RawClient.open(number) as client:
            client.pause()
            client.writer.write(b"".join(request(f"GET /{at} HTTP/1.1", None) for at in range(2000)))
            await eventually(lambda: answered > 0 and port._connections.open[0]._paused)
            await settled(lambda: answered)
            (one,) = port._connections.open
            assert one.transport is not None
            assert one.transport.get_write_buffer_size() < 200_000
            assert len(one._inflow._behind) < 500_000
            assert answered < 1000
            client.resume()
            for at in range(2000):
                assert (await client.reply()).body.rstrip(b"x") == b"/%d" % at
        await port.stop()

    run_async(main())


async def settled(count: Callable[[], int]) -> None:
    """Return when something did not change for a while."""
    before = -1
    while before != count():
        before = count()
        await asyncio.sleep(0.1)


@pytest.mark.breaks_off("nobody read it")
def test_a_client_that_takes_nothing_of_what_ends_a_connection_is_put_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it would have its place for ever, without anything being asked."""
    monkeypatch.setattr(connection, "UNTAKEN_S", 0.05)

    async def main() -> None:
        async def large(incoming: HttpRequest) -> Written:
            downstream = Downstream(incoming)
            downstream.answer(200, (JSON,), b"x" * 20_000_000)
            return downstream.written()

        port, number = await open_port(large)
        async with await RawClient.open(number) as client:
            client.pause()
            await client.send(request(TAGS, None, "Connection: close"))
            await eventually(lambda: port.connections == 1)
            await eventually(lambda: port.connections == 0)
        await port.stop()

    run_async(main())


def test_a_body_behind_a_request_fills_no_memory_either() -> None:
    """It is held back from when its head is read, whether anybody takes it or not."""

    async def main() -> None:
        async def slow(incoming: HttpRequest) -> StreamResponse:
            begun.append(incoming)
            await may_end.acquire()
            size = sum([len(part) async for part in incoming.content.iter_any()])
            return Response(str(size).encode())

        begun, may_end = list[HttpRequest](), asyncio.Semaphore(0)
        port, number = await open_port(slow)
        async with await RawClient.open(number) as client:
            client.writer.write(request(TAGS, None) + request("POST / HTTP/1.1", b"x" * 10_000_000))
            await eventually(lambda: bool(begun) and port._connections.open[0]._reading_paused)
            may_end.release()
            await eventually(lambda: len(begun) == 2)
            await settled(lambda: begun[1].content._size)
            assert begun[1].content._size < 1_000_000
            may_end.release()
            assert [(await client.reply()).body for _ in range(2)] == [b"0", b"10000000"]
        await port.stop()

    run_async(main())


def test_a_large_head_behind_a_request_is_read_whole() -> None:
    """A limit for heads above that of what may wait keeps nobody waiting."""

    async def main() -> None:
        async def slow(incoming: HttpRequest) -> StreamResponse:
            await may_end.wait()
            return await hello(incoming)

        may_end = asyncio.Event()
        (sock,) = bind("127.0.0.1", 0, "")
        port = PagePort(slow, Limits(header_bytes=2_000_000))
        await port.start(sock)
        async with await RawClient.open(port_of(sock)) as client:
            client.writer.write(request(TAGS, None) + request(TAGS, None, "X: " + "x" * 1_000_000))
            await eventually(lambda: port.connections == 1 and port._connections.open[0]._reading_paused)
            may_end.set()
            assert [(await client.reply()).body for _ in range(2)] == [b"hello", b"hello"]
        await port.stop()

    run_async(main())
