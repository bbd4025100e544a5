from typing import Any

import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import BrokenReply
from pairproxy.engines.openai import OpenAiEngine
from tests.support.running import run_async
from tests.support.scripted_engine import ScriptedEngine, serving

VLLM = {"id": "Qwen/Qwen3-8B", "object": "model", "root": "Qwen/Qwen3-8B", "max_model_len": 40960}


def probe(reply: Any) -> EngineReport:
    """Probe a server that answers /v1/models so."""

    async def scene() -> EngineReport:
        async with serving(ScriptedEngine({"/v1/models": reply})) as engine:
            return await OpenAiEngine(
                EngineSettings(kind="openai", url=f"http://127.0.0.1:{engine.port}", slots=8)
            ).probe()

    return run_async(scene())


def test_vllm_is_told_by_root_and_window() -> None:
    """The same root with the same window is the same replica; another window is another."""
    ours, again, shorter = (
        probe({"data": [{**VLLM, "max_model_len": window}]}).replicas[0][0] for window in (40960, 40960, 8192)
    )
    assert (ours.model, ours.context_tokens) == ("qwen/qwen3-8b:latest", 40960)
    assert ours == again
    assert shorter.identity != ours.identity


def test_a_server_that_says_only_a_name_equals_none() -> None:
    """Nothing proves that two servers mean the same by a bare name."""
    one, two = (probe({"data": [{"id": "gpt"}]}).replicas[0][0] for _ in range(2))
    assert one.model == two.model
    assert one.identity != two.identity


@pytest.mark.parametrize("reply", [{"error": "no"}, [], {"data": None}, "x"])
def test_what_lists_no_models_is_refused(reply: Any) -> None:
    """Another sort of server at that port is not taken for an engine without models."""
    with pytest.raises(BrokenReply):
        probe(reply)
