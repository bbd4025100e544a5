"""A reply in lines, over a real port."""

import asyncio

import pytest

from pairproxy.config import Limits
from pairproxy.proxy import lines as lines_module
from pairproxy.proxy.lines import Tell, Telling, tell_lines
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.request import HttpRequest
from pairproxy.proxy.server import PagePort
from pairproxy.responses import StreamResponse
from tests.support.fake_engine import eventually
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

ASK = request("GET / HTTP/1.1", None, host="x")


async def served(telling: Telling) -> tuple[PagePort, int]:
    """A port that answers everything so."""

    async def handle(asked: HttpRequest) -> StreamResponse:
        return await tell_lines(asked, telling)

    port = PagePort(handle, Limits())
    (sock,) = bind("127.0.0.1", 0, "")
    await port.start(sock)
    return port, port_of(sock)


def test_each_line_is_one_document() -> None:
    """In order, as they are told, and an end that is one."""

    async def telling(tell: Tell) -> None:
        await tell({"one": 1})
        await tell(["two"])

    async def main() -> None:
        port, number = await served(telling)
        async with await RawClient.open(number) as client:
            reply = await client.ask(ASK)
            assert (reply.status, reply.body) == (200, b'{"one":1}\n["two"]\n')
            assert reply.header("Content-Type") == b"application/x-ndjson"
        await port.stop()

    run_async(main())


def test_who_leaves_ends_what_was_asked_for() -> None:
    """Also where nothing is told at that moment."""
    ended: list[str] = []

    async def telling(tell: Tell) -> None:
        await tell("begun")
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("yes")

    async def main() -> None:
        port, number = await served(telling)
        async with await RawClient.open(number) as client:
            await client.send(ASK)
            await client.head()
        await eventually(lambda: ended == ["yes"])
        await port.stop()

    run_async(main())


@pytest.mark.breaks_off("nobody takes the lines")
def test_who_takes_nothing_is_put_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection ends, and so does what it asked for."""
    monkeypatch.setattr(lines_module, "STALL_S", 0.2)
    failures: list[BaseException] = []

    async def telling(tell: Tell) -> None:
        try:
            while True:
                await tell("x" * 100_000)
        except ConnectionError as error:
            failures.append(error)
            raise

    async def main() -> None:
        port, number = await served(telling)
        async with await RawClient.open(number) as client:
            await client.send(ASK)
            client.pause()
            await eventually(lambda: bool(failures))
        await port.stop()

    run_async(main())
