"""What becomes of a request when the node that was chosen fails it: before the first byte, and after it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pairproxy.core.models import Outcome, Rates
from pairproxy.core.rules import Rules
from pairproxy.proxy.forward import REFUSAL_BYTES
from pairproxy.security import tls
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script, eventually
from tests.support.node import Node, Settling, identity
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

HERE = scripts.ollama_chat([{"from": "here"}, {"done": True}])
THERE = scripts.ollama_chat([{"from": "there"}, {"done": True}])
BUSY = scripts.json_reply({"error": "busy"}, 503)
MUCH_FASTER = Rates(prefill=1e9, decode=1e9, beta=0.0)
BEN = identity("ben")
CANARY = "CANARY-90ab"


@contextlib.asynccontextmanager
async def beside_peer(
    there: Script, here: Script = HERE, **options: Any
) -> AsyncIterator[tuple[Node, FakeEngine, FakeEngine]]:
    """A node before its own engine and a raw peer that is chosen first: (node, engine, peer)."""
    context = tls.server_context(BEN, [identity("anna").certificate])
    async with (
        FakeEngine(here) as engine,
        FakeEngine(there, tls=context) as peer,
        Node(engine, **options) as node,
    ):
        node.reach(BEN, peer.port)
        node.hear_of(BEN, rates=MUCH_FASTER)
        yield node, engine, peer


async def ask(node: Node, sent: bytes | None = None) -> RawReply:
    """One request on a connection of its own."""
    async with await RawClient.open(node.port) as client:
        return await client.ask(sent or request())


def whole(status: int, *headers: tuple[str, str], body: bytes = b"x") -> Script:
    """A whole reply with these headers."""
    return scripts.raw(scripts.head(status, *headers, ("Content-Length", str(len(body)))) + body)


JSON = ("Content-Type", "application/json")
LENGTH = ("Content-Length", "9")
HTML = ("Content-Type", "text/html")
FAILURES: dict[str, tuple[Script, str]] = {
    "closes at once": (scripts.raw(then="close"), "BrokenReply"),
    "resets at once": (scripts.raw(then="reset"), "BrokenReply"),
    "head, then close": (scripts.raw(scripts.chunked_head(), then="close"), "BrokenReply"),
    "head, then reset": (scripts.raw(scripts.chunked_head(), then="reset"), "BrokenReply"),
    "length, no body": (scripts.raw(scripts.head(200, JSON, LENGTH), then="close"), "BrokenReply"),
    "garbage": (scripts.raw(b"\x00\x01 " + CANARY.encode(), then="close"), "BrokenReply"),
    "garbage as a chunk": (scripts.raw(scripts.chunked_head(), b"zz\r\n", then="close"), "BrokenReply"),
    "another protocol": (scripts.raw(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"), "BrokenReply"),
    "two lengths": (scripts.raw(scripts.head(200, JSON, LENGTH, ("Content-Length", "2"))), "BrokenReply"),
    "no such status": (whole(999, JSON), "BrokenReply"),
    "busy": (BUSY, "UpstreamBusy"),
    "too many": (whole(429, JSON), "UpstreamBusy"),
    "a gateway's error": (whole(502, HTML), "BrokenReply"),
    "no such model": (scripts.json_reply({"error": "model not found"}, 404), "BrokenReply"),
    "redirect": (whole(302, ("Location", "http://169.254.169.254/"), JSON), "BrokenReply"),
    "a web page": (whole(200, HTML), "BrokenReply"),
    "an error page": (whole(500, HTML), "BrokenReply"),
    "no type": (whole(200), "BrokenReply"),
    "compressed": (whole(200, JSON, ("Content-Encoding", "gzip")), "BrokenReply"),
    "refused": (whole(502, JSON, ("X-Pairproxy-Refused", "Unreachable")), "BrokenReply"),
    "draining": (whole(503, JSON, ("X-Pairproxy-Refused", "Draining")), "SlotsTaken"),
    "forgotten": (whole(403, JSON, ("X-Pairproxy-Refused", "NotAllowed")), "BrokenReply"),
}  # fmt: skip


@pytest.mark.parametrize(("there", "expected"), FAILURES.values(), ids=FAILURES.keys())
def test_a_peer_that_fails_before_the_first_byte_is_never_noticed(there: Script, expected: str) -> None:
    """The client gets a normal answer from another node, and nothing else."""

    async def main() -> None:
        async with beside_peer(there) as (node, engine, peer):
            reply = await ask(node)
            assert reply.status_line == b"HTTP/1.1 200 OK"
            assert reply.body == b'{"from": "here"}\n{"done": true}\n'
            assert reply.is_whole
            assert (len(peer.requests), len(engine.requests)) == (1, 1)
            (record,) = await node.recorded()
            assert [attempt.end for attempt in record.attempts] == [expected, "done"]
            assert record.outcome is Outcome.DONE

    run_async(main())


REFUSED = ("X-Pairproxy-Refused", "SlotsTaken")
REFUSALS: dict[str, tuple[Script, list[bytes]]] = {
    "a document": (whole(409, JSON, REFUSED, body=b'{"node":"b"}'), [b'{"node":"b"}']),
    "too much": (whole(409, JSON, REFUSED, body=b"x" * (REFUSAL_BYTES + 1)), []),
    "half of it": (scripts.raw(scripts.head(409, JSON, REFUSED, LENGTH) + b"{", then="close"), []),
    "no end of it": (scripts.raw(scripts.head(409, JSON, REFUSED, LENGTH) + b"{", then="hang"), []),
}


@pytest.mark.parametrize(("there", "heard"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_a_refusal_says_is_heard_and_bounded(there: Script, heard: list[bytes]) -> None:
    """The state of the peer is taken in; one that does not come leaves it a refusal."""

    async def main() -> None:
        async with beside_peer(there) as (node, _, _):
            assert (await ask(node)).body == b'{"from": "here"}\n{"done": true}\n'
            assert [body for peer, body in node.refusals if peer == BEN.device_id] == heard
            (record,) = await node.recorded()
            assert [attempt.end for attempt in record.attempts] == ["SlotsTaken", "done"]

    run_async(main())


def test_a_peer_that_is_off_is_never_noticed() -> None:
    """Refused connections cost the client nothing but a moment."""

    async def main() -> None:
        async with beside_peer(THERE) as (node, _, peer):
            peer.stop_listening()
            assert (await ask(node)).body.startswith(b'{"from": "here"}')
            (record,) = await node.recorded()
            assert [attempt.end for attempt in record.attempts] == ["Unreachable", "done"]

    run_async(main())


def test_another_key_at_the_peers_address_gets_no_byte() -> None:
    """Whoever took the peer's address learns nothing of the request; another node answers."""

    async def main() -> None:
        context = tls.server_context(identity("mallory"), [identity("anna").certificate])
        async with (
            FakeEngine(HERE) as engine,
            FakeEngine(THERE, tls=context) as mallory,
            Node(engine) as node,
        ):
            node.reach(BEN, mallory.port)
            node.hear_of(BEN, rates=MUCH_FASTER)
            assert (await ask(node)).body.startswith(b'{"from": "here"}')
            assert [bytes(one.received) for one in mallory.connections if one.received] == []
            (record,) = await node.recorded()
            assert [attempt.end for attempt in record.attempts] == ["NotTrusted", "done"]

    run_async(main())


def test_a_request_without_streaming_starts_again_elsewhere() -> None:
    """A node that dies while it computes a whole reply is never noticed either."""

    async def main() -> None:
        async def dies(_: ParsedRequest, connection: EngineConnection) -> None:
            await go_on.wait()
            connection.reset()

        go_on = asyncio.Event()
        async with (
            beside_peer(dies, scripts.json_reply({"done": True})) as (node, _, peer),
            await RawClient.open(node.port) as client,
        ):
            await client.send(request(body=b'{"model":"m:1","stream":false}'))
            await eventually(lambda: len(peer.requests) == 1)
            go_on.set()
            assert (await client.reply()).json() == {"done": True}

    run_async(main())


def test_a_node_whose_heartbeat_stops_before_the_first_byte_is_never_noticed() -> None:
    """A node that hangs in silence is left when its state documents stop."""

    async def main() -> None:
        async with beside_peer(scripts.raw(then="hang")) as (node, _, peer):
            async with await RawClient.open(node.port) as client:
                await client.send(request())
                await eventually(lambda: len(peer.requests) == 1)
                node.lose(BEN)
                assert (await client.reply()).body.startswith(b'{"from": "here"}')
                await peer.connections[0].peer_left()
            (record,) = await node.recorded()
            assert [attempt.end for attempt in record.attempts] == ["NodeGone", "done"]

    run_async(main())


@pytest.mark.parametrize("script", [BUSY, None], ids=["busy", "off"])
def test_an_engine_that_never_began_has_nothing_to_settle(script: Script | None) -> None:
    """A slot of this node's engine is free again at once when the engine declined, or was not reached."""

    async def main() -> None:
        settling = Settling()
        context = tls.server_context(BEN, [identity("anna").certificate])
        async with (
            FakeEngine(script or HERE) as engine,
            FakeEngine(THERE, tls=context) as peer,
            Node(engine, settle=settling) as node,
        ):
            node.reach(BEN, peer.port)
            node.hear_of(BEN, rates=Rates(prefill=1.0, decode=1.0, beta=1.0))
            if script is None:
                engine.stop_listening()
            assert (await ask(node)).body.startswith(b'{"from": "there"}')
            (record,) = await node.recorded()
            assert [attempt.place.node for attempt in record.attempts] == [node.id, BEN.device_id]
            assert (settling.calls, len(node.scheduler.running)) == ([], 0)

    run_async(main())


def test_a_refusal_that_does_not_end_is_not_listened_to() -> None:
    """The connection of a failed attempt is closed, not left open with the rest of its reply."""

    async def main() -> None:
        endless = scripts.raw(
            scripts.head(503, JSON, ("Transfer-Encoding", "chunked")), b"1\r\n{\r\n", then="hang"
        )
        async with beside_peer(endless) as (node, _, peer):
            assert (await ask(node)).body.startswith(b'{"from": "here"}')
            await peer.connections[0].peer_left()

    run_async(main())


def test_what_is_broken_behind_every_node_is_the_clients_to_see() -> None:
    """When every node's gateway says 502, what the last one said is relayed."""

    async def main() -> None:
        broken = scripts.json_reply({"error": "no runner"}, 502)
        async with beside_peer(broken, broken) as (node, engine, peer):
            reply = await ask(node)
            assert (reply.status, reply.json()) == (502, {"error": "no runner"})
            assert (len(peer.requests), len(engine.requests)) == (1, 1)

    run_async(main())


def test_a_request_that_is_wrong_is_wrong_everywhere() -> None:
    """An engine's 400 is the answer; nobody else is asked, and it counts as the engine's error."""

    async def main() -> None:
        wrong = scripts.json_reply({"error": "no such option"}, 400)
        async with beside_peer(wrong) as (node, engine, _):
            reply = await ask(node)
            assert (reply.status, reply.json()) == (400, {"error": "no such option"})
            assert engine.requests == []
            (record,) = await node.recorded()
            assert record.outcome is Outcome.ERROR

    run_async(main())


def test_when_no_node_can_serve_the_client_learns_it_in_its_own_words() -> None:
    """502 in the dialect of the path, without a word of what the engine sent; the connection lives on."""

    async def main() -> None:
        garbage = scripts.raw(CANARY.encode(), then="close")
        async with FakeEngine(garbage) as engine, Node(engine) as node:
            async with await RawClient.open(node.port) as client:
                ollama = await client.ask(request())
                openai = await client.ask(request("POST /v1/chat/completions HTTP/1.1"))
            assert (ollama.status, openai.status) == (502, 502)
            assert set(ollama.json()) == {"error"}
            assert set(openai.json()["error"]) == {"message", "type", "param", "code"}
            assert CANARY.encode() not in ollama.body + openai.body
            assert [record.outcome for record in await node.recorded(2)] == [Outcome.FAILED] * 2

    run_async(main())


def test_only_so_many_nodes_are_tried() -> None:
    """After the attempts of the rules the error is the answer; the last of them is made here."""

    async def main() -> None:
        gone = [identity(f"gone{number}") for number in range(4)]
        rules = Rules(attempts=3)
        async with FakeEngine(scripts.raw(then="reset")) as engine, Node(engine, rules=rules) as node:
            for one in gone:
                node.reach(one, 1)
                node.hear_of(one, rates=MUCH_FASTER)
            assert (await ask(node)).status == 502
            (record,) = await node.recorded()
            ends = [attempt.end for attempt in record.attempts]
            assert ends == ["Unreachable", "Unreachable", "BrokenReply"]
            assert len(engine.requests) == 1

    run_async(main())
