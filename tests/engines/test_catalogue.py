import json
from typing import Any

import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.catalogue import ENTRY_BYTES, PATHS, listed_name
from pairproxy.core.documents import CatalogueEntry, EngineReport, Listing
from pairproxy.core.models import ModelName
from pairproxy.engines.catalogue import TRIES, card_entry
from pairproxy.engines.embedded_model import model_card
from pairproxy.engines.found import FoundEngine
from pairproxy.engines.llamacpp import LlamaCppEngine
from pairproxy.engines.lmstudio import LmStudioEngine
from pairproxy.engines.ollama import OllamaEngine
from pairproxy.engines.openai import OpenAiEngine
from tests.support.running import run_async
from tests.support.scripted_engine import ScriptedEngine, serving

# An entry with spaces, escapes and an unknown key: what is told has to be this text, not what it means.
TAGS_ENTRY = '{"name":"Qwen3:8b" , "digest":"%s","size":1.50,"later\\u00e9":[1, 2]}' % ("a" * 64)
PS_ENTRY = '{"name":"qwen3:8b","digest":"%s", "expires_at":"2026-01-01T00:00:00Z"}' % ("a" * 64)
OPENAI_ENTRY = '{"id":"qwen3:8b","object":"model","created":5,"owned_by":"library"}'
OLLAMA: dict[str, Any] = {
    "/api/version": {"version": "0.33.0"},
    "/api/tags": b'{"models":[%s]}' % TAGS_ENTRY.encode(),
    "/api/ps": b'{"models":[%s]}' % PS_ENTRY.encode(),
    "/v1/models": b'{"object":"list","data":[ %s ]}' % OPENAI_ENTRY.encode(),
}
V0 = {
    "id": "qwen/q",
    "publisher": "qwen",
    "arch": "a",
    "compatibility_type": "gguf",
    "quantization": "Q4",
    "max_context_length": 4096,
    "state": "not-loaded",
}
LMSTUDIO: dict[str, Any] = {
    "/api/v0/models": {"data": [V0]},
    "/api/v1/models": {"models": [{"key": "qwen/q", "type": "llm"}]},
    "/v1/models": {"data": [{"id": "qwen/q", "object": "model"}]},
}


def probes(kind: Any, engine: ScriptedEngine, times: int = 1) -> list[EngineReport]:
    """The reports of so many probes of one engine of this class."""

    async def scene() -> list[EngineReport]:
        async with serving(engine):
            url = f"http://127.0.0.1:{engine.port}"
            found: FoundEngine = kind(EngineSettings(kind=kind.kind, url=url))
            return [await found.probe() for _ in range(times)]

    return run_async(scene())


def test_an_ollama_tells_its_entries_byte_for_byte() -> None:
    """Spaces, number formats, escapes and keys that nobody knows stay as the engine wrote them."""
    (report,) = probes(OllamaEngine, ScriptedEngine(OLLAMA))
    assert report.catalogue == (
        CatalogueEntry(ModelName("qwen3:8b"), tags=TAGS_ENTRY, ps=PS_ENTRY, openai=OPENAI_ENTRY),
    )


def test_an_lm_studio_tells_all_three_of_its_listings_and_none_of_ollama() -> None:
    """v0, v1 and OpenAI's; a listing it does not have is None."""
    (report,) = probes(LmStudioEngine, ScriptedEngine(LMSTUDIO))
    (entry,) = report.catalogue
    assert (json.loads(entry.v0 or ""), json.loads(entry.v1 or "")) == (V0, {"key": "qwen/q", "type": "llm"})
    assert json.loads(entry.openai or "") == {"id": "qwen/q", "object": "model"}
    assert (entry.tags, entry.ps) == (None, None)


def test_a_cloud_model_is_in_no_catalogue() -> None:
    """It runs on this person's account; other nodes must not even offer it."""
    cloud = {"name": "big:cloud", "digest": "b" * 64}
    hosted = {"name": "other", "digest": "c" * 64, "remote_host": "https://example.com"}
    (report,) = probes(OllamaEngine, ScriptedEngine({**OLLAMA, "/api/tags": {"models": [cloud, hosted]}}))
    assert report.catalogue == ()


def test_a_listing_that_is_missing_costs_nothing_but_its_entries() -> None:
    """An engine without /v1/models is probed as before, and is not asked for it again and again."""
    without = ScriptedEngine({path: reply for path, reply in OLLAMA.items() if path != "/v1/models"})
    reports = probes(OllamaEngine, without, times=TRIES + 3)
    assert [report.catalogue[0].openai for report in reports] == [None] * (TRIES + 3)
    assert without.asked.count("/v1/models") == TRIES


def test_what_the_probe_does_not_need_is_asked_only_after_a_change() -> None:
    """LM Studio shows every question to its user, so a quiet engine gets one a probe."""
    engine = ScriptedEngine(LMSTUDIO)
    probes(LmStudioEngine, engine, times=5)
    assert engine.asked.count("/api/v0/models") == 5
    assert engine.asked.count("/api/v1/models") == engine.asked.count("/v1/models") == 1


def test_a_change_is_told() -> None:
    """When the listing that is always asked changed, the others are asked anew."""

    async def scene() -> list[str | None]:
        async with serving(ScriptedEngine(dict(OLLAMA))) as engine:
            found = OllamaEngine(EngineSettings(kind="ollama", url=f"http://127.0.0.1:{engine.port}"))
            before = await found.probe()
            engine.replies["/api/tags"] = OLLAMA["/api/tags"].replace(b"1.50", b"2.50")
            engine.replies["/v1/models"] = OLLAMA["/v1/models"].replace(b":5,", b":6,")
            return [report.catalogue[0].openai for report in (before, await found.probe())]

    assert run_async(scene()) == [OPENAI_ENTRY, OPENAI_ENTRY.replace(":5,", ":6,")]


@pytest.mark.parametrize(
    ("kind", "props"),
    [(LlamaCppEngine, {"/props": {"total_slots": 1}}), (OpenAiEngine, {})],
)
def test_the_time_of_asking_is_no_change(kind: Any, props: dict[str, Any]) -> None:
    """llama.cpp and vLLM write now into ``created``; peers are not told a new catalogue for that."""

    async def scene() -> list[EngineReport]:
        async with serving(ScriptedEngine(dict(props))) as engine:
            found = kind(EngineSettings(kind=kind.kind, url=f"http://127.0.0.1:{engine.port}"))
            reports = []
            for created, owner in ((1, "a"), (2, "a"), (3, "b")):
                entry = {"id": "m:1", "created": created, "owned_by": owner, "permission": [created]}
                engine.replies["/v1/models"] = {"data": [entry]}
                reports.append(await found.probe())
            return reports

    first, second, third = run_async(scene())
    assert first == second
    assert json.loads(third.catalogue[0].openai or "") == {
        "id": "m:1",
        "created": 3,
        "owned_by": "b",
        "permission": [3],
    }


def test_an_entry_that_is_too_long_is_left_out() -> None:
    """A listing of novels is no listing; the model itself stays."""
    long = {"name": "m:1", "digest": "a" * 64, "story": "x" * ENTRY_BYTES}
    replies = {**OLLAMA, "/api/tags": {"models": [long]}, "/v1/models": {"data": [{"id": "m:1"}]}}
    (report,) = probes(OllamaEngine, ScriptedEngine(replies))
    assert report.catalogue == (CatalogueEntry(ModelName("m:1"), openai='{"id": "m:1"}'),)
    assert len(report.replicas) == 1


@pytest.mark.parametrize("is_loaded", [True, False])
def test_an_engine_of_our_own_lists_its_one_model_as_ollama_does(is_loaded: bool) -> None:
    """Its entries name the model in each of Ollama's listings, /api/ps only while it is loaded."""
    entry = card_entry(model_card(4096), is_loaded)
    listed = [listing for listing in PATHS.values() if entry.text(listing) is not None]
    assert listed == [Listing.TAGS, *([Listing.PS] if is_loaded else []), Listing.OPENAI]
    assert {listed_name(listing, entry.text(listing) or "") for listing in listed} == {entry.model}
    assert json.loads(entry.openai or "")["created"] == 1738886400  # 2025-02-07, as its modified_at says
