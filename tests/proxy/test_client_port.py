"""Which requests may leave this machine, what is recorded of them, and what the port itself answers."""

import gzip
import json
import re

import pytest

from pairproxy.config import Limits
from pairproxy.core.dialects import reading
from pairproxy.core.models import Dialect, ModelName, Outcome, Replica, RequestId, Usage
from pairproxy.core.rules import Rules
from tests.proxy.test_forward import BEN, HERE, MUCH_FASTER, THERE, ask, beside_peer
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import FakeEngine, Script, eventually
from tests.support.node import ENGINE, MODEL, Node, node_before
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

CHAT = "POST /api/chat HTTP/1.1"
V1 = "POST /v1/chat/completions HTTP/1.1"

STAYING = {
    "by wish": request(CHAT, b'{"model":"m:1"}', "X-Pairproxy-Local: true"),
    "no model": request(CHAT, b'{"messages":[]}'),
    "two models": request(CHAT, b'{"model":"m:1","MODEL":"m:2"}'),
    "no JSON": request(CHAT, b"model=m:1"),
    "compressed": request(CHAT, gzip.compress(b'{"model":"m:1"}'), "Content-Encoding: gzip"),
    "said to be compressed": request(CHAT, b'{"model":"m:1"}', "Content-Encoding: br"),
    "HTTP/1.0": request("POST /api/chat HTTP/1.0", b'{"model":"m:1"}'),
    "another model": request(CHAT, b'{"model":"unknown:1"}'),
    "a route of this engine": request("POST /api/show HTTP/1.1", b'{"model":"m:1"}'),
    "an upload": request("POST /api/blobs/sha256:x HTTP/1.1", b"x"),
    "another spelling of the path": request("POST /api//chat HTTP/1.1", b'{"model":"m:1"}'),
    "another method": request("PUT /api/chat HTTP/1.1", b'{"model":"m:1"}'),
}


@pytest.mark.parametrize("sent", STAYING.values(), ids=STAYING.keys())
def test_what_may_not_leave_stays(sent: bytes) -> None:
    """The engine of this port answers, though a peer that has the model would be faster."""

    async def main() -> None:
        async with beside_peer(THERE) as (node, engine, peer):
            reply = await ask(node, sent)
            assert (reply.status, len(engine.requests), peer.connections) == (200, 1, [])

    run_async(main())


@pytest.mark.parametrize(
    "line", [CHAT, V1, "POST /api/generate?x=1 HTTP/1.1", "POST /v1/embeddings HTTP/1.1"]
)
def test_inference_goes_where_it_is_finished_first(line: str) -> None:
    """The whole request goes to one peer, its target unchanged, with our account of it."""

    async def main() -> None:
        async with beside_peer(THERE) as (node, engine, peer):
            assert (await ask(node, request(line))).body.startswith(b'{"from": "there"}')
            assert engine.requests == []
            (seen,) = peer.requests
            assert seen.target == line.split()[1]
            (record,) = await node.recorded()
            assert seen.header("X-Pairproxy-Request") == record.id.encode()
            assert seen.header("X-Pairproxy-Attempt") == b"1"
            assert seen.header("X-Pairproxy-Engine") == b"engine"

    run_async(main())


def test_a_model_that_only_a_peer_has_is_served_there() -> None:
    """This node's engine is not asked for it."""

    async def main() -> None:
        other = Replica(ModelName("other:1"), "sha256:2")
        async with (
            FakeEngine(HERE) as hers,
            FakeEngine(THERE) as his,
            Node(his, name="ben", models=(other,)) as ben,
            Node(hers) as anna,
        ):
            await anna.pair(ben)
            reply = await ask(anna, request(CHAT, b'{"model":"other:1"}'))
            assert reply.body.startswith(b'{"from": "there"}')
            assert hers.requests == []

    run_async(main())


def test_the_engine_of_this_port_may_be_down() -> None:
    """Inference goes on elsewhere; what only this engine knows is 502 in the words of its clients."""

    async def main() -> None:
        async with beside_peer(THERE) as (node, engine, _):
            engine.stop_listening()
            node.hear_of(BEN, rates=MUCH_FASTER)
            assert (await ask(node)).body.startswith(b'{"from": "there"}')
            tags = await ask(node, request("GET /api/tags HTTP/1.1", None))
            models = await ask(node, request("GET /v1/models HTTP/1.1", None))
            assert (tags.status, models.status) == (502, 502)
            assert isinstance(tags.json()["error"], str)
            assert models.json()["error"]["type"] == "api_error"

    run_async(main())


def test_what_is_recorded_of_a_request_is_what_choosing_needed() -> None:
    """Model, dialect, path, run and usage; the prompt only as a number of tokens."""

    async def main() -> None:
        usage = {"prompt_eval_count": 7, "eval_count": 3, "eval_duration": 30_000_000}
        async with node_before(scripts.ollama_chat([{"done": True, **usage}])) as (node, _):
            async with await RawClient.open(node.port) as client:
                named = ("X-Pairproxy-Run: my job", "X-Pairproxy-Chain: scout 1")
                await client.ask(request(CHAT, b'{"model":"M:1"}', *named))
                await client.ask(request(V1, b'{"model":"m:1"}', "X-Pairproxy-Run: " + "r" * 99))
                await client.ask(request(CHAT, b'{"model":"m:1"}', "X-Pairproxy-Run: a\x85b"))
            first, second, third = await node.recorded(3)
            assert (first.model, first.dialect, first.path, first.run) == (
                ModelName("m:1"), Dialect.OLLAMA, "/api/chat", "my job"
            )  # fmt: skip
            assert (first.chain, second.chain) == ("scout 1", "")
            assert (second.dialect, second.run, third.run) == (Dialect.OPENAI, "r" * 64, None)
            assert first.usage == Usage(prompt_tokens=7, output_tokens=3, decode_s=0.03)
            assert (first.client, first.origin, first.outcome) == ("127.0.0.1", None, Outcome.DONE)

    run_async(main())


def test_a_full_queue_says_when_to_come_again() -> None:
    """503 with Retry-After, in the words of the API that was called."""

    async def main() -> None:
        async with node_before(scripts.raw(then="hang"), rules=Rules(queue_limit=1)) as (node, engine):
            running, waiting = await RawClient.open(node.port), await RawClient.open(node.port)
            await running.send(request())
            await eventually(lambda: len(engine.requests) == 1)
            await waiting.send(request())
            await eventually(lambda: node.scheduler.waiting == 1)
            reply = await ask(node, request(V1))
            assert reply.status == 503
            assert int(reply.header("Retry-After") or b"0") >= 1
            assert reply.json()["error"]["type"] == "api_error"
            running.leave()
            waiting.leave()

    run_async(main())


def test_a_body_that_is_too_large_is_refused_before_it_comes() -> None:
    """413 for inference; an upload to this engine has no such limit."""

    async def main() -> None:
        async with node_before(scripts.json_reply({}), limits=Limits(body_bytes=1000)) as (node, engine):
            reply = await ask(node, request(CHAT, b"x" * 1001))
            assert (reply.status, engine.requests) == (413, [])
            assert (await ask(node, request("POST /api/blobs/x HTTP/1.1", b"x" * 1001))).status == 200

    run_async(main())


def test_nothing_is_added_to_a_reply_unless_asked_for() -> None:
    """With debug.headers the reply says who served it, after how many attempts and how long a wait."""

    async def main() -> None:
        for shows in (False, True):
            async with node_before(scripts.json_reply({}), shows_headers=shows) as (node, _):
                reply = await ask(node)
                shown = {name: value for name, value in reply.headers if name.startswith(b"X-Pairproxy-")}
                if not shows:
                    assert shown == {}
                    continue
                (record,) = await node.recorded()
                assert re.fullmatch(rb"\d+\.\d{3}", shown.pop(b"X-Pairproxy-Queue-Seconds"))
                assert shown == {
                    b"X-Pairproxy-Node": node.id.encode(),
                    b"X-Pairproxy-Request": record.id.encode(),
                    b"X-Pairproxy-Attempts": b"1",
                }

    run_async(main())


@pytest.mark.parametrize(
    ("script", "is_held"), [(HERE, True), (scripts.json_reply({"error": "it is too long"}, 400), False)]
)
def test_a_prompt_that_its_engine_refused_is_not_in_its_cache(script: Script, is_held: bool) -> None:
    """Else the next one like it would be sent there to be refused, too."""

    async def main() -> None:
        body = json.dumps({"model": "m:1", "messages": [{"role": "user", "content": "word " * 400}]}).encode()
        prefix = reading.read(RequestId("r"), "/api/chat", body).prefix
        async with node_before(script) as (node, _):
            await ask(node, request(CHAT, body))
            assert (node.scheduler.local.prefixes.matched(ENGINE, MODEL, prefix) > 0) is is_held

    run_async(main())
