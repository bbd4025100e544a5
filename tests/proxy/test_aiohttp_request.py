"""Requests as aiohttp's handlers see them."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web

from pairproxy.proxy.aiohttp_request import as_aiohttp, has_answer, ours
from tests.support.open_ports import open_port
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

Handler = Callable[[web.BaseRequest], Coroutine[Any, Any, web.StreamResponse]]


def asked(handler: Handler, sent: bytes) -> RawReply:
    """What a port with this handler answers."""

    async def main() -> RawReply:
        port, number = await open_port(handler)
        async with await RawClient.open(number) as client:
            reply = await client.ask(sent)
        await port.stop()
        return reply

    return run_async(main())


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/a%20b/c?d=e&d=%66", "/a b/c", ["e", "f"]),
        ("//a/b?d=", "//a/b", [""]),
        ("http://evil.example/status", "/http://evil.example/status", []),
        ("*", "/*", []),
    ],
)
def test_pages_are_found_as_with_aiohttps_requests(target: str, path: str, query: list[str]) -> None:
    """Path and query are taken apart when a page asks; what is no path is a page that there is not."""

    async def handler(incoming: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(
            [incoming.path, incoming.query.getall("d", []), incoming.raw_path, incoming.remote]
        )

    reply = asked(handler, request(f"GET {target} HTTP/1.1", None))
    assert reply.json() == [path, query, target, "127.0.0.1"]


def test_a_stream_of_aiohttps_is_sent_and_names_nobody() -> None:
    """In chunks; the connection is kept."""

    async def handler(incoming: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(incoming)
        await response.write(b"a")
        await response.write(b"b")
        return response

    reply = asked(handler, request("GET / HTTP/1.1", None))
    assert (reply.body, reply.is_whole, reply.header("Server")) == (b"ab", True, None)
    assert reply.header("Connection") is None


def test_what_was_written_is_known() -> None:
    """A fault may be answered only where nothing was."""

    async def handler(incoming: web.BaseRequest) -> web.StreamResponse:
        own = ours(incoming)
        assert as_aiohttp(own) is incoming
        response = web.StreamResponse()
        before = has_answer(own)
        await response.prepare(incoming)
        await response.write(b"a")
        assert (before, has_answer(own)) == (False, True)
        return response

    assert asked(handler, request("GET / HTTP/1.1", None)).body == b"a"
