"""Who gets no WebSocket, and what they get instead; and how sockets end with their port."""

import contextlib

import pytest

from pairproxy.config import Limits
from pairproxy.security import tls
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import FakeEngine
from tests.support.node import Node
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async
from tests.support.websockets import HEAD, KEY, agreeing, asking, echo, silent

REFUSALS = {
    "a refusal": scripts.json_bytes({"error": "no"}, 400),
    "a plain answer": scripts.json_bytes({"models": []}),
    "a refusal in chunks": scripts.head(426, ("Transfer-Encoding", "chunked"), ("Upgrade", "foo"))
    + scripts.chunk(b"n") + scripts.chunk(b"o") + scripts.LAST_CHUNK,
}  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_an_engine_that_does_not_agree_is_heard(refusal: bytes) -> None:
    """Its answer is relayed as any other, and the connection goes on as HTTP."""

    async def main() -> None:
        async with (
            FakeEngine(scripts.raw(refusal)) as engine,
            Node(engine) as node,
            await RawClient.open(node.port) as client,
            await RawClient.open(engine.port) as direct,
        ):
            expected = await direct.ask(asking())
            for sent in (asking(), request("GET /api/tags HTTP/1.1", None), asking()):
                reply = await client.ask(sent)
                assert (reply.status_line, reply.raw) == (expected.status_line, expected.raw)

    run_async(main())


@pytest.mark.parametrize("piece", [b"", HEAD[:30]])
def test_an_engine_that_dies_before_it_answers_is_an_error(piece: bytes) -> None:
    """Nothing of a 101 was sent, so an error of HTTP can still be."""

    async def main() -> None:
        script = scripts.raw(piece, then="close")
        async with (
            FakeEngine(script) as engine,
            Node(engine) as node,
            await RawClient.open(node.port) as client,
        ):
            reply = await client.ask(asking())
            assert (reply.status, set(reply.json())) == (502, {"error"})

    run_async(main())


NO_WEBSOCKET = {
    "another protocol": request("GET /llm HTTP/1.1", None, "Connection: Upgrade", "Upgrade: h2c"),
    "two protocols": asking("Upgrade: h2c"),
    "no key": request("GET /llm HTTP/1.1", None, "Connection: Upgrade", "Upgrade: websocket"),
    "Connection does not name it": request(
        "GET /llm HTTP/1.1", None, "Upgrade: websocket", f"Sec-WebSocket-Key: {KEY}"
    ),
    "not a GET": asking("Content-Length: 0", line="POST /llm HTTP/1.1"),
    "a body": asking("Content-Length: 2") + b"{}",
}


@pytest.mark.parametrize("sent", NO_WEBSOCKET.values(), ids=NO_WEBSOCKET.keys())
def test_any_other_upgrade_ends_here(sent: bytes) -> None:
    """The engine sees a plain request; an answer of 101 to it would be a fault of the engine."""

    async def main() -> None:
        async with FakeEngine(scripts.json_reply({})) as engine, Node(engine) as node:
            async with await RawClient.open(node.port) as client:
                assert (await client.ask(sent)).status == 200
                assert (await client.ask(request("GET / HTTP/1.1", None))).status == 200
            assert [one.header("Upgrade") for one in engine.requests] == [None, None]
            engine.script = scripts.raw(HEAD)
            async with await RawClient.open(node.port) as client:
                assert (await client.ask(sent)).status == 502

    run_async(main())


def test_a_page_of_another_site_gets_no_socket() -> None:
    """Browsers ask for WebSockets across sites without asking first; the gate stands before them too."""

    async def main() -> None:
        async with FakeEngine(agreeing(echo)) as engine, Node(engine) as node:
            async with await RawClient.open(node.port) as client:
                reply = await client.ask(asking("Origin: https://evil.example"))
                assert (reply.status, reply.body) == (403, b"")
            assert engine.requests == []

    run_async(main())


def test_a_peer_gets_no_socket() -> None:
    """The peer port has inference and state documents, and nothing to tunnel."""

    async def main() -> None:
        async with (
            FakeEngine(agreeing(echo)) as engine,
            Node(engine) as node,
            Node(engine, name="ben") as ben,
        ):
            await ben.open_peer_port(node)
            context = tls.client_context(node.identity, ben.identity.certificate)
            client = await RawClient.open(ben.peer_port_number, ssl=context, server_hostname="")
            async with client:
                assert (await client.ask(asking())).status == 403
            assert engine.requests == []

    run_async(main())


def test_a_socket_is_one_of_the_connections() -> None:
    """Sockets count against the limit, and stopping the port ends them on both sides."""

    async def main() -> None:
        limits = Limits(connections=1)
        async with (
            FakeEngine(agreeing(silent)) as engine,
            Node(engine, limits=limits) as node,
            await RawClient.open(node.port) as client,
        ):
            await client.send(asking())
            assert await client.reader.readexactly(len(HEAD)) == HEAD
            async with await RawClient.open(node.port) as second:
                assert (await second.ask(asking())).status == 503
            await node.client_port.stop()
            with contextlib.suppress(ConnectionError):
                assert await client.end() == b""
            await engine.connections[0].peer_left(1.0)

    run_async(main())


def test_greeting_and_status_pass() -> None:
    """What LM Studio's clients ask before they connect is answered by LM Studio."""

    async def main() -> None:
        script = scripts.routes({
            "/lmstudio-greeting": scripts.json_reply({"lmstudio": True}),
            "/lms-status": scripts.json_reply({"package": "lms", "version": "0.4.1"}),
        })  # fmt: skip
        async with (
            FakeEngine(script) as engine,
            Node(engine) as node,
            await RawClient.open(node.port) as client,
        ):
            asked = request("GET /lmstudio-greeting HTTP/1.1", None)
            assert (await client.ask(asked)).json() == {"lmstudio": True}
            asked = request("GET /lms-status HTTP/1.1", None)
            assert (await client.ask(asked)).json()["version"] == "0.4.1"

    run_async(main())
