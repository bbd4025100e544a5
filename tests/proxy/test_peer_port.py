"""What a paired node may do here, what a stranger gets (nothing), and how two nodes share their slots."""

import asyncio
import contextlib
import ssl

import pytest

from pairproxy.core.models import Outcome
from pairproxy.peers.exchange import read_document
from pairproxy.security import tls
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import (
    DEADLINE_S,
    EngineConnection,
    FakeEngine,
    ParsedRequest,
    eventually,
)
from tests.support.node import Node, identity
from tests.support.peer_calls import CHAT, ben_trusting_anna, call
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

CATALOGUE = request("GET /pairproxy/catalogue HTTP/1.1", None)
OURS = ("X-Pairproxy-Request: 0123abcd", "X-Pairproxy-Attempt: 1", "X-Pairproxy-Engine: engine")


def as_node(line: str = "POST /api/chat HTTP/1.1", *headers: str) -> bytes:
    """A request as a node sends it."""
    return request(line, b'{"model":"m:1"}', *(headers or OURS), host="pairproxy")


def test_a_paired_node_gets_an_answer() -> None:
    """Inference of a paired node runs on this node's engine."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            reply = await anna.ask(as_node())
            assert (reply.status, reply.body) == (200, b'{"done": true}\n')
            assert len(engine.requests) == 1
            (record,) = await ben.recorded()
            assert (record.origin, record.outcome) == (identity("anna").device_id, Outcome.DONE)
            # All of the origin's id: a key with the same first characters can be searched for.
            assert record.id == f"{identity('anna').device_id}-0123abcd-1"

    run_async(main())


def test_a_stranger_gets_nothing() -> None:
    """A certificate that is not paired, none at all, and plain HTTP get not one byte of HTTP."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine):
            nobody = ssl.create_default_context()
            nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
            stranger = tls.client_context(identity("mallory"), ben.identity.certificate)
            for context in (stranger, nobody, None):
                name = "" if context is not None else None
                got = b""
                with contextlib.suppress(ssl.SSLError, ConnectionError):
                    async with await RawClient.open(
                        ben.peer_port_number, ssl=context, server_hostname=name
                    ) as client:
                        await client.send(as_node())
                        got = await client.end()
                assert b"HTTP" not in got
            assert engine.requests == []
            assert ben.records == ()

    run_async(main())


def test_a_peer_that_was_forgotten_is_refused_on_its_open_connection() -> None:
    """Trust is asked for anew with every request: 403, no body, and the connection closes."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            assert (await anna.ask(as_node())).status == 200
            ben.paired.clear()
            reply = await anna.ask(as_node())
            assert (reply.status, reply.body) == (403, b"")
            assert await anna.end() == b""
            assert len(engine.requests) == 1

    run_async(main())


FORBIDDEN = [
    *(f"POST /api/{name}" for name in ("pull", "create", "push", "copy", "show/", "blobs/sha256:x", "tags")),
    "DELETE /api/delete",
    "GET /api/tags",
    "GET /api/show",
    "POST /pairproxy/catalogue",
    "GET /pairproxy/catalogue/",
    "GET /",
    "GET /api/chat",
    "PUT /api/chat",
    "OPTIONS /api/chat",
    "POST /api/chat/",
    "POST //api/chat",
    "POST /api/%63hat",
    "POST /API/chat",
    "POST /api/../api/chat",
    "POST /pairproxy/state",
    "GET /pairproxy/state?x",
]


@pytest.mark.parametrize("line", FORBIDDEN)
def test_peers_may_infer_and_nothing_else(line: str) -> None:
    """Every other route is refused here, whatever its spelling; the engine never hears of it."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            reply = await anna.ask(as_node(f"{line} HTTP/1.1"))
            assert (reply.status, reply.body) == (403, b"")
            assert reply.header("X-Pairproxy-Refused") == b"NotAllowed"
            assert engine.requests == []

    run_async(main())


STRANGE = {
    "no id": ("X-Pairproxy-Attempt: 1",),
    "an id with a slash": ("X-Pairproxy-Request: a/b", "X-Pairproxy-Attempt: 1"),
    "a long id": ("X-Pairproxy-Request: " + "a" * 65, "X-Pairproxy-Attempt: 1"),
    "no attempt": ("X-Pairproxy-Request: a",),
    "an attempt that is no number": ("X-Pairproxy-Request: a", "X-Pairproxy-Attempt: x"),
}


@pytest.mark.parametrize("headers", STRANGE.values(), ids=STRANGE.keys())
def test_a_request_that_no_node_would_send_is_refused(headers: tuple[str, ...]) -> None:
    """Without a proper account of itself a request gets 400, and the engine nothing."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            assert (await anna.ask(as_node("POST /api/chat HTTP/1.1", *headers))).status == 400
            assert engine.requests == []

    run_async(main())


def test_state_is_for_peers() -> None:
    """A paired node is told this node's state, as a stream of documents."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, _), await call(ben) as anna:
            await anna.send(request("GET /pairproxy/state HTTP/1.1", None))
            reply = await anna.head()
            assert b'"node":"%s"' % ben.id.encode() in await anna.chunk(reply)

    run_async(main())


def test_what_a_peer_may_know_of_a_request_is_little() -> None:
    """Neither keys nor cookies nor origins leave this machine; its engine sees its own name as Host."""

    async def main() -> None:
        async with (
            FakeEngine(scripts.raw(then="reset")) as dead,
            ben_trusting_anna() as (ben, engine),
            Node(dead) as anna,
        ):
            await anna.pair(ben)
            sent = request(
                "POST /api/chat?q=1 HTTP/1.1",
                b'{"model":"m:1"}',
                "Authorization: Bearer secret",
                "Cookie: a=b",
                "Origin: http://localhost:3000",
                "User-Agent: agent",
                "X-Custom: 1",
                "Content-Type: application/json",
                "Accept: */*",
                "X-Pairproxy-Run: job",
            )
            async with await RawClient.open(anna.port) as client:
                assert (await client.ask(sent)).status == 200
            (seen,) = engine.requests
            assert seen.target == "/api/chat?q=1"
            assert sorted(seen.headers) == [
                (b"Accept", b"*/*"),
                (b"Content-Length", b"15"),
                (b"Content-Type", b"application/json"),
                (b"Host", b"engine.test"),
            ]

    run_async(main())


def test_a_chunked_request_reaches_a_peer_with_its_length() -> None:
    """However the body came in, it goes to a peer whole and counted."""

    async def main() -> None:
        async with (
            FakeEngine(scripts.raw(then="reset")) as dead,
            ben_trusting_anna() as (ben, engine),
            Node(dead) as anna,
        ):
            await anna.pair(ben)
            body = scripts.chunk(b'{"model":') + scripts.chunk(b'"m:1"}') + scripts.LAST_CHUNK
            async with await RawClient.open(anna.port) as client:
                for _ in range(2):
                    sent = request("POST /api/chat HTTP/1.1", body, "Transfer-Encoding: chunked")
                    assert (await client.ask(sent)).status == 200
            assert [one.body for one in engine.requests] == [b'{"model":"m:1"}'] * 2
            assert engine.requests[0].header("Content-Length") == b"15"

    run_async(main())


def test_an_attempt_is_served_once() -> None:
    """A second copy is refused while the first runs and afterwards; the refusal tells how things are here."""

    async def main() -> None:
        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await go_on.wait()
            connection.reset()

        go_on = asyncio.Event()
        async with (
            ben_trusting_anna(script, slots=2) as (ben, engine),
            await call(ben) as anna,
            await call(ben) as again,
        ):
            await anna.send(as_node())
            await eventually(lambda: len(engine.requests) == 1)
            reply = await again.ask(as_node())
            assert (reply.status, reply.header("X-Pairproxy-Refused")) == (409, b"SlotsTaken")
            (state,) = read_document(reply.body, ben.id).engines
            assert (state.slots, state.in_flight, state.yours) == (2, 1, 1)
            assert len(ben.scheduler.running) == 1
            go_on.set()
            reply = await anna.reply()
            assert (reply.status, reply.header("X-Pairproxy-Refused")) == (502, b"BrokenReply")
            engine.script = CHAT
            assert (await again.ask(as_node())).status == 409
            assert len(engine.requests) == 1

    run_async(main())


def test_the_form_of_a_request_is_checked_here_too() -> None:
    """A peer is no better than any client: nothing that two parsers could read in two ways goes on."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine):
            for sent, status in (
                (as_node("POST /api/chat HTTP/2.0"), 505),
                (request("POST /api/chat HTTP/1.1", b"0\r\n\r\n", "Transfer-Encoding: gzip, chunked"), 501),
                (as_node("TRACE /api/chat HTTP/1.1"), 405),
            ):
                async with await call(ben) as anna:
                    assert (await anna.ask(sent)).status == status
            assert engine.requests == []

    run_async(main())


def test_one_peer_cannot_take_every_connection() -> None:
    """Requests of one peer beyond its share are refused, and it is told to come again."""

    async def main() -> None:
        async with ben_trusting_anna(scripts.raw(then="hang")) as (ben, engine):
            slow = [await call(ben) for _ in range(ben.limits.peer_connections)]
            for one in slow:
                await one.send(request("POST /api/chat HTTP/1.1", None, "Content-Length: 9"))
            async with asyncio.timeout(DEADLINE_S), await call(ben) as anna:
                while (reply := await anna.ask(CATALOGUE)).status == 200:
                    pass  # not all of them are heard yet
            assert (reply.status, reply.header("Retry-After")) == (503, b"1")
            assert engine.requests == []
            for one in slow:
                one.leave()
            await eventually(lambda: ben.peer_port.connections == 0)
            engine.script = CHAT
            async with await call(ben) as anna:
                assert (await anna.ask(as_node())).status == 200

    run_async(main())
