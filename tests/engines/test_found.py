import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.config import EngineSettings
from pairproxy.core.catalogue import NAME_CHARACTERS, model_name
from pairproxy.core.documents import EngineReport
from pairproxy.engines import found
from pairproxy.engines.found import FoundEngine, entries, whole_number
from pairproxy.engines.llamacpp import LlamaCppEngine
from pairproxy.engines.lmstudio import LmStudioEngine
from pairproxy.engines.ollama import OllamaEngine
from pairproxy.engines.openai import OpenAiEngine
from tests.support.running import run_async
from tests.support.scripted_engine import ScriptedEngine, serving

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
FIELDS = (
    "name", "model", "id", "digest", "details", "context_length", "state", "meta", "status", "root",
    "type", "capabilities", "modalities",
    "max_model_len", "total_slots", "default_generation_settings", "version", "quantization", "remote_host",
)  # fmt: skip
ODD_ENTRY = st.dictionaries(st.sampled_from(FIELDS), ANY_JSON, max_size=6)
ODD_LIST = st.lists(ODD_ENTRY | ANY_JSON, max_size=4)
ODD_REPLY = ANY_JSON | st.fixed_dictionaries({}, optional={"models": ODD_LIST, "data": ODD_LIST})


def test_it_is_named_by_kind_and_port() -> None:
    """Two engines of one kind on one node have different names."""
    engine = OllamaEngine(EngineSettings(kind="ollama", url="http://127.0.0.1:11534"))
    assert (engine.id, engine.listen) == ("ollama-11534", "127.0.0.1:11434")
    assert engine.address("/anything") == ("127.0.0.1", 11534)


def test_settled_waits_a_second() -> None:
    """Nothing tells when a found engine is free again, so a fixed time is waited."""
    engine = OpenAiEngine(EngineSettings(kind="openai"))
    began = time.monotonic()
    run_async(engine.settled(0))
    assert time.monotonic() - began >= found.SETTLE_S


@given(ODD_REPLY)
def test_lists_of_anything_give_only_objects(reply: object) -> None:
    """Whatever a reply holds, entries() yields dictionaries, and names and numbers are sane or None."""
    for entry in entries(reply, "data"):
        assert isinstance(entry, dict)
        name, number = model_name(entry.get("id")), whole_number(entry.get("max_model_len"), 100)
        assert name is None or 0 < len(name) <= NAME_CHARACTERS + len(":latest")
        assert number is None or 1 <= number <= 100


@pytest.mark.parametrize("kind", ["ollama", "lmstudio", "llamacpp", "openai"])
def test_an_engine_cannot_flood_us(kind: str) -> None:
    """Of thousands of models, names of any length and absurd slots only a bounded part is kept."""
    classes = {
        "ollama": OllamaEngine,
        "lmstudio": LmStudioEngine,
        "llamacpp": LlamaCppEngine,
        "openai": OpenAiEngine,
    }
    many = [
        {"id": f"m{n}" if n else "x" * 9999, "name": f"m{n}", "digest": "a" * 64, "state": "loaded"}
        for n in range(5000)
    ]
    replies = {
        "/api/version": {"version": "9" * 9999},
        "/api/tags": {"models": many},
        "/api/ps": {"models": many},
        "/api/v0/models": {"data": many},
        "/props": {"total_slots": 10**30, "build_info": "b" * 9999},
        "/v1/models": {"data": many},
    }

    async def scene() -> EngineReport:
        async with serving(ScriptedEngine(replies)) as engine:
            url = f"http://127.0.0.1:{engine.port}"
            made: FoundEngine = classes[kind](EngineSettings(kind=kind, url=url))  # type: ignore[arg-type, abstract]
            return await made.probe()

    report = run_async(scene())
    assert 0 < len(report.replicas) <= found.MODELS_LIMIT
    assert (len(report.version) <= found.VERSION_CHARACTERS, report.slots) == (True, 1)
    assert all(len(replica.model) < 300 and len(replica.identity) < 2000 for replica, _ in report.replicas)
