"""The servers of our own engines say nothing of what they are asked."""

import asyncio
import logging

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from pairproxy.config import PacedSettings
from pairproxy.engines import serving
from pairproxy.engines.paced import PacedEngine
from tests.support.fake_engine import eventually
from tests.support.raw_client import MAKERS, RawClient, request
from tests.support.running import run_async

CANARY = "CANARY-77aa"


async def serve(handler: Handler) -> tuple[web.AppRunner, int]:
    """A server with one handler for everything: (runner, port)."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = serving.runner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, runner.addresses[0][1]


def test_a_fault_is_told_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """The log names the kind of the error and where it was; the client gets a 500 that names no maker."""

    async def main() -> None:
        async def fault(incoming: web.Request) -> web.StreamResponse:
            raise ValueError(await incoming.text())

        runner, port = await serve(fault)
        async with await RawClient.open(port) as client:
            reply = await client.ask(request(body=CANARY.encode()))
            assert reply.status == 500
            assert not MAKERS.search(repr(reply.headers))
        await runner.cleanup()

    with caplog.at_level(logging.DEBUG):
        run_async(main())
    assert "ValueError in fault" in caplog.text
    assert CANARY not in caplog.text


def test_a_client_that_leaves_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    """Writing to a connection that is gone logs nothing: clients leave all the time."""

    async def main() -> None:
        ended = asyncio.Event()

        async def endless(incoming: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(incoming)
            try:
                while True:
                    await asyncio.shield(response.write(CANARY.encode()))
            finally:
                ended.set()

        runner, port = await serve(endless)
        client = await RawClient.open(port)
        await client.send(request())
        await client.head()
        client.reset()
        await eventually(ended.is_set)
        await runner.cleanup()

    with caplog.at_level(logging.DEBUG):
        run_async(main())
    assert [record.message for record in caplog.records if record.name != "asyncio"] == []


def test_what_is_no_http_is_not_quoted(caplog: pytest.LogCaptureFixture) -> None:
    """aiohttp's parser would write the bytes into the log."""

    async def main() -> None:
        async def ok(_: web.Request) -> web.StreamResponse:
            return web.Response()

        runner, port = await serve(ok)
        async with await RawClient.open(port) as client:
            assert (await client.ask(f"{CANARY}\r\n\r\n".encode())).status == 400
        await runner.cleanup()

    with caplog.at_level(logging.DEBUG):
        run_async(main())
    assert CANARY not in caplog.text


def test_an_engine_of_ours_takes_no_more_than_its_window_holds() -> None:
    """F45: a body that would hold the loop up for seconds is refused with a sentence, in both dialects."""

    async def main() -> None:
        engine = PacedEngine(PacedSettings())
        await engine.start()
        body = b'{"model":"paced:1b","x":"%b"}' % (b"y" * serving.BODY_BYTES)
        try:
            for path in ("/v1/chat/completions", "/api/chat"):
                _, port = engine.address(path)
                async with await RawClient.open(port) as client:
                    reply = await client.ask(request(f"POST {path} HTTP/1.1", body))
                    assert (reply.status, b"large" in reply.body) == (413, True)
        finally:
            await engine.stop()

    run_async(main())
