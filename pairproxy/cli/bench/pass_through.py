"""A pass-through as anybody would write it with aiohttp: pass_through.py UPSTREAM_URL PORT [uvloop].

It routes nothing and knows nothing; what it costs is what a first version costs. It is run as a file, so that
nothing of pairproxy is in its memory.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

from aiohttp import ClientSession, TCPConnector, web

MOST_BODY_BYTES = 64 * 1024 * 1024  # the largest body of the workloads has 5 MB
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "upgrade", "te"}
SESSION = web.AppKey("session", ClientSession)
UPSTREAM = web.AppKey("upstream", str)


def _passed_on(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}


async def _pass(request: web.Request) -> web.StreamResponse:
    url = request.app[UPSTREAM] + request.path_qs
    body = await request.read()
    headers = _passed_on(dict(request.headers))
    async with request.app[SESSION].request(request.method, url, data=body, headers=headers) as reply:
        response = web.StreamResponse(status=reply.status, headers=_passed_on(dict(reply.headers)))
        response.content_length = reply.content_length
        await response.prepare(request)
        async for piece in reply.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response


async def _session(app: web.Application) -> AsyncIterator[None]:
    async with ClientSession(connector=TCPConnector(limit=0), auto_decompress=False) as session:
        app[SESSION] = session
        yield


def _app(upstream: str) -> web.Application:
    app = web.Application(client_max_size=MOST_BODY_BYTES)
    app[UPSTREAM] = upstream
    app.cleanup_ctx.append(_session)
    app.router.add_route("*", "/{path:.*}", _pass)
    return app


def _main(upstream: str, port: str, *loop: str) -> None:
    if "uvloop" in loop:
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    web.run_app(_app(upstream), host="127.0.0.1", port=int(port), access_log=None, print=None)


if __name__ == "__main__":
    _main(*sys.argv[1:])
