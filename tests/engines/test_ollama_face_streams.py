import asyncio
import json
from typing import Any

import aiohttp
from aiohttp import web

from pairproxy.engines.ollama_face import OllamaFace
from tests.core.dialects.test_ollama_catalogue import CARD
from tests.core.dialects.test_translate_stream import DONE, delta, event
from tests.support.running import run_async

MESSAGES = [{"role": "user", "content": "hello"}]


async def lines_of(*pieces: bytes, between: asyncio.Event | None = None) -> tuple[int, list[Any]]:
    """What a streaming client gets when the engine sends ``pieces``; ``between`` is awaited after each."""

    async def engine(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            if between is not None:
                await between.wait()
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", engine)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    face = OllamaFace(CARD, lambda: runner.addresses[0])
    url = f"http://127.0.0.1:{await face.start()}/api/chat"
    told = []
    try:
        body = json.dumps({"model": CARD.name, "messages": MESSAGES})
        async with aiohttp.ClientSession() as session, session.post(url, data=body) as reply:
            async for line in reply.content:
                told.append(json.loads(line))
                if between is not None:
                    between.set()
            return reply.status, told
    finally:
        await face.stop()
        await runner.cleanup()


def test_a_line_is_not_held_back() -> None:
    """The first line is with the client before the engine sends its second."""

    async def play() -> tuple[int, list[Any]]:
        first, rest = delta({"content": "x"}), delta({}, "stop") + DONE
        return await lines_of(first, rest, between=asyncio.Event())

    status, told = run_async(play())
    assert (status, [record["done"] for record in told]) == (200, [False, True])


def test_an_error_before_the_first_line_has_a_status() -> None:
    """Nothing was said yet, so the failure can still be told as one."""
    status, told = run_async(lines_of(event({"error": {"message": "out of memory"}})))
    assert (status, told) == (502, [{"error": "out of memory"}])


def test_a_reply_that_breaks_off_ends_with_an_error_line() -> None:
    """After the first line only a line can tell."""
    status, told = run_async(lines_of(delta({"content": "x"})))
    assert status == 200
    assert list(told[-1]) == ["error"]
