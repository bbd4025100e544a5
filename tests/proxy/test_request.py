"""Requests as handlers see them, aiohttp's among them."""

from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
from aiohttp import web

from pairproxy.proxy.request import Request, content_of, with_body, with_headers
from tests.support.open_ports import open_port
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

Handler = Callable[[web.BaseRequest], Coroutine[Any, Any, web.StreamResponse]]
KEY = web.RequestKey("key", str)


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


def test_a_request_can_be_had_with_other_headers() -> None:
    """The one that came stays as it is; what was noted on it is noted on the other."""

    async def handler(incoming: web.BaseRequest) -> web.StreamResponse:
        incoming[KEY] = "noted"
        other = with_headers(incoming, [("Host", "y"), ("A", "ü")])
        assert other.raw_headers == ((b"Host", b"y"), (b"A", "ü".encode()))
        assert (other[KEY], other.headers.get("a")) == ("noted", "ü")
        assert incoming.headers["Host"] == "localhost"
        with pytest.raises(UnicodeError):
            with_headers(incoming, [("A", "\udcff")])
        return web.Response(body=content_of(other).whole())

    assert asked(handler, request("POST / HTTP/1.1", b"body")).body == b"body"


def test_a_body_can_be_read_again() -> None:
    """Who looked into it hands it on."""

    async def handler(incoming: web.BaseRequest) -> web.StreamResponse:
        body = content_of(incoming).whole() or b""
        assert not incoming.can_read_body
        again = with_body(incoming, body)
        assert again.can_read_body
        return web.Response(body=content_of(again).whole())

    assert asked(handler, request("POST / HTTP/1.1", b"body")).body == b"body"


def test_what_was_written_is_known() -> None:
    """A fault may be answered only where nothing was."""

    async def handler(incoming: web.BaseRequest) -> web.StreamResponse:
        own = cast(Request, incoming)
        response = web.StreamResponse()
        before = own.has_answer
        await response.prepare(incoming)
        await response.write(b"a")
        assert (before, own.has_answer) == (False, True)
        return response

    assert asked(handler, request("GET / HTTP/1.1", None)).body == b"a"
