import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pairproxy.core.documents import CatalogueEntry
from pairproxy.core.events import DrainStarted, NodeReported
from pairproxy.core.models import ModelName, Replica
from pairproxy.core.rules import Rules
from pairproxy.proxy import show as module
from pairproxy.security import tls
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script
from tests.support.node import Node, identity
from tests.support.raw_client import RawClient, RawReply, request, without_hop_by_hop
from tests.support.running import run_async

pytestmark = pytest.mark.timed

NEW = CatalogueEntry(ModelName("new:1"), tags='{"name":"new:1"}')
MISSING = b'{"error":"model \'new:1\' not found"}'
NEW_SHOWN = b'{"modelfile":"FROM x" , "capabilities":["completion"]}'
ASKED = b'{"model":"new:1","verbose":false}'


def shows(models: dict[str, bytes]) -> Script:
    """An Ollama that can show these models."""

    async def script(asked: ParsedRequest, connection: EngineConnection) -> None:
        named = asked.json()
        known = models.get(named.get("model") or named.get("name"))
        body, status = (MISSING, 404) if known is None else (known, 200)
        kind = ("Content-Type", "application/json; charset=utf-8")
        length = ("Content-Length", str(len(body)))
        await connection.send(scripts.head(status, kind, ("X-Engine", "yes"), length) + body)

    return script


@contextlib.asynccontextmanager
async def nodes(
    his: Script, hers: Script | None = None, **options: Any
) -> AsyncIterator[tuple[Node, Node, FakeEngine, FakeEngine]]:
    """Anna, who has only mine:1, may use ben, who has new:1: (anna, ben, her engine, his engine)."""
    hers = hers or shows({"mine:1": b'{"mine":true}'})
    replica = Replica(NEW.model, "sha256:x")
    async with (
        FakeEngine(hers) as her_engine,
        FakeEngine(his) as his_engine,
        Node(his_engine, name="ben", models=(replica,), catalogue=(NEW,)) as ben,
        Node(her_engine, models=(), **options) as anna,
    ):
        await anna.pair(ben)
        yield anna, ben, her_engine, his_engine


async def ask(port: int, body: bytes = ASKED, *headers: str) -> RawReply:
    """Ask a port to show a model."""
    async with await RawClient.open(port) as client:
        return await client.ask(request("POST /api/show HTTP/1.1", body, *headers))


def scene(his: Script, body: bytes = ASKED, *headers: str, **options: Any) -> tuple[RawReply, int]:
    """The reply of anna's port, and how often ben's engine was asked."""

    async def main() -> tuple[RawReply, int]:
        async with nodes(his, **options) as (anna, _, _, his_engine):
            return await ask(anna.port, body, *headers), len(his_engine.requests)

    return run_async(main())


@pytest.mark.parametrize("body", [ASKED, b'{"name":"NEW:1"}', b'{"model":"","name":"library/new:1"}'])
def test_a_model_of_a_peer_is_shown_by_it(body: bytes) -> None:
    """Whatever Ollama takes for its name; its answer comes as it is, with the local engine's headers."""
    reply, asked = scene(shows(dict.fromkeys(("new:1", "NEW:1", "library/new:1"), NEW_SHOWN)), body)
    assert (reply.status, reply.body, asked) == (200, NEW_SHOWN, 1)
    assert reply.header("Content-Type") == b"application/json; charset=utf-8"
    assert reply.header("X-Engine") == b"yes"


def test_what_the_engine_has_itself_no_peer_is_asked_for() -> None:
    """Its answer goes to the client byte for byte."""

    async def main() -> None:
        async with nodes(shows({})) as (anna, _, engine, his):
            body = b'{"model":"mine:1"}'
            direct, through = await ask(engine.port, body), await ask(anna.port, body)
            assert (through.status_line, through.raw) == (direct.status_line, direct.raw)
            assert without_hop_by_hop(through.headers) == without_hop_by_hop(direct.headers)
            assert his.requests == []

    run_async(main())


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"model":"nobody:1"}', ()),
        (b'{"model":"new:1","Model":"new:1"}', ()),
        (ASKED, ("X-Pairproxy-Local: true",)),
    ],
)
def test_what_no_peer_may_or_can_answer_stays_with_the_engine(body: bytes, headers: tuple[str, ...]) -> None:
    """A model that nobody has, a body that can be read in two ways, and a client that wants it so."""
    reply, asked = scene(shows({"new:1": NEW_SHOWN}), body, *headers)
    assert (reply.status, reply.body, asked) == (404, MISSING, 0)


@pytest.mark.parametrize("options", [{"is_merged": False}, {"rules": Rules(local_only=("new*",))}])
def test_settings_keep_it_here(options: dict[str, Any]) -> None:
    """catalogue = "local" and models that may not leave."""
    reply, asked = scene(shows({"new:1": NEW_SHOWN}), **options)
    assert (reply.status, asked) == (404, 0)


def test_the_user_agent_goes_along_and_nothing_else_new() -> None:
    """Ollama's answer to GitHub Copilot depends on it; cookies and keys stay."""

    async def main() -> None:
        async with nodes(shows({"new:1": NEW_SHOWN})) as (anna, _, _, his):
            await ask(
                anna.port, ASKED, "User-Agent: GitHubCopilotChat/1", "Cookie: c", "Authorization: Bearer k"
            )
            (asked,) = his.requests
            assert {name.lower() for name, _ in asked.headers} == {b"host", b"content-length", b"user-agent"}
            assert asked.header("User-Agent") == b"GitHubCopilotChat/1"
            assert asked.header("Host") == b"engine.test"
            assert asked.body == ASKED

    run_async(main())


@pytest.mark.parametrize(
    "his",
    [
        scripts.json_reply({"error": "no"}, 500),
        scripts.raw(then="reset"),
        scripts.raw(scripts.chunked_head("application/json") + scripts.chunk(b"{"), then="close"),
        scripts.raw(scripts.head(200, ("Content-Type", "text/html"), ("Content-Length", "1")) + b"x"),
        scripts.raw(then="hang"),
    ],
    ids=["an error", "a reset", "half an answer", "a page", "silence"],
)
def test_a_peer_that_fails_leaves_the_engines_own_answer(
    his: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client hears that the model is not here, as if there was no peer, and waits for no silent one."""
    monkeypatch.setattr(module, "PEER_S", 0.3)
    reply, asked = scene(his)
    assert (reply.status, reply.body, asked) == (404, MISSING, 1)


def test_the_next_peer_is_asked_where_one_fails() -> None:
    """Two have the model; whichever fails, the other shows it."""

    async def main() -> None:
        replica = Replica(NEW.model, "sha256:x")
        for number, good in enumerate(("ben", "carl")):
            scripts_of = {
                name: shows({"new:1": NEW_SHOWN}) if name == good else scripts.json_reply({}, 503)
                for name in ("ben", "carl")
            }
            async with (
                FakeEngine(shows({})) as hers,
                FakeEngine(scripts_of["ben"]) as bens,
                FakeEngine(scripts_of["carl"]) as carls,
                Node(bens, name="ben", models=(replica,), catalogue=(NEW,)) as ben,
                Node(carls, name="carl", models=(replica,), catalogue=(NEW,)) as carl,
                Node(hers, models=()) as anna,
            ):
                await anna.pair(ben)
                await anna.pair(carl)
                assert (await ask(anna.port)).body == NEW_SHOWN, number

    run_async(main())


def test_without_the_engine_a_peer_still_shows_its_model() -> None:
    """And what no peer has fails as it would without peers."""

    async def main() -> None:
        async with nodes(shows({"new:1": NEW_SHOWN})) as (anna, _, hers, _):
            hers.stop_listening()
            assert (await ask(anna.port)).body == NEW_SHOWN
            assert (await ask(anna.port, b'{"model":"mine:1"}')).status == 502

    run_async(main())


def test_a_chunked_question_stays_chunked_for_the_engine_and_goes_whole_to_the_peer() -> None:
    """Each gets what it would get from anybody."""

    async def main() -> None:
        async with nodes(shows({"new:1": NEW_SHOWN})) as (anna, _, hers, his):
            body = scripts.chunk(ASKED) + scripts.LAST_CHUNK
            assert (await ask(anna.port, body, "Transfer-Encoding: chunked")).body == NEW_SHOWN
            assert hers.requests[0].header("Transfer-Encoding") == b"chunked"
            assert his.requests[0].header("Content-Length") == str(len(ASKED)).encode()

    run_async(main())


def test_a_peer_that_is_draining_or_gone_is_not_asked() -> None:
    """Only who takes requests now shows models."""

    async def main() -> None:
        async with nodes(shows({"new:1": NEW_SHOWN})) as (anna, ben, _, his):
            ben.dispatcher.tell(DrainStarted(ben.dispatcher.now()))
            anna.hear(ben)
            assert (await ask(anna.port)).status == 404
            assert his.requests == []

    run_async(main())


# --- the peer's end -------------------------------------------------------------------------------------


async def as_peer(ben: Node, line: str, body: bytes | None, *headers: str) -> RawReply:
    """What anna's node is answered at ben's peer port."""
    context = tls.client_context(identity("anna"), ben.identity.certificate)
    async with await RawClient.open(ben.peer_port_number, ssl=context, server_hostname="") as anna:
        return await anna.ask(request(line, body, *headers, host="pairproxy"))


@pytest.mark.parametrize(
    ("body", "engine"),
    [
        (b'{"model":"secret:1"}', "engine"),
        (ASKED, "other"),
        (b"no json", "engine"),
        (b'{"model":1}', "engine"),
    ],
)
def test_a_peer_is_shown_only_what_an_engine_here_lists(body: bytes, engine: str) -> None:
    """Anything else is refused without asking the engine."""

    async def main() -> None:
        async with nodes(shows({"secret:1": b"{}", "new:1": NEW_SHOWN})) as (_, ben, _, his):
            told = f"X-Pairproxy-Engine: {engine}"
            reply = await as_peer(ben, "POST /api/show HTTP/1.1", body, told)
            assert (reply.status, reply.header("X-Pairproxy-Refused")) == (404, b"ModelNotFound")
            assert his.requests == []
            reply = await as_peer(ben, "POST /api/show HTTP/1.1", ASKED, "X-Pairproxy-Engine: engine")
            assert (reply.status, reply.body) == (200, NEW_SHOWN)

    run_async(main())


def test_a_peer_gets_the_whole_catalogue_and_its_name() -> None:
    """GET /pairproxy/catalogue is what the state document names, and only that path and method."""

    async def main() -> None:
        async with nodes(shows({})) as (anna, ben, _, _):
            reply = await as_peer(ben, "GET /pairproxy/catalogue HTTP/1.1", None)
            told = json.loads(reply.body)
            assert (reply.status, told["node"]) == (200, ben.id)
            assert told["engines"][0]["entries"][0]["tags"] == NEW.tags
            assert told["content"] == anna.scheduler.nodes.catalogues.content(ben.id)
            for line in (
                "POST /pairproxy/catalogue",
                "GET /pairproxy/catalogue/",
                "GET /api/tags",
                "GET /api/show",
            ):
                body = b"{}" if line.startswith("POST") else None
                assert (await as_peer(ben, f"{line} HTTP/1.1", body)).status == 403

    run_async(main())


def test_the_state_document_names_the_catalogue() -> None:
    """A reader sees there, and only there, that it changed."""

    async def main() -> None:
        async with nodes(shows({})) as (anna, ben, _, _):
            events: list[str] = []
            anna.dispatcher.listen(
                lambda event, _: (
                    events.append(event.document.catalogue) if isinstance(event, NodeReported) else None
                )
            )
            anna.hear(ben)
            assert events == [ben.scheduler.local.catalogue().content]

    run_async(main())
