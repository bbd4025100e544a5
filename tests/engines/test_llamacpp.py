from typing import Any

import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import UpstreamError
from pairproxy.engines.llamacpp import LlamaCppEngine
from tests.support.embedded import embedded_engine, model_cache
from tests.support.running import run_async
from tests.support.scripted_engine import ScriptedEngine, serving

pytestmark = pytest.mark.timed

META = {"n_vocab": 49152, "n_ctx_train": 8192, "n_embd": 576, "n_params": 134515008, "size": 96576768}
REPLIES: dict[str, Any] = {
    "/props": {"total_slots": 4, "default_generation_settings": {"n_ctx": 4096}, "build_info": "b9000-abc"},
    "/v1/models": {"object": "list", "data": [{"id": "smollm2", "meta": META}]},
}


async def probe_at(port: int, **settings: Any) -> EngineReport:
    """Probe what answers there."""
    url = f"http://127.0.0.1:{port}"
    return await LlamaCppEngine(EngineSettings(kind="llamacpp", url=url, **settings)).probe()


def probe(replies: dict[str, Any], **settings: Any) -> EngineReport:
    """Probe a llama-server that answers so."""

    async def scene() -> EngineReport:
        async with serving(ScriptedEngine(replies)) as engine:
            return await probe_at(engine.port, **settings)

    return run_async(scene())


def models(*entries: Any) -> dict[str, Any]:
    """The usual replies with other models."""
    return {**REPLIES, "/v1/models": {"data": list(entries)}}


def test_a_real_llama_server() -> None:
    """llama.cpp itself is understood: its slots, the window of each, its model, and what that is made of."""
    cache = model_cache()

    async def scene() -> EngineReport:
        async with embedded_engine(cache, slots=3, context_tokens=512) as engine:
            return await probe_at(engine.address("/props")[1])

    report = run_async(scene())
    ((replica, is_loaded),) = report.replicas
    assert (report.slots, replica.model, replica.context_tokens, is_loaded) == (3, "smollm2:135m", 512, True)
    assert replica.identity == "llamacpp:134515008/96576768/49152/8192/576"


def test_images_and_sound_are_told_by_its_props() -> None:
    """Text and tools it takes with any model; an older one says nothing, and nothing is barred."""
    told = {**REPLIES["/props"], "modalities": {"vision": True, "audio": False}}
    capabilities = probe({**REPLIES, "/props": told}).replicas[0][0].capabilities
    assert capabilities is not None
    assert ("vision" in capabilities, "audio" in capabilities, "tools" in capabilities) == (True, False, True)
    assert probe(REPLIES).replicas[0][0].capabilities is None


def test_slots_window_and_version() -> None:
    """What /props says is reported; the settings have the last word on slots."""
    report = probe(REPLIES)
    assert (report.slots, report.version, report.replicas[0][0].context_tokens) == (4, "b9000-abc", 4096)
    assert probe(REPLIES, slots=2).slots == 2


@pytest.mark.parametrize("count", sorted(META))
def test_other_counts_are_another_identity(count: str) -> None:
    """A model that differs in one count is not the same; without it, it equals none on another node."""
    ours = probe(REPLIES).replicas[0][0].identity
    other = probe(models({"id": "smollm2", "meta": {**META, count: 1}})).replicas[0][0].identity
    unknown = {key: value for key, value in META.items() if key != count}
    one, two = (probe(models({"id": "smollm2", "meta": unknown})).replicas[0][0].identity for _ in range(2))
    assert len({ours, other, one, two}) == 4


def test_a_router_says_what_is_loaded() -> None:
    """In router mode the state of each model is taken from its status."""
    report = probe(
        models(*({"id": state, "meta": META, "status": {"value": state}} for state in ("loaded", "sleeping")))
    )
    assert [(replica.model, is_loaded) for replica, is_loaded in report.replicas] == [
        ("loaded:latest", True),
        ("sleeping:latest", False),
    ]


def test_while_it_loads_it_does_not_answer() -> None:
    """A server that is still loading answers 503 to all, which is not an empty list of models."""

    async def scene() -> None:
        async with serving(ScriptedEngine({}, unknown=(503, {"error": {"code": 503}}))) as engine:
            with pytest.raises(UpstreamError):
                await probe_at(engine.port)

    run_async(scene())


@pytest.mark.parametrize("odd", [None, [], "x", {"total_slots": "4"}, {"default_generation_settings": []}])
def test_odd_props_leave_one_slot(odd: Any) -> None:
    """Where /props makes no sense, one slot and no window are assumed."""
    report = probe({**REPLIES, "/props": odd})
    assert (report.slots, report.replicas[0][0].context_tokens) == (1, None)
