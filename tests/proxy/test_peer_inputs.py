"""Group G: what a paired node may send, over real TLS connections, and what becomes of it.

The models of others that a peer would unload (G13) are in tests/proxy/test_unloading.py.
"""

import asyncio
import json

import pytest

from pairproxy.config import Limits
from pairproxy.core.events import RightsChanged
from pairproxy.core.models import Outcome, Rights
from pairproxy.core.rules import Rules
from pairproxy.peers.exchange import read_document
from pairproxy.security import tls
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.node import Node, identity
from tests.support.peer_calls import CHAT, STATE, ben_trusting_anna, call, sent
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async


@pytest.mark.parametrize("path", ["/api/pull", "/api/create", "/api/push", "/api/blobs/sha256:00"])
def test_g11_management_is_not_for_peers(path: str) -> None:
    """Refused before the body is read; the engine hears nothing."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            reply = await anna.ask(sent(path=path))
            assert (reply.status, reply.header("X-Pairproxy-Refused")) == (403, b"NotAllowed")
            assert engine.requests == []

    run_async(main())


def test_g12_nothing_in_a_request_sends_it_on() -> None:
    """Neither headers nor fields choose another place than this node's own engine, nor speak for others."""
    asked = (
        "X-Pairproxy-Node: CARL", "X-Pairproxy-Run: theirs", "X-Forwarded-Host: carl", "Forwarded: for=carl",
        "Via: 1.1 carl", "X-Pairproxy-Local: true",
    )  # fmt: skip

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            ben.hear_of(identity("carl"), slots=8)  # free, and faster than anybody
            body = {"model": "m:1", "node": "CARL", "api_base": "http://169.254.169.254/", "origin": "CARL"}
            assert (await anna.ask(sent(body, *asked, host="carl:1"))).status == 200
            (seen,) = engine.requests
            assert [name for name, _ in seen.headers if name.lower().startswith(b"x-")] == []
            (record,) = await ben.recorded()
            assert (record.origin, record.outcome) == (identity("anna").device_id, Outcome.DONE)

    run_async(main())


EXCESSIVE = [
    ("/v1/chat/completions", {"model": "m:1", "messages": [], "n": 100_000}),
    ("/v1/completions", {"model": "m:1", "prompt": "x", "best_of": 1e9}),
    ("/api/chat", {"model": "m:1", "options": {"num_ctx": 2**31}}),
    ("/api/chat", {"model": "m:1", "options": {"num_predict": 10**9}}),
]


@pytest.mark.parametrize(("path", "body"), EXCESSIVE)
def test_g13_what_would_fill_this_machine_is_refused(path: str, body: object) -> None:
    """400, and the engine hears nothing."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            reply = await anna.ask(sent(body, path=path))
            assert (reply.status, reply.header("X-Pairproxy-Refused")) == (400, b"BadRequest")
            assert engine.requests == []

    run_async(main())


@pytest.mark.parametrize(("asked", "given"), [(-1, "1h"), ("99h", "1h"), (0, "5m"), ("10m", "10m")])
def test_g13_a_peer_holds_no_memory_for_ever_and_throws_nobody_out(asked: object, given: str) -> None:
    """Its keep_alive is bounded, on both sides."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            messages = [{"role": "user", "content": "x"}]
            body = {"model": "m:1", "messages": messages, "keep_alive": asked}
            assert (await anna.ask(sent(body))).status == 200
            assert json.loads(engine.requests[0].body)["keep_alive"] == given

    run_async(main())


def test_g13_how_a_model_is_loaded_its_owner_says() -> None:
    """What Ollama would load it anew for does not reach it from a peer; the rest of the options does."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            options = {"num_gpu": 0, "num_thread": 1, "num_ctx": 512, "seed": 1}
            body = {"model": "m:1", "messages": [], "options": options}
            reply = await anna.ask(sent({**body, "messages": [{"role": "user", "content": "x"}]}))
            assert reply.status == 200
            assert json.loads(engine.requests[0].body)["options"] == {"num_ctx": 512, "seed": 1}
            escaped = sent({**body, "options": {"num-gpu-----": 1}}, number=2)
            escaped = escaped.replace(b"num-gpu-----", rb"num\u005fgpu")
            assert (await anna.ask(escaped)).status == 400

    run_async(main())


async def hang(_: ParsedRequest, connection: EngineConnection) -> None:
    """An engine that is at it for ever."""
    await connection.send(scripts.chunked_head() + scripts.chunk(b'{"message":{}}\n'))
    await asyncio.Event().wait()


def test_g14_a_peer_over_its_share_hears_how_things_are() -> None:
    """409 with a document that shows it its share; others and our own clients have the rest."""

    async def main() -> None:
        anna_id = identity("anna").device_id
        async with ben_trusting_anna(hang, slots=3) as (ben, engine):
            ben.dispatcher.tell(RightsChanged(ben.dispatcher.now(), {anna_id: Rights(slots=1)}))
            async with await call(ben) as anna, await call(ben) as again:
                await anna.send(sent(number=1))
                await anna.chunk(await anna.head())
                reply = await again.ask(sent(number=2))
                assert (reply.status, reply.header("X-Pairproxy-Refused")) == (409, b"SlotsTaken")
                (state,) = read_document(reply.body, ben.id).engines
                assert (state.slots, state.in_flight, state.yours) == (1, 1, 1)
                assert len(engine.requests) == 1
                anna.reset()
                await eventually(lambda: len(ben.scheduler.running) == 0)
                await again.send(sent(number=3))
                assert (await again.head()).status == 200

    run_async(main())


def test_models_that_a_peer_may_not_use_are_not_there_for_it() -> None:
    """Not in the state, not in the catalogue, not to be shown, not to be asked, not to be unloaded."""

    async def main() -> None:
        anna_id = identity("anna").device_id
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna, await call(ben) as heard:
            ben.dispatcher.tell(RightsChanged(ben.dispatcher.now(), {anna_id: Rights(models=("other*",))}))
            await heard.send(STATE)
            state = await heard.chunk(await heard.head())
            assert read_document(state.strip(), ben.id).engines == ()
            told = await anna.ask(request("GET /pairproxy/catalogue HTTP/1.1", None, host="x"))
            assert b"m:1" not in told.body
            for body, path in (
                ({"model": "m:1"}, "/api/chat"),
                ({"model": "m:1"}, "/api/show"),
            ):
                reply = await anna.ask(sent(body, path=path))
                assert (reply.status, reply.header("X-Pairproxy-Refused")) == (404, b"ModelNotFound"), path
            reply = await anna.ask(sent({"model": "m:1", "keep_alive": 0}, number=2))
            assert reply.status == 403
            assert engine.requests == []

    run_async(main())


def test_g15_a_body_over_a_peers_limit_is_refused_unread() -> None:
    """By its declared length, before a byte of it came; one without a length as soon as it is too long."""
    limits = Limits(peer_body_bytes=1000)
    head = (
        "POST /api/chat HTTP/1.1\r\nHost: x\r\nX-Pairproxy-Request: 1\r\nX-Pairproxy-Attempt: 1\r\n"
        "X-Pairproxy-Engine: engine\r\n"
    )

    async def main() -> None:
        async with ben_trusting_anna(limits=limits) as (ben, engine):
            for more in (
                b"Content-Length: 1001\r\n\r\n",
                b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001 + b"\r\n",
            ):
                async with await call(ben) as anna:
                    await anna.send(head.encode() + more)
                    reply = await anna.reply()
                    assert (reply.status, reply.header("X-Pairproxy-Refused")) == (413, b"BodyTooLarge")
            assert engine.requests == []

    run_async(main())


def test_g15_what_is_too_large_for_a_peer_runs_where_it_came() -> None:
    """The client gets its answer from the node it asked, and the peer is used for the next small one."""

    async def main() -> None:
        go_on = asyncio.Event()

        async def first_hangs(sent_to: ParsedRequest, connection: EngineConnection) -> None:
            if b"first" in sent_to.body:
                await go_on.wait()
            await CHAT(sent_to, connection)

        small = Limits(peer_body_bytes=1000)
        async with (
            FakeEngine(first_hangs) as hers,
            FakeEngine(CHAT) as his,
            Node(his, name="ben", limits=small) as ben,
            Node(hers, rules=Rules("least-busy")) as anna,
        ):
            await anna.pair(ben)
            clients = [await RawClient.open(anna.port) for _ in range(3)]
            await clients[0].send(request(body=b'{"model":"m:1","messages":[],"x":"first"}'))
            await eventually(lambda: len(hers.requests) == 1)
            large = b'{"model":"m:1","messages":[],"x":"%s"}' % (b"y" * 2000)
            await clients[1].send(request(body=large))
            await eventually(lambda: anna.scheduler.waiting == 1)  # ben has refused it
            assert (await clients[2].ask(request(body=b'{"model":"m:1","messages":[]}'))).status == 200
            assert [len(one.body) for one in his.requests] == [29]
            go_on.set()
            for client in clients[:2]:
                assert (await client.reply()).status == 200
            assert [len(one.body) for one in hers.requests] == [41, len(large)]
            for client in clients:
                client.leave()

    run_async(main())


def test_g16_an_attempt_that_comes_twice_is_served_once() -> None:
    """The second is refused also after the first has ended; another attempt of the same request is not."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            assert (await anna.ask(sent(number=7))).status == 200
            assert (await anna.ask(sent(number=7))).status == 409
            again = sent(number=7).replace(b"Attempt: 1", b"Attempt: 2")
            assert (await anna.ask(again)).status == 200
            assert len(engine.requests) == 2

    run_async(main())


@pytest.mark.parametrize("host", ["[fe80::1%25e0]:11634", "[fe80::1%e0]:11634", "anything"])
def test_g17_the_name_by_which_a_peer_calls_us_does_not_matter(host: str) -> None:
    """The certificate is the name."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            assert (await anna.ask(sent(host=host))).status == 200
            assert engine.requests[0].header("Host") == b"engine.test"

    run_async(main())


def test_f42_a_node_of_another_protocol_hears_which_one_is_spoken_here() -> None:
    """It gets nothing else, and can tell its owner which of the two machines needs an update."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine):
            for protocols in ([], ["pairproxy/2"]):
                context = tls.client_context(identity("anna"), ben.identity.certificate)
                context.set_alpn_protocols(protocols)
                async with await RawClient.open(
                    ben.peer_port_number, ssl=context, server_hostname=""
                ) as newer:
                    reply = await newer.ask(sent())
                    assert (reply.status, reply.body) == (403, b"")
                    assert reply.header("X-Pairproxy-Refused") == b"ProtocolDiffers"
                    assert reply.header("X-Pairproxy-Protocol") == b"1"
            assert engine.requests == []

    run_async(main())
