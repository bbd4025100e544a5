"""Another user of the machine, or a program that runs wild: it may look, and costs the requests nothing."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from pairproxy.admin import server
from pairproxy.admin.server import CONNECTIONS, REST, AdminPort, answer
from pairproxy.api.schema import Report
from pairproxy.config import Limits
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.listening import bind, port_of
from pairproxy.responses import Asked, StreamResponse
from tests.admin.test_server import Fixed
from tests.support.fake_engine import eventually
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed

LARGE = 32 * 1024 * 1024  # bytes: more than the sockets on both sides take by themselves


class Slow(Fixed):
    """A report takes a moment; when each was begun is noted."""

    def __init__(self) -> None:
        super().__init__(is_ready=True)
        self.began_at: list[float] = []

    def report(
        self, name: str | None, *, with_recording: bool = False, is_watched: bool = False
    ) -> Callable[[], Report]:
        def make() -> Report:
            self.began_at.append(time.monotonic())
            time.sleep(0.05)
            return Report(None, (), {})

        return make


@asynccontextmanager
async def admin(facts: Fixed, pages: dict[str, server.Page]) -> AsyncIterator[tuple[int, AdminPort]]:
    """The port with other pages."""
    port = AdminPort(facts, Limits(), Gate("testhost"), "", {}, pages)
    (sock,) = bind("127.0.0.1", 0, "")
    number = port_of(sock)
    await port.start(sock)
    try:
        yield number, port
    finally:
        await port.stop()


async def large(_: Asked) -> StreamResponse:
    """A report of thousands of requests."""
    return answer("x" * LARGE)


def test_as_many_as_one_person_needs_are_answered_at_once() -> None:
    """The next one is told so and leaves; when there is room again it is let in."""
    free = asyncio.Event()

    async def waits(_: Asked) -> StreamResponse:
        await free.wait()
        return answer("done")

    async def main() -> None:
        async with admin(Fixed(is_ready=True), {"/wait": waits}) as (number, _), AsyncExitStack() as stack:
            crowd = [
                await stack.enter_async_context(await RawClient.open(number)) for _ in range(CONNECTIONS)
            ]
            for client in crowd:
                await client.send(request("GET /wait HTTP/1.1", None))
            await asyncio.sleep(0.05)  # all of them are at work: no answer of theirs can be waited for
            async with await RawClient.open(number) as late:
                await late.send(request("GET /health HTTP/1.1", None))
                refused = await late.reply()
                assert refused.status == 503
                assert "Too many connections" in refused.json()["error"]
                assert refused.header("Connection") == b"close"
            free.set()
            for client in crowd:
                assert (await client.reply()).status == 200
            async with await RawClient.open(number) as again:
                await again.send(request("GET /health HTTP/1.1", None))
                assert (await again.reply()).status == 200

    run_async(main())


def test_who_takes_nothing_loses_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its megabytes would stay in memory for as long as it likes."""
    monkeypatch.setattr(server, "STALL_S", 0.1)

    async def main() -> None:
        async with admin(Fixed(is_ready=True), {"/large": large}) as (number, port):
            with socket.create_connection(("127.0.0.1", number)) as idle:
                idle.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await eventually(lambda: port.connections == 1)
                await eventually(lambda: port.connections == 0)
                idle.settimeout(5.0)
                with contextlib.suppress(ConnectionError):
                    while idle.recv(65536):
                        pass

    run_async(main())


def test_who_is_slow_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As through a tunnel: it takes longer than who takes nothing is waited for."""
    monkeypatch.setattr(server, "STALL_S", 0.2)

    async def main() -> None:
        async with admin(Fixed(is_ready=True), {"/large": large}) as (number, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", number, limit=4096)
            writer.write(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            taken, began_at = 0, time.monotonic()
            while part := await reader.read(256 * 1024):
                taken += len(part)
                await asyncio.sleep(0.005)
            assert taken > LARGE
            assert time.monotonic() - began_at > 0.2
            writer.close()

    run_async(main())


def test_reports_are_not_made_all_the_time() -> None:
    """However many ask: replies pass through the same interpreter. Health and status do not wait for them."""
    facts = Slow()

    async def main() -> None:
        async with admin(facts, {}) as (number, _), AsyncExitStack() as stack:
            asking = [await stack.enter_async_context(await RawClient.open(number)) for _ in range(4)]
            for client in asking:
                await client.send(request("GET /report HTTP/1.1", None))
            await eventually(lambda: len(facts.began_at) == 1)
            async with await RawClient.open(number) as other:
                await other.send(request("GET /status HTTP/1.1", None))
                assert (await other.reply()).status == 200
            assert len(facts.began_at) < 4
            for client in asking:
                assert (await client.reply()).status == 200
        pauses = [after - before for before, after in zip(facts.began_at, facts.began_at[1:], strict=False)]
        assert min(pauses) >= 0.05 * (1.0 + REST) - 0.005  # of a coarse clock

    run_async(main())
