"""Unloading a model means everywhere this node had it loaded, and nowhere where others use it."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import pytest

from pairproxy.proxy import unloading
from pairproxy.security import tls
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script, eventually
from tests.support.fake_ollama import packed, unpacked
from tests.support.node import ENGINE, MODEL, Node
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

CHAT = "POST /api/chat HTTP/1.1"
GENERATE = "POST /api/generate HTTP/1.1"
UNLOAD = request(GENERATE, b'{"model":"m:1","keep_alive":0}')
TALK = request(CHAT, b'{"model":"m:1","messages":[{"role":"user","content":"hi"}]}')
NOT_OURS = re.compile(rb'"keep_alive":(?:0|-1)')
UNLOADED = {"model": "m:1", "response": "", "done": True, "done_reason": "unload"}


async def ollama(incoming: ParsedRequest, connection: EngineConnection) -> None:
    """Talks, and unloads."""
    answer = UNLOADED | {"by": connection.engine.port} if b"keep_alive" in incoming.body else {"done": True}
    await connection.send(scripts.json_bytes(answer))


@contextlib.asynccontextmanager
async def two(
    script: Script = ollama, **anna_has: object
) -> AsyncIterator[tuple[Node, Node, FakeEngine, FakeEngine]]:
    """Anna, whose engine lists no model, and ben, who has it: (anna, ben, her engine, his)."""
    async with (
        FakeEngine(script) as hers,
        FakeEngine(ollama) as his,
        Node(his, name="ben") as ben,
        Node(hers, **{"models": (), **anna_has}) as anna,  # type: ignore[arg-type]
    ):
        await anna.pair(ben)
        yield anna, ben, hers, his


async def ask(node: Node, sent: bytes) -> RawReply:
    """The reply of a client port."""
    async with await RawClient.open(node.port) as client:
        return await client.ask(sent)


def unloads(engine: FakeEngine) -> list[bytes]:
    """The bodies that asked an engine to unload."""
    return [one.body for one in engine.requests if b"keep_alive" in one.body]


def test_a_model_is_unloaded_everywhere() -> None:
    """The client hears its own engine; the peer that was used is told the same, once for each use."""

    async def main() -> None:
        async with two() as (anna, _ben, hers, his):
            await ask(anna, TALK)
            assert (await ask(anna, UNLOAD)).json() == UNLOADED | {"by": hers.port}
            await eventually(lambda: len(unloads(his)) == 1)
            assert unloads(his) == unloads(hers) == [UNLOAD.partition(b"\r\n\r\n")[2]]
            await ask(anna, UNLOAD)
            await ask(anna, TALK)
            assert (len(unloads(hers)), len(unloads(his))) == (2, 1)
            assert len(anna.records) == 2  # an unload is no request that a slot is held for

    run_async(main())


def test_unloading_waits_for_no_slot() -> None:
    """Ollama lets a request that runs finish; it answers at once."""

    async def main() -> None:
        async def busy(incoming: ParsedRequest, connection: EngineConnection) -> None:
            if b"keep_alive" in incoming.body:
                await ollama(incoming, connection)
            else:
                await connection.peer_left()

        async with (
            FakeEngine(busy) as engine,
            Node(engine) as node,
            await RawClient.open(node.port) as client,
        ):
            await client.send(TALK)
            await eventually(lambda: len(engine.requests) == 1)
            assert (await ask(node, UNLOAD)).json()["done_reason"] == "unload"

    run_async(main())


def test_a_model_that_only_peers_have_is_unloaded_by_them() -> None:
    """It is in the merged catalogue; a 404 would be a surprise there."""

    async def main() -> None:
        missing = scripts.json_reply({"error": "model 'm:1' not found"}, 404)
        async with two(missing) as (anna, ben, _hers, his):
            assert (await ask(anna, UNLOAD)).status == 404
            await ask(anna, TALK)
            assert (await ask(anna, UNLOAD)).json() == UNLOADED | {"by": his.port}
            ben.dispatcher.close()
            await ask(anna, TALK)
            await ask(ben, TALK)
            assert (await ask(anna, UNLOAD)).status == 404  # his own client needs it

    run_async(main())


def test_the_models_of_a_peers_own_users_stay(caplog: pytest.LogCaptureFixture) -> None:
    """What ben's clients used lately or use now is not unloaded for anna."""

    async def main() -> None:
        async with two() as (anna, ben, _hers, his):
            await ask(anna, TALK)
            await ask(ben, TALK)
            assert (await ask(anna, UNLOAD)).status == 200
            await eventually(lambda: not [one for one in asyncio.all_tasks() if "unload" in one.get_name()])
            assert unloads(his) == []

    run_async(main())
    assert not caplog.records


def test_a_peer_that_does_not_answer_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is answered at once, and nobody waits for the peer for ever."""
    monkeypatch.setattr(unloading, "TOLD_S", 0.05)

    async def main() -> None:
        async with two() as (anna, _ben, _hers, his):

            async def silent(_: ParsedRequest, connection: EngineConnection) -> None:
                await connection.peer_left()

            await ask(anna, TALK)
            his.script = silent
            assert (await ask(anna, UNLOAD)).status == 200
            await eventually(lambda: not [one for one in asyncio.all_tasks() if "unload" in one.get_name()])
            await his.connections[-1].peer_left(1.0)

    run_async(main())


def test_a_request_that_stays_here_unloads_here() -> None:
    """Peers hear nothing of it."""

    async def main() -> None:
        async with two() as (anna, _, hers, his):
            await ask(anna, TALK)
            await ask(anna, request(GENERATE, b'{"model":"m:1","keep_alive":0}', "X-Pairproxy-Local: true"))
            assert (len(unloads(hers)), len(unloads(his))) == (1, 0)
            assert anna.residency.places_of(MODEL) != ()

    run_async(main())


@pytest.mark.parametrize(("value", "bound"), [("0", '"5m"'), ("-1", '"1h"'), ('"24h"', '"1h"')])
def test_a_peer_keeps_a_model_for_us_as_long_as_suits_its_users(value: str, bound: str) -> None:
    """Its engine gets a bounded time, counted anew; an engine of this node what its client said."""

    async def main() -> None:
        body = '{ "model":"m:1", "keep_alive" :\t%s , "prompt":"\\"keep_alive\\" ü" }'
        said, meant = (body % value).encode(), (body % bound).encode()
        async with two() as (anna, ben, hers, his):
            assert (await ask(anna, request(GENERATE, said))).status == 200
            assert (await ask(ben, request(GENERATE, said))).status == 200
            assert ([one.body for one in his.requests], hers.requests) == ([meant, said], [])
            assert his.requests[0].header("Content-Length") == str(len(meant)).encode()

    run_async(main())


def test_a_coded_body_of_a_guest_is_bounded_too() -> None:
    """It loses its coding with the change, and keeps it without one."""

    async def main() -> None:
        body = b'{"model":"m:1","prompt":"hi","keep_alive":%s}'
        async with (
            FakeEngine(ollama) as hers,
            FakeEngine(ollama) as his,
            Node(his, name="ben", engine_kind="ollama") as ben,
            Node(hers, models=()) as anna,
        ):
            await anna.pair(ben)
            for value in (b"-1", b"60"):
                sent = request(GENERATE, packed(body % value), "Content-Encoding: zstd")
                assert (await ask(anna, sent)).status == 200
            bounded, kept = his.requests
            assert (bounded.body, bounded.header("Content-Encoding")) == (body % b'"1h"', None)
            assert (unpacked(kept.body), kept.header("Content-Encoding")) == (body % b"60", b"zstd")

    run_async(main())


def test_a_preload_goes_where_the_request_would() -> None:
    """A client that warms a model up warms it on the node that will answer."""

    async def main() -> None:
        async with two() as (anna, _, hers, his):
            assert (await ask(anna, request(GENERATE, b'{"model":"m:1","keep_alive":"5m"}'))).status == 200
            assert (len(hers.requests), len(his.requests)) == (0, 1)

    run_async(main())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"model":"m:1","prompt":"hi","keep_alive":0}', 200),
        (b'{"model":"m:1","prompt":"hi","keep_alive":-1}', 200),
        (b'{"model":"m:1","prompt":"hi","keep_alive":-1,"keep_alive":1}', 400),
        (b'{"model":"m:1","prompt":"hi","keep_alive":3600}', 200),
        (b'{"model":"m:1","keep_alive":-1}', 200),
        (b'{"model":"m:1","keep_alive":0}', 403),
        (b'{"model":"other","keep_alive":0}', 200),
    ],
)
def test_a_peer_may_not_rule_over_the_memory_here(body: bytes, status: int) -> None:
    """Whatever a peer sends: it pins nothing, and drops nothing that a client here used a moment ago."""

    async def main() -> None:
        async with two() as (anna, ben, _, his):
            await ask(ben, TALK)
            his.requests.clear()
            context = tls.client_context(anna.identity, ben.identity.certificate)
            own = ("X-Pairproxy-Request: a", "X-Pairproxy-Attempt: 1", f"X-Pairproxy-Engine: {ENGINE}")
            client = await RawClient.open(ben.peer_port_number, ssl=context, server_hostname="")
            async with client:
                assert (await client.ask(request(GENERATE, body, *own))).status == status
            assert len(his.requests) == (status == 200)
            assert not [one for one in his.requests if b'"m:1"' in one.body and NOT_OURS.search(one.body)]

    run_async(main())
