"""What the client's connection shows: replies that broke off, answers of ours, and what follows on it."""

import logging

import pytest

from pairproxy.config import Limits
from pairproxy.core.commands import Command
from pairproxy.core.events import Event, FirstByteReceived, RequestArrived
from pairproxy.core.models import Outcome
from pairproxy.proxy.request import Written
from tests.proxy.test_forward import BEN, beside_peer
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script
from tests.support.node import Node, node_before
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed

WORD = b'{"message":{"content":"word"},"done":false}\n'
SSE_WORD = b'data: {"choices":[]}\n\n'
PLAIN = scripts.chunked_head()
STREAM = scripts.chunked_head("text/event-stream")
JSON = scripts.chunked_head("application/json")
NDJSON = ("Content-Type", "application/x-ndjson")
SENT = scripts.chunk(WORD)
CHAT, V1, PULL = "/api/chat", "/v1/chat/completions", "/api/pull"


def broken(*pieces: bytes, then: str = "reset") -> Script:
    """A reply that ends in the middle; the pieces arrive one by one."""
    return scripts.raw(*pieces, gap_s=0.005, then=then)


@pytest.mark.breaks_off("its engine or its node dies in the middle")
@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("path", [CHAT, PULL])
def test_a_broken_ollama_stream_ends_with_an_error_line_and_no_terminator(path: str, then: str) -> None:
    """The text so far, one last line that says what happened, and an end that no client takes for whole."""

    async def main() -> None:
        async with node_before(broken(PLAIN, SENT, SENT, then=then)) as (node, _):
            async with await RawClient.open(node.port) as client:
                reply = await client.ask(request(f"POST {path} HTTP/1.1"))
                assert not reply.is_whole
                assert reply.chunks[:2] == [WORD, WORD]
                assert reply.chunks[2].startswith(b'{"error":"')
                assert reply.chunks[2].endswith(b'"}\n')
                assert len(reply.chunks) == 3
            if path == CHAT:
                (record,) = await node.recorded()
                assert record.outcome is Outcome.TRUNCATED

    run_async(main())


SILENT_ENDS: dict[str, tuple[str, Script, bytes]] = {
    "SSE": (V1, broken(STREAM, scripts.chunk(SSE_WORD)), scripts.chunk(SSE_WORD)),
    "inside a chunk": (CHAT, broken(PLAIN, SENT, b"ff\r\n{"), SENT + b"ff\r\n{"),
    "inside a line": (CHAT, broken(PLAIN, scripts.chunk(b'{"mess')), scripts.chunk(b'{"mess')),
    "JSON in chunks": (CHAT, broken(JSON, scripts.chunk(b'{"a":\n')), scripts.chunk(b'{"a":\n')),
    "passed on, no lines": ("/api/tags", broken(JSON, scripts.chunk(b"{\n")), scripts.chunk(b"{\n")),
    "a length, between lines": (
        CHAT,
        broken(
            scripts.head(200, ("Content-Type", "application/x-ndjson"), ("Content-Length", "99")), b"{}\n\r\n"
        ),
        b"{}\n\r\n",
    ),
    "a length": (CHAT, broken(scripts.head(200, ("Content-Length", "99")), b"{", then="close"), b"{"),
}


@pytest.mark.breaks_off("its engine or its node dies in the middle")
@pytest.mark.parametrize(("path", "script", "seen"), SILENT_ENDS.values(), ids=SILENT_ENDS.keys())
def test_nothing_is_added_where_a_line_would_not_be_one(path: str, script: Script, seen: bytes) -> None:
    """The client gets the engine's bytes, not one more, and the end of the connection."""

    async def main() -> None:
        async with node_before(script) as (node, _):
            async with await RawClient.open(node.port) as client:
                await client.send(request(f"POST {path} HTTP/1.1"))
                await client.head()
                assert await client.end() == seen
            if path != "/api/tags":
                (record,) = await node.recorded()
                assert record.outcome is Outcome.TRUNCATED

    run_async(main())


def test_a_broken_reply_that_closing_would_end_is_reset() -> None:
    """Where the end of the connection ends the body, an orderly end would be a lie."""

    async def main() -> None:
        async with (
            node_before(broken(scripts.head(200), WORD)) as (node, _),
            await RawClient.open(node.port) as client,
        ):
            await client.send(request("POST /api/chat HTTP/1.0"))
            await client.head()
            assert await client.reader.readexactly(len(WORD)) == WORD
            with pytest.raises(ConnectionResetError):
                await client.end()

    run_async(main())


@pytest.mark.breaks_off("its engine or its node dies in the middle")
@pytest.mark.parametrize("path", [CHAT, V1])
def test_a_node_lost_in_the_middle_ends_the_stream(path: str) -> None:
    """When the heartbeat of the answering node stops, the client is not left hanging."""

    async def main() -> None:
        head, word = (PLAIN, WORD) if path == CHAT else (STREAM, SSE_WORD)
        script, limits = scripts.raw(head, scripts.chunk(word), then="hang"), Limits(node_stale_s=0.1)
        async with beside_peer(script, limits=limits) as (node, engine, peer):
            async with await RawClient.open(node.port) as client:
                await client.send(request(f"POST {path} HTTP/1.1"))
                reply = await client.head()
                assert await client.chunk(reply) == word
                node.lose(BEN)
                rest = await client.end()
                assert rest.endswith(b'"}\n\r\n') if path == CHAT else rest == b""
                await peer.connections[0].peer_left()
            (record,) = await node.recorded()
            assert record.outcome is Outcome.TRUNCATED
            assert engine.requests == []

    run_async(main())


def test_the_headers_of_a_peers_reply_are_a_short_list() -> None:
    """What could set cookies, open origins or send the client elsewhere does not come through."""

    async def main() -> None:
        body = b'{"done":true}'
        sent = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Set-Cookie", "a=b"),
            ("Location", "http://169.254.169.254/"),
            ("Alt-Svc", "h3"),
            ("Refresh", "0"),
            ("Access-Control-Allow-Origin", "*"),
            ("Server", "x"),
        ]
        async with beside_peer(scripts.raw(scripts.head(200, *sent) + body)) as (node, _, _peer):
            async with await RawClient.open(node.port) as client:
                reply = await client.ask(request())
            assert reply.headers == [(name.encode(), value.encode()) for name, value in sent[:3]]

    run_async(main())


OUTCOMES: dict[str, tuple[Script, str, Outcome]] = {
    "done": (scripts.ollama_chat([{"done": True}]), CHAT, Outcome.DONE),
    "no last record": (scripts.ollama_chat([{"done": False}]), CHAT, Outcome.TRUNCATED),
    "error in the stream": (scripts.ollama_chat([{"done": False}, {"error": "x"}]), CHAT, Outcome.ERROR),
    "error status": (scripts.json_reply({"error": "x"}, 500), CHAT, Outcome.ERROR),
    "SSE done": (scripts.openai_chat([{"choices": []}]), V1, Outcome.DONE),
    "SSE without [DONE]": (
        scripts.in_chunks([SSE_WORD], content_type="text/event-stream"), V1, Outcome.TRUNCATED
    ),
    "cut by closing": (broken(scripts.head(200), b'{"done":fal', then="close"), CHAT, Outcome.TRUNCATED),
}  # fmt: skip


@pytest.mark.parametrize(("script", "path", "expected"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_the_ledger_knows_how_it_ended(script: Script, path: str, expected: Outcome) -> None:
    """A complete message is not a complete answer: the last record decides."""

    async def main() -> None:
        async with node_before(script) as (node, _), await RawClient.open(node.port) as client:
            await client.ask(request(f"POST {path} HTTP/1.1", b'{"model":"m:1","stream":true}'))
            (record,) = await node.recorded()
            assert record.outcome is expected

    run_async(main())


def test_an_error_of_ours_leaves_the_connection_usable() -> None:
    """After a 502 the next request on the connection is answered as if nothing had happened."""

    async def main() -> None:
        async with (
            node_before(scripts.raw(then="reset")) as (node, engine),
            await RawClient.open(node.port) as client,
        ):
            for line in ("POST /api/chat HTTP/1.1", "GET /api/tags HTTP/1.1"):
                failed = await client.ask(request(line, b"{}" if "POST" in line else None))
                assert (failed.status, failed.header("Connection")) == (502, None)
            failed = await client.ask(request("HEAD / HTTP/1.1", None), is_head=True)
            assert failed.status == 502
            engine.script = scripts.ollama_chat([{"done": True}])
            assert (await client.ask(request())).status == 200

    run_async(main())


@pytest.mark.pure  # the scheduler is made to fail
@pytest.mark.breaks_off("a fault of ours in the middle")
@pytest.mark.parametrize("kind", [RequestArrived, FirstByteReceived])
def test_a_fault_of_ours_ends_the_request_and_is_logged_without_its_text(
    kind: type[Event], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 before the head, a broken reply after it; the log says where it was, and never what it held."""

    async def main() -> None:
        async with node_before(broken(PLAIN + SENT, then="hang")) as (node, _):
            handle = node.scheduler.handle

            def fails(event: Event) -> list[Command]:
                if isinstance(event, kind):
                    raise RuntimeError("CANARY-12ce")
                return handle(event)

            monkeypatch.setattr(node.scheduler, "handle", fails)
            async with await RawClient.open(node.port) as client:
                reply = await client.ask(request())
                assert b"CANARY" not in reply.body
                if kind is RequestArrived:
                    assert (reply.status, reply.is_whole) == (500, True)
                else:
                    assert (reply.status, reply.is_whole) == (200, False)

    with caplog.at_level(logging.DEBUG):
        run_async(main())
    assert "CANARY" not in caplog.text
    assert "a fault of pairproxy: RuntimeError in fails:" in caplog.text


def test_what_is_written_needs_nothing_more() -> None:
    """aiohttp is told whether the connection may be kept, and adds no byte."""

    async def main() -> None:
        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(scripts.json_bytes({}))

        async with (
            FakeEngine(script) as engine,
            Node(engine) as node,
            await RawClient.open(node.port) as client,
        ):
            two = request("GET /a HTTP/1.1", None) + request("GET /b HTTP/1.1", None, "Connection: close")
            await client.send(two)
            assert (await client.reply()).header("Connection") is None
            assert (await client.reply()).header("Connection") == b"close"
            assert await client.end() == b""
        assert [Written(True).keep_alive, Written(False).keep_alive] == [True, False]

    run_async(main())
