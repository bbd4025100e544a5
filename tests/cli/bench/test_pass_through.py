import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from pairproxy.cli.bench.pass_through import _app, _passed_on

REPLY = b"one, two"


@contextlib.asynccontextmanager
async def _passing(handler: web.RequestHandler) -> AsyncIterator[str]:
    engine = web.Application(client_max_size=2**23)
    engine.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]
    async with TestServer(engine) as behind, TestServer(_app(f"http://127.0.0.1:{behind.port}")) as front:
        yield f"http://127.0.0.1:{front.port}"


def test_requests_and_replies_pass_as_they_are() -> None:
    """Path, query, status, headers and bodies of several megabytes."""

    async def handler(request: web.Request) -> web.Response:
        body = await request.read()
        told = f"{request.method} {request.path_qs} {len(body)}"
        return web.Response(status=201, text=told, headers={"X-Kept": request.headers["X-Asked"]})

    async def run() -> tuple[int, str, str]:
        async with _passing(handler) as url, ClientSession() as session:  # type: ignore[arg-type]
            body = b"x" * 5_000_000
            async with session.post(f"{url}/a?b=c", data=body, headers={"X-Asked": "yes"}) as reply:
                return reply.status, await reply.text(), reply.headers["X-Kept"]

    assert asyncio.run(run()) == (201, "POST /a?b=c 5000000", "yes")


def test_headers_of_one_hop_are_not_passed_on() -> None:
    """They belong to a connection."""
    assert _passed_on({"Host": "x", "Connection": "close", "Accept": "*/*"}) == {"Accept": "*/*"}
