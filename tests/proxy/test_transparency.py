"""What a client gets through the port is what it would get from the engine, byte for byte."""

import asyncio
import gzip
from dataclasses import dataclass

import pytest

from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script
from tests.support.node import Node
from tests.support.raw_client import RawClient, RawReply, request, without_hop_by_hop
from tests.support.running import run_async

LINES = [{"message": {"content": f"word {number} "}, "done": False} for number in range(20)]
NDJSON = scripts.ollama_chat([*LINES, b'{"half":', b'"a line"}\n', {"done": True, "eval_count": 20}])
SSE = scripts.openai_chat([{"choices": [{"delta": {"content": "é"}}]}, b'{"usage":{}}'])
ODD_JSON = b'{"model" : "m:1",\n"messages":[{"content":"\xc3\xa9\\u0041"}],  "b":1,"a":2}'
PLAIN_404 = scripts.raw(
    scripts.head(404, ("Content-Type", "text/plain"), ("Content-Length", "18")) + b"404 page not found"
)
MANY_HEADERS = scripts.raw(
    scripts.head(
        200,
        ("Content-Type", "application/json"),
        ("Set-Cookie", "a=b"),
        ("Set-Cookie", "c=d"),
        ("Access-Control-Allow-Origin", "http://localhost:3000"),
        ("Vary", "Origin"),
        ("X-Accel-Buffering", "no"),
        ("x-odd-CASE", "kept"),
        ("Content-Length", "2"),
    )
    + b"{}"
)
BIG = b"0123456789abcdef" * (20 * 2**20 // 16)


@dataclass
class Case:
    """One request and what the engine does with it."""

    sent: bytes
    script: Script
    is_head: bool = False
    ends: bool = False
    """Whether the end of the connection ends the reply."""


POST_V1 = "POST /v1/chat/completions HTTP/1.1"
CASES = {
    "NDJSON": Case(request(), NDJSON),
    "SSE": Case(request(POST_V1), SSE),
    "JSON with its length": Case(request(POST_V1), scripts.json_reply({"choices": [], "usage": {}})),
    "an error of the engine": Case(request(), scripts.json_reply({"error": "no such option"}, 400)),
    "a body with odd spaces and key order": Case(request(body=ODD_JSON), NDJSON),
    "a body that is no JSON": Case(request(body=b"{nonsense"), scripts.json_reply({"error": "bad"}, 400)),
    "an empty body": Case(request(body=b""), scripts.json_reply({"error": "missing request body"}, 400)),
    "no length and no body": Case(request(body=None), scripts.json_reply({"error": "EOF"}, 400)),
    "a compressed body": Case(
        request("POST /api/chat HTTP/1.1", gzip.compress(ODD_JSON), "Content-Encoding: gzip"), NDJSON
    ),
    "an end by closing": Case(
        request(), scripts.raw(scripts.head(200), b"no length ", b"at all", then="close"), ends=True
    ),
    "HTTP/1.0": Case(
        request("POST /api/chat HTTP/1.0"), scripts.raw(scripts.head(200), b"1.0", then="close"), ends=True
    ),
    "HTTP/1.0 without Host": Case(
        b"GET /api/tags HTTP/1.0\r\n\r\n", scripts.raw(scripts.json_bytes({}), then="close"), ends=True
    ),
    "HEAD": Case(request("HEAD / HTTP/1.1", None), scripts.raw(scripts.head(200)), is_head=True),
    "HEAD with a length": Case(
        request("HEAD /api/blobs/x HTTP/1.1", None),
        scripts.raw(scripts.head(200, ("Content-Length", "99"))),
        is_head=True,
    ),
    "204": Case(
        request("OPTIONS /api/chat HTTP/1.1", None, "Origin: http://localhost:3000"),
        scripts.raw(scripts.head(204)),
    ),
    "404 of the engine": Case(request("GET /v1/v1/models HTTP/1.1", None), PLAIN_404),
    "an encoded slash": Case(request("GET /api%2Ftags/a%20b?q=%2F&&=%zz HTTP/1.1", None), PLAIN_404),
    "a doubled slash": Case(request("POST //api/chat HTTP/1.1"), PLAIN_404),
    "dots in the path": Case(request("GET /api/../api/./tags HTTP/1.1", None), PLAIN_404),
    "DELETE with a body": Case(
        request("DELETE /api/delete HTTP/1.1", b'{"model":"m:1"}'),
        scripts.raw(scripts.head(200, ("Content-Length", "0"))),
    ),
    "PUT": Case(request("PUT /x HTTP/1.1", b"x"), scripts.json_reply({})),
    "GET with a body": Case(request("GET /api/tags HTTP/1.1", b"x"), scripts.json_reply({})),
    "headers of the engine": Case(request("GET /api/tags HTTP/1.1", None), MANY_HEADERS),
    "a reason of its own": Case(
        request("GET / HTTP/1.1", None), scripts.raw(b"HTTP/1.1 299 Quite Fine\r\nContent-Length: 0\r\n\r\n")
    ),
    "60 KiB of headers": Case(
        request("POST /api/chat HTTP/1.1", b"{}", "Cookie: " + "c" * 50_000, "X-Trace: " + "t" * 10_000),
        scripts.json_reply({}),
    ),
    "a large body": Case(request(body=b'{"model":"m:1","images":["' + BIG + b'"]}'), NDJSON),
    "a large body that is passed on": Case(
        request("POST /api/blobs/x HTTP/1.1", BIG), scripts.json_reply({})
    ),
    "a large reply": Case(
        request("GET /x HTTP/1.1", None),
        scripts.in_chunks([BIG[:100_001], BIG, b"end"], content_type="application/octet-stream"),
    ),
}


async def talk(port: int, case: Case) -> RawReply:
    """Send the request, read the reply, and see how the connection went on."""
    async with await RawClient.open(port, limit=2**26) as client:
        reply = await client.ask(case.sent, is_head=case.is_head)
        if case.ends:
            assert await client.end() == b""
        else:
            again = await client.ask(case.sent, is_head=case.is_head)
            assert (again.status_line, again.raw) == (reply.status_line, reply.raw)
    return reply


def arrived(one: ParsedRequest) -> tuple[str, str, str, list[tuple[bytes, bytes]], bytes]:
    """What the engine saw of a request, hop-by-hop headers apart."""
    return one.method, one.target, one.version, without_hop_by_hop(one.headers), one.body


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_request_and_reply_are_the_same_through_the_port(case: Case) -> None:
    """Status line, headers, body bytes, chunk boundaries and the use of the connection are the engine's."""

    async def compare() -> None:
        async with FakeEngine(case.script) as engine, Node(engine) as node:
            direct = await talk(engine.port, case)
            seen = arrived(engine.requests[0])
            engine.requests.clear()
            through = await talk(node.port, case)
            assert through.status_line == direct.status_line
            assert without_hop_by_hop(through.headers) == without_hop_by_hop(direct.headers)
            assert through.raw == direct.raw
            assert through.is_whole
            assert direct.is_whole
            assert [arrived(one) for one in engine.requests] == [seen] * len(engine.requests)

    run_async(compare())


def test_the_headers_of_this_hop_go_no_further() -> None:
    """Connection, what it names, Upgrade and our own headers never reach the engine; all others do."""

    async def ask() -> None:
        async with FakeEngine(scripts.json_reply({})) as engine, Node(engine) as node:
            sent = request(
                "GET /api/tags HTTP/1.1",
                None,
                "Connection: Upgrade, X-Foo",
                "Upgrade: foo",
                "X-Foo: 1",
                "TE: trailers",
                "Proxy-Authorization: secret",
                "X-Pairproxy-Run: r",
                "Authorization: Bearer of-the-engine",
                "Cookie: a=b",
            )
            async with await RawClient.open(node.port) as client:
                assert (await client.ask(sent)).status == 200
            assert engine.requests[0].headers == [
                (b"Host", b"localhost"),
                (b"Authorization", b"Bearer of-the-engine"),
                (b"Cookie", b"a=b"),
            ]

    run_async(ask())


def test_each_chunk_leaves_as_it_comes() -> None:
    """The client has a chunk while the engine has not made the next one."""

    async def ask() -> None:
        told = asyncio.Event()

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(scripts.chunked_head())
            for number in range(3):
                told.clear()
                await connection.send(scripts.chunk(b'{"n":%d}\n' % number))
                await told.wait()
            await connection.send(scripts.chunk(b'{"done":true}\n') + scripts.LAST_CHUNK)

        async with (
            FakeEngine(script) as engine,
            Node(engine) as node,
            await RawClient.open(node.port) as client,
        ):
            await client.send(request())
            reply = await client.head()
            for number in range(3):
                assert await client.chunk(reply) == b'{"n":%d}\n' % number
                told.set()
            assert await client.chunk(reply) == b'{"done":true}\n'

    run_async(ask())


def test_an_upload_in_chunks_is_passed_on_while_it_comes() -> None:
    """A body that is passed on is never collected here first."""

    async def ask() -> None:
        async def script(incoming: ParsedRequest, connection: EngineConnection) -> None:
            await connection.received_bytes(len(incoming.raw) + len(b"5\r\nfirst\r\n"))
            await connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")  # the client waits for this to go on
            received.set()
            await connection.read_body(incoming)
            await connection.send(scripts.json_bytes({"status": "success"}))

        received = asyncio.Event()
        async with FakeEngine(script, is_at_head=True) as engine, Node(engine) as node:
            async with await RawClient.open(node.port) as client:
                await client.send(request("POST /api/blobs/x HTTP/1.1", b"", "Transfer-Encoding: chunked"))
                await client.send(scripts.chunk(b"first"))
                await received.wait()
                reply = await client.ask(scripts.chunk(b"second") + scripts.LAST_CHUNK)
                assert reply.json() == {"status": "success"}
            (seen,) = engine.requests
            assert (seen.body, seen.header("Content-Length")) == (b"firstsecond", None)

    run_async(ask())


def test_a_chunked_request_reaches_the_engine_chunked() -> None:
    """Inference is read whole before it is routed; its framing still stays what the client chose."""

    async def ask() -> None:
        async with FakeEngine(NDJSON) as engine, Node(engine) as node:
            chunks = scripts.chunk(b'{"model":') + scripts.chunk(b'"m:1"}') + scripts.LAST_CHUNK
            async with await RawClient.open(node.port) as client:
                reply = await client.ask(
                    request("POST /api/chat HTTP/1.1", chunks, "Transfer-Encoding: chunked")
                )
            assert reply.status == 200
            (seen,) = engine.requests
            assert (seen.body, seen.header("Content-Length")) == (b'{"model":"m:1"}', None)
            assert seen.header("Transfer-Encoding") == b"chunked"

    run_async(ask())


@pytest.mark.parametrize("path", ["/api/chat", "/api/blobs/x"])
def test_expectation_is_met_when_the_body_is_wanted(path: str) -> None:
    """A client that waits for 100 Continue gets it, then the reply; the engine never sees Expect."""

    async def ask() -> None:
        async with FakeEngine(scripts.json_reply({})) as engine, Node(engine) as node:
            async with await RawClient.open(node.port) as client:
                sent = request(f"POST {path} HTTP/1.1", b"{}", "Expect: 100-continue")
                await client.send(sent.removesuffix(b"{}"))
                assert (await client.head()).status_line == b"HTTP/1.1 100 Continue"
                assert (await client.ask(b"{}")).status == 200
            assert engine.requests[0].header("Expect") is None
            assert engine.requests[0].body == b"{}"

    run_async(ask())
