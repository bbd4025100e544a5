"""Requests as they came, and as somebody wants them to have come."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from pairproxy.proxy.connection import Connection, Terms
from pairproxy.proxy.content import whole
from pairproxy.proxy.head import read_head
from pairproxy.proxy.request import HttpRequest, Written
from pairproxy.proxy.room import Room
from pairproxy.proxy.server import Connections
from pairproxy.responses import Response, StreamResponse
from pairproxy.security.client_keys import ClientKey
from tests.support.open_ports import open_port
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async


async def nobody(_: HttpRequest) -> Written:
    """Answers nothing."""
    raise AssertionError


def incoming(sent: bytes) -> HttpRequest:
    """The request of these bytes, on a connection that is not open."""
    found = read_head(sent, 8192)
    assert found is not None
    terms = Terms(nobody, 8192, 1.0, 1.0, False)
    connections = Connections(terms, Room(lambda: 1, lambda: False))
    connection = Connection(terms, connections, asyncio.get_running_loop())
    return HttpRequest(found[0], whole(sent[found[1] :]), connection)


KEY = ClientKey("one", "0" * 64, 0)


def test_a_request_can_be_had_with_other_headers() -> None:
    """The one that came stays as it is; by which key it was let in is known of both."""

    async def main() -> None:
        came = incoming(request("POST / HTTP/1.1", b"body"))
        came.key = KEY
        other = came.with_headers([("Host", "y"), ("A", "ü")])
        assert other.raw_headers == ((b"Host", b"y"), (b"A", "ü".encode()))
        assert (other.key, other.headers.get("a")) == (KEY, "ü")
        assert came.headers["Host"] == "localhost"
        with pytest.raises(UnicodeError):
            came.with_headers([("A", "\udcff")])
        assert other.content.whole() == b"body"

    run_async(main())


def test_a_body_can_be_read_again() -> None:
    """Who looked into it hands it on."""

    async def main() -> None:
        came = incoming(request("POST / HTTP/1.1", b"body"))
        body = came.content.whole() or b""
        assert not came.can_read_body
        again = came.with_body(body)
        assert again.can_read_body
        assert again.content.whole() == b"body"

    run_async(main())


def test_a_connection_that_is_lost_is_none() -> None:
    """Of its request too."""

    async def main() -> None:
        came = incoming(request("GET / HTTP/1.1", None))
        assert (came.transport, came.remote, came.can_read_body) == (None, None, False)

    run_async(main())


Handler = Callable[[HttpRequest], Awaitable[Written | StreamResponse]]


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
        ("/a%20b/c?d=e&d=%66&f=g+h#i?j", "/a b/c", {"d": "e", "f": "g h"}),
        ("//a/b?d=", "//a/b", {"d": ""}),
        ("http://evil.example/status", "/http://evil.example/status", {}),
        ("*", "/*", {}),
    ],
)
def test_path_and_query_are_taken_apart_when_a_page_asks(
    target: str, path: str, query: dict[str, str]
) -> None:
    """What is no path is a page that there is not."""

    async def handler(incoming: HttpRequest) -> StreamResponse:
        told = [incoming.path, incoming.query, incoming.raw_path, incoming.remote]
        return Response(msgspec.json.encode(told))

    reply = asked(handler, request(f"GET {target} HTTP/1.1", None))
    assert reply.json() == [path, query, target, "127.0.0.1"]


def test_a_stream_is_sent_in_chunks_and_names_nobody() -> None:
    """The connection is kept."""

    async def handler(incoming: HttpRequest) -> StreamResponse:
        response = StreamResponse()
        await response.prepare(incoming)
        await response.write(b"a")
        await response.write(b"b")
        return response

    reply = asked(handler, request("GET / HTTP/1.1", None))
    assert (reply.body, reply.is_whole, reply.header("Server")) == (b"ab", True, None)
    assert reply.header("Connection") is None


def test_what_was_written_is_known() -> None:
    """A fault may be answered only where nothing was."""

    async def handler(incoming: HttpRequest) -> StreamResponse:
        response = StreamResponse()
        before = incoming.connection.has_answer
        await response.prepare(incoming)
        assert (before, incoming.connection.has_answer) == (False, True)
        await response.write(b"a")
        return response

    assert asked(handler, request("GET / HTTP/1.1", None)).body == b"a"


def test_what_a_head_says_is_read_once_for_all_that_have_it() -> None:
    """But not for one that is wanted to have other headers."""

    async def main() -> None:
        sent = request("POST / HTTP/1.1", b"body")
        one, other = incoming(sent), incoming(sent)
        assert one.said is other.said
        assert one.with_body(b"").said is one.said
        changed = one.with_headers([("Host", "y")])
        assert (changed.said.hosts, one.said.hosts) == (["y"], ["localhost"])
        assert incoming(sent).said.hosts == ["localhost"]

    run_async(main())
