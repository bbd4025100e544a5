"""Every row of the route table answers through the port as the engine does, in every way a client may ask."""

import asyncio
import itertools

import pytest

from pairproxy.core.dialects import routes
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script, eventually
from tests.support.node import Node, node_before
from tests.support.raw_client import RawClient, RawReply, request, without_hop_by_hop
from tests.support.running import run_async

JSON = b'{"model":"m:1","prompt":"hi","messages":[{"role":"user","content":"hi"}],"input":"hi","stream":%s}'
EVENTS = (
    b'event: message_start\ndata: {"type":"message_start"}\n\n',
    b": ping\n\n",  # of the engine: it is its to send
    b'data: {"half',
    b'":1}\n\ndata:\n\n',
    b"data: [DONE]\n\n",
)
STREAM = scripts.in_chunks(EVENTS, gap_s=0.001, content_type="text/event-stream")
WHOLE = scripts.raw(
    scripts.head(
        200,
        ("Content-Type", "application/json"),
        ("Cache-Control", "no-cache"),
        ("X-Accel-Buffering", "no"),
        ("ETag", 'W/"1"'),
        ("Content-Length", "12"),
    )
    + b'{"a" : 1.00}'
)
PASSED = (
    ("GET", "/"),
    ("HEAD", "/"),
    ("PATCH", "/unheard/of"),
    ("GET", "/v1/v1/models"),
    ("POST", "/api/chat/"),
)


def every_route() -> list[tuple[str, str]]:
    """Method and path of every row, a star written out; and what is in no row."""
    inference = [("POST", path) for path in routes.INFERENCE]
    listed = [
        (method, path.replace("*", "hf.co%2Fa%2Fb:Q4"))
        for table in (routes.CATALOGUE, routes.LOCAL)
        for path, methods in table.items()
        for method in methods.split()
    ]
    return [*inference, *listed, *(("POST", path) for path in sorted(routes.SLOTLESS)), *PASSED]


def asked(method: str, path: str, *headers: str, version: str = "1.1", is_streaming: bool = False) -> bytes:
    """A request of a route as its clients send it."""
    has_body = method in ("POST", "PATCH", "DELETE")
    body = JSON % (b"true" if is_streaming else b"false") if has_body else None
    return request(f"{method} {path}?beta=true HTTP/{version}", body, *headers)


async def both(
    script: Script, sent: bytes, *, is_head: bool
) -> tuple[RawReply, RawReply, list[ParsedRequest]]:
    """The reply direct, the reply through a node, and what the engine saw of both."""
    async with FakeEngine(script) as engine, Node(engine) as node:
        replies = []
        for port in (engine.port, node.port):
            async with await RawClient.open(port) as client:
                replies.append(await client.ask(sent, is_head=is_head))
        return replies[0], replies[1], engine.requests


def same(direct: RawReply, through: RawReply) -> None:
    """Two replies that no client can tell apart."""
    assert through.status_line == direct.status_line
    assert without_hop_by_hop(through.headers) == without_hop_by_hop(direct.headers)
    assert (through.raw, through.is_whole) == (direct.raw, direct.is_whole)


@pytest.mark.parametrize("is_streaming", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize(("method", "path"), every_route())
def test_each_route_is_transparent(method: str, path: str, is_streaming: bool) -> None:
    """Request and reply are the same bytes on both ways, chunk boundaries and odd spaces included."""

    async def main() -> None:
        is_head = method == "HEAD"
        script = STREAM if is_streaming and not is_head else WHOLE
        if is_head:
            script = scripts.raw(scripts.head(200, ("Content-Length", "12")))
        sent = asked(
            method,
            path,
            "User-Agent: GitHubCopilotChat/1",
            "x-stainless-os: Linux",
            is_streaming=is_streaming,
        )
        direct, through, seen = await both(script, sent, is_head=is_head)
        same(direct, through)
        assert seen[0].raw == seen[1].raw == sent

    run_async(main())


ONE_OF_EACH = {
    routes.Class.INFERENCE: ("POST", "/v1/messages"),
    routes.Class.CATALOGUE: ("GET", "/api/tags"),
    routes.Class.LOCAL: ("POST", "/api/pull"),
    routes.Class.PASS: ("POST", "/unheard/of"),
}
ZSTD = b"\x28\xb5\x2f\xfd\x20" + bytes([11]) + (1 | 11 << 3).to_bytes(3, "little") + b'{"model":1}'
CHUNKED = scripts.chunk(b'{"model"') + scripts.chunk(b':"m:1"}') + scripts.LAST_CHUNK
WAYS: dict[str, bytes] = {
    "zstd": request("{0} HTTP/1.1", ZSTD, "Content-Encoding: zstd"),
    "chunked": request("{0} HTTP/1.1", CHUNKED, "Transfer-Encoding: chunked"),
    "closing": request("{0} HTTP/1.1", b'{"model":"m:1"}', "Connection: close"),
    "1.0": request("{0} HTTP/1.0", b'{"model":"m:1"}'),
    "no type": request("{0} HTTP/1.1", b'{"model":"m:1"}', "Content-Type: application/x-www-form-urlencoded"),
    "64 KiB of headers": request(
        "{0} HTTP/1.1", b"{}", *(f"X-{number}: " + "h" * 4000 for number in range(16))
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize(("method", "path"), ONE_OF_EACH.values(), ids=ONE_OF_EACH.keys())
def test_each_class_is_transparent_in_every_way(method: str, path: str, way: bytes) -> None:
    """However the body is coded, framed and announced, the engine gets it so, and the client its reply."""

    async def main() -> None:
        sent = way.replace(b"{0}", f"{method} {path}".encode())
        has_end = b"HTTP/1.0" in sent or b"Connection: close" in sent
        script = scripts.raw(scripts.head(200), b'{"to the":"end"}', then="close") if has_end else WHOLE
        direct, through, (first, second) = await both(script, sent, is_head=False)
        same(direct, through)
        assert (first.method, first.target, first.version) == (second.method, second.target, second.version)
        assert without_hop_by_hop(first.headers) == without_hop_by_hop(second.headers)
        assert first.body == second.body

    run_async(main())


@pytest.mark.parametrize(("method", "path"), ONE_OF_EACH.values(), ids=ONE_OF_EACH.keys())
def test_a_client_that_wants_the_end_gets_it(method: str, path: str) -> None:
    """With Connection: close nothing is left open after the reply, though the engine would go on."""

    async def main() -> None:
        async with node_before(WHOLE) as (node, _), await RawClient.open(node.port) as client:
            reply = await client.ask(asked(method, path, "Connection: close"))
            assert (reply.body, reply.header("Connection")) == (b'{"a" : 1.00}', b"close")
            assert await client.end() == b""

    run_async(main())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/unheard/of"])
def test_silence_stays_silence(path: str) -> None:
    """Between the chunks of an engine there is not one byte of ours: no comment, no space, no empty line."""

    async def main() -> None:
        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(scripts.chunked_head("text/event-stream") + scripts.chunk(b'data: {"ha'))
            await is_quiet.wait()
            await connection.send(scripts.chunk(b'lf":1}\n\n') + scripts.LAST_CHUNK)

        is_quiet = asyncio.Event()
        async with node_before(script) as (node, _), await RawClient.open(node.port) as client:
            await client.send(asked("POST", path))
            reply = await client.head()
            assert await client.chunk(reply) == b'data: {"ha'
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await client.reader.readexactly(1)
            is_quiet.set()
            assert [await client.chunk(reply), await client.chunk(reply)] == [b'lf":1}\n\n', b""]

    run_async(main())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/unheard/of"])
def test_before_the_first_byte_nothing_is_sent(path: str) -> None:
    """A long prefill is silence, and an error after it is an error: there was no early 200."""

    async def main() -> None:
        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await is_quiet.wait()
            await connection.send(scripts.json_bytes({"error": "out of memory"}, 500))

        is_quiet = asyncio.Event()
        async with node_before(script) as (node, engine), await RawClient.open(node.port) as client:
            await client.send(asked("POST", path))
            await eventually(lambda: len(engine.requests) == 1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await client.reader.readexactly(1)
            is_quiet.set()
            assert (await client.reply()).status == 500

    run_async(main())


def test_an_error_in_a_stream_is_relayed_as_a_line() -> None:
    """The client's library raises it; a second attempt would repeat what was said already."""

    async def main() -> None:
        lines = [{"message": {"content": "a"}, "done": False}, {"error": "an error was encountered"}]
        direct, through, seen = await both(
            scripts.ollama_chat(lines), asked("POST", "/api/chat"), is_head=False
        )
        same(direct, through)
        assert len(seen) == 2

    run_async(main())


def test_lmstudios_200_for_anything_is_relayed() -> None:
    """With its body, ETag and keep-alive, though it is an error to everybody but HTTP."""

    async def main() -> None:
        odd = scripts.json_reply({"error": "Unexpected endpoint or method. (GET /api/version)"})
        for path in ("/api/version", "/v1//models", "/chat/completions"):
            direct, through, _ = await both(odd, asked("GET", path), is_head=False)
            same(direct, through)

    run_async(main())


@pytest.mark.parametrize("idle_s", [0.0, 0.05])
def test_a_connection_that_the_engine_just_closed_is_no_error(idle_s: float) -> None:
    """Engines close idle connections after a while; a request that meets that is sent again, once."""

    async def main() -> None:
        async def script(incoming: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(scripts.json_bytes({"n": next(numbers)}), gap_s=idle_s)
            connection.close()

        numbers = itertools.count()
        async with node_before(script) as (node, engine), await RawClient.open(node.port) as client:
            for number in range(20):
                assert (await client.ask(asked("POST", "/api/chat"))).json() == {"n": number}
            assert len(engine.requests) == 20

    run_async(main())


def test_fifty_megabytes_of_images_arrive() -> None:
    """An agent may send screenshots; the engine gets every byte of them with their length."""

    async def main() -> None:
        body = (
            b'{"model":"m:1","messages":[{"role":"user","images":["' + b"iVBORw0KGgo=" * 4_370_000 + b'"]}]}'
        )
        assert len(body) > 50 * 2**20
        async with node_before(WHOLE) as (node, engine), await RawClient.open(node.port) as client:
            assert (await client.ask(request(body=body))).status == 200
            assert engine.requests[0].body == body
            assert engine.requests[0].header("Content-Length") == str(len(body)).encode()

    run_async(main())
