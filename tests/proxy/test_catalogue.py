import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from pairproxy.core.documents import CatalogueEntry, Listing
from pairproxy.core.events import NodeReported
from pairproxy.core.models import ModelName
from pairproxy.engines.catalogue import entries_of
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import FakeEngine
from tests.support.listings import BENS, COPY, JSON, MINE, NEW, OLD, get, nodes, reply, scene, tags
from tests.support.node import Node, identity
from tests.support.running import run_async

# --- merged ---------------------------------------------------------------------------------------------


def test_her_entries_come_first_byte_for_byte_then_his_newest_first() -> None:
    """The engine's own are as it wrote them; a model that both have is hers; nobody asks ben for it."""
    answer = scene(reply(tags(MINE)), "/api/tags")
    assert answer.body == tags(MINE, NEW, OLD).encode()
    assert answer.header("Content-Length") == str(len(answer.body)).encode()
    assert answer.header("Transfer-Encoding") is None


def test_the_head_of_a_merged_reply_is_the_engines() -> None:
    """Its own headers stay, also those that only it knows; what speaks of its own body goes."""
    answer = scene(reply(tags(MINE), ("X-Engine", "yes"), ("ETag", '"1"')), "/api/tags")
    assert answer.status_line == b"HTTP/1.1 200 OK"
    assert answer.header("X-Engine") == b"yes"
    assert answer.header("Content-Type") == JSON[1].encode()
    assert answer.header("ETag") is None


def test_a_head_request_says_how_long_the_merged_list_is() -> None:
    """HEAD has the length of what GET would give, and no body."""
    answer = scene(reply(tags(MINE)), "/api/tags", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("Content-Length") == str(len(tags(MINE, NEW, OLD))).encode()


def test_a_client_that_has_the_engines_list_gets_the_merged_one() -> None:
    """A conditional request would be answered with 304 for a list that is not the whole."""

    async def main() -> None:
        async with nodes(reply(tags(MINE))) as (anna, hers, _):
            assert (await get(anna.port, "/api/tags", 'If-None-Match: "1"')).body == tags(
                MINE, NEW, OLD
            ).encode()
            assert hers.requests[-1].header("If-None-Match") is None

    run_async(main())


def test_the_openai_list_holds_what_can_be_shown() -> None:
    """At Ollama's port /v1/models is the same set as /api/tags; at others it needs no show."""
    hers = reply('{"object":"list","data":null}')
    answer = scene(hers, "/v1/models")
    assert answer.json()["data"] == [{"id": "old:1", "created": 1}, {"id": "new:1", "created": 2}]
    assert scene(hers, "/v1/models", kind="lmstudio").body == b'{"object":"list","data":null}'
    assert [
        one["id"] for one in scene(hers, "/v1/models", kind="lmstudio", engine_kind="llamacpp").json()["data"]
    ] == [
        "old:1",
        "new:1",
    ]


def test_the_loaded_ones_are_listed_once_and_the_longest_first() -> None:
    """/api/ps is a union by name; of two peers' the entry counts that stays loaded longer."""
    soon = CatalogueEntry(
        ModelName("m:1"), tags='{"name":"m:1"}', ps='{"name":"m:1","expires_at":"2026-01-01T00:00:00Z"}'
    )
    late = CatalogueEntry(
        ModelName("n:1"), tags='{"name":"n:1"}', ps='{"name":"n:1","expires_at":"2318-01-01T00:00:00Z"}'
    )
    answer = scene(reply(tags()), "/api/ps", bens=(soon, late))
    assert [one["name"] for one in answer.json()["models"]] == ["n:1", "m:1"]


@pytest.mark.parametrize(
    ("path", "hers", "entry", "key"),
    [
        (
            "/api/v0/models",
            '{"object":"list","data":[{"id":"a"}]}',
            {"v0": '{"id":"b:1","state":"loaded"}'},
            "data",
        ),
        ("/api/v1/models", '{"models":[{"key":"a"}]}', {"v1": '{"key":"b:1","type":"llm"}'}, "models"),
    ],
)
def test_the_lists_of_lm_studio(path: str, hers: str, entry: dict[str, str], key: str) -> None:
    """They grow by what another LM Studio lists, and never by anything translated from Ollama's."""
    b = CatalogueEntry(ModelName("b:1"), **entry)
    both = scene(reply(hers), path, bens=(*BENS, b), kind="lmstudio", engine_kind="lmstudio").json()
    (text,) = entry.values()
    assert both[key][1:] == [json.loads(text)]
    assert scene(reply(hers), path, bens=BENS).body == hers.encode()


# --- who is there ---------------------------------------------------------------------------------------


def test_a_peer_that_is_gone_is_not_listed_and_costs_no_time() -> None:
    """Lists come from memory: one that never answers delays nothing, and one that is lost is not listed."""

    async def main() -> None:
        hanging = scripts.raw(then="hang")
        async with nodes(reply(tags(MINE)), his=hanging) as (anna, _, his):
            assert (await get(anna.port, "/api/tags")).body == tags(MINE, NEW, OLD).encode()
            (ben,) = [document.node for document, _ in anna.scheduler.nodes.documents(0.0)]
            assert his.connections == []
            anna.scheduler.nodes.lose(ben)
            assert (await get(anna.port, "/api/tags")).body == tags(MINE).encode()

    run_async(main())


def test_a_model_that_a_peer_dropped_is_not_listed() -> None:
    """What its state document no longer names is gone before its new catalogue is here."""

    async def main() -> None:
        async with nodes(reply(tags(MINE))) as (anna, _, _):
            view = next(document for document, _ in anna.scheduler.nodes.documents(0.0))
            held = anna.scheduler.nodes.catalogues.content(view.node)
            engines = tuple(replace(one, replicas=one.replicas[:1]) for one in view.engines)
            less = replace(view, engines=engines, sequence=view.sequence + 1000)
            anna.dispatcher.tell(NodeReported(anna.dispatcher.now(), less))
            assert anna.scheduler.nodes.catalogues.content(view.node) == held
            assert (await get(anna.port, "/api/tags")).body == tags(MINE, OLD).encode()

    run_async(main())


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_without_the_engine_the_peers_models_are_listed(method: str) -> None:
    """Its port stands for all of them; with no peers either, it fails as it did."""

    async def main() -> None:
        async with nodes(reply(tags(MINE))) as (anna, hers, _):
            hers.stop_listening()
            answer = await get(anna.port, "/api/tags", method=method)
            assert answer.status == 200
            whole = b"" if method == "HEAD" else tags(COPY, NEW, OLD).encode()
            assert answer.body == whole
            (ben,) = [document.node for document, _ in anna.scheduler.nodes.documents(0.0)]
            anna.scheduler.nodes.lose(ben)
            assert (await get(anna.port, "/api/tags", method=method)).status == 502

    run_async(main())


# --- one entry ------------------------------------------------------------------------------------------

MISSING = reply('{"error":{"message":"model not found"}}', ("X-Engine", "yes"), status=404)


def test_one_entry_of_a_peers_model() -> None:
    """What the engine does not know is answered from memory; slashes in names come encoded."""
    answer = scene(MISSING, "/v1/models/new:1")
    assert (answer.status, answer.body) == (200, b'{"id":"new:1","created":2}')
    assert answer.header("X-Engine") == b"yes"
    hub = CatalogueEntry(
        ModelName("hf.co/a/b:q4"), tags='{"name":"hf.co/a/B:Q4"}', openai='{"id":"hf.co/a/B:Q4"}'
    )
    assert scene(MISSING, "/v1/models/hf.co%2Fa%2FB:Q4", bens=(hub,)).json() == {"id": "hf.co/a/B:Q4"}
    studio = CatalogueEntry(ModelName("b:latest"), v0='{"id":"b","type":"llm"}')
    unknown = reply('{"error":"Unexpected endpoint or method. (GET /api/v0/models/b)"}')
    options: dict[str, Any] = {"bens": (studio,), "kind": "lmstudio", "engine_kind": "lmstudio"}
    assert scene(unknown, "/api/v0/models/b", **options).json() == {"id": "b", "type": "llm"}


def test_one_entry_that_the_engine_has_or_nobody() -> None:
    """The engine's answer counts, byte for byte, and its 404 for what no node has."""
    hers = reply('{"id":"new:1", "created":99}')
    assert scene(hers, "/v1/models/new:1").body == b'{"id":"new:1", "created":99}'
    assert scene(MISSING, "/v1/models/nobody:1").status == 404
    assert scene(MISSING, "/v1/models/").status == 404


def test_one_entry_without_the_engine() -> None:
    """A peer's is still told."""

    async def main() -> None:
        async with nodes(reply("{}")) as (anna, hers, _):
            hers.stop_listening()
            assert (await get(anna.port, "/v1/models/new:1")).json() == {"id": "new:1", "created": 2}

    run_async(main())


# --- both ways ------------------------------------------------------------------------------------------


def test_many_clients_at_once_get_the_same_list() -> None:
    """Nothing is shared between two requests."""

    async def main() -> None:
        async with nodes(reply(tags(MINE))) as (anna, _, _):
            answers = await asyncio.gather(*(get(anna.port, "/api/tags") for _ in range(16)))
            assert {answer.body for answer in answers} == {tags(MINE, NEW, OLD).encode()}

    run_async(main())


def test_own_is_what_the_engines_reported() -> None:
    """What peers are told is what probing the engines found."""

    async def main() -> None:
        listed = entries_of([ModelName("new:1")], {Listing.TAGS: {ModelName("new:1"): NEW}})
        async with FakeEngine(reply("{}")) as engine, Node(engine, catalogue=listed) as node:
            told = json.loads(node.catalogue.own(identity("ben").device_id))
            assert told["node"] == node.id
            assert told["engines"][0]["entries"][0]["tags"] == NEW

    run_async(main())
