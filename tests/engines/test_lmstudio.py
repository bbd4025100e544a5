from typing import Any

import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import BrokenReply
from pairproxy.engines.lmstudio import LmStudioEngine
from tests.support.running import run_async
from tests.support.scripted_engine import ScriptedEngine, serving

MODEL = {
    "id": "qwen2.5-7b-instruct",
    "object": "model",
    "type": "llm",
    "publisher": "lmstudio-community",
    "arch": "qwen2",
    "compatibility_type": "gguf",
    "quantization": "Q4_K_M",
    "state": "loaded",
    "max_context_length": 32768,
    "loaded_context_length": 8192,
}


def probe(*entries: Any) -> EngineReport:
    """Probe an LM Studio that has these models."""

    async def scene() -> EngineReport:
        scripted = ScriptedEngine({"/api/v0/models": {"object": "list", "data": list(entries)}})
        async with serving(scripted) as engine:
            return await LmStudioEngine(
                EngineSettings(kind="lmstudio", url=f"http://127.0.0.1:{engine.port}")
            ).probe()

    return run_async(scene())


def test_a_model_is_told_by_what_it_is_made_of() -> None:
    """Name, window and state are reported, and the same file elsewhere has the same identity."""
    ((replica, is_loaded),) = probe(MODEL).replicas
    assert (replica.model, replica.context_tokens, is_loaded) == ("qwen2.5-7b-instruct:latest", 8192, True)
    ((other, is_other_loaded),) = probe(
        {**MODEL, "state": "not-loaded", "loaded_context_length": None}
    ).replicas
    assert (other.identity, other.context_tokens, is_other_loaded) == (replica.identity, None, False)


@pytest.mark.parametrize(
    "fact", ["quantization", "compatibility_type", "publisher", "arch", "max_context_length"]
)
def test_another_make_is_another_identity(fact: str) -> None:
    """A model that differs in any known fact is not the same; one whose fact is unknown equals none."""
    ((replica, _),) = probe(MODEL).replicas
    ((other, _),) = probe({**MODEL, fact: "other"}).replicas
    assert other.identity != replica.identity
    unknown = {key: value for key, value in MODEL.items() if key != fact}
    ((one, _),), ((two, _),) = probe(unknown).replicas, probe(unknown).replicas
    assert len({one.identity, two.identity, replica.identity}) == 3


@pytest.mark.parametrize(
    ("kind", "needs", "can"),
    [
        ("llm", "tools", True),
        ("llm", "vision", False),
        ("vlm", "vision", True),
        ("embeddings", "completion", False),
        ("embeddings", "embedding", True),
    ],
)
def test_a_model_can_what_its_type_says(kind: str, needs: str, can: bool) -> None:
    """Tools are offered to every text model, images to those that see."""
    ((replica, _),) = probe({**MODEL, "type": kind}).replicas
    assert replica.capabilities is not None
    assert (needs in replica.capabilities) is can


@pytest.mark.parametrize("kind", [None, "hologram", ["llm"], {}])
def test_an_odd_type_says_nothing(kind: object) -> None:
    """What is not known bars nothing."""
    ((replica, _),) = probe({**MODEL, "type": kind}).replicas
    assert replica.capabilities is None


def test_its_answer_to_unknown_paths_is_no_list() -> None:
    """The error that LM Studio sends with status 200 is seen as one."""

    async def scene() -> None:
        error = {"error": "Unexpected endpoint or method. (GET /api/v0/models)"}
        async with serving(ScriptedEngine({}, unknown=(200, error))) as engine:
            found = LmStudioEngine(EngineSettings(kind="lmstudio", url=f"http://127.0.0.1:{engine.port}"))
            with pytest.raises(BrokenReply):
                await found.probe()

    run_async(scene())
