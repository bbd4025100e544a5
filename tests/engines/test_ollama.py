from typing import Any

import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import UpstreamError
from pairproxy.core.models import ModelName, Replica
from pairproxy.core.replicas import is_same
from pairproxy.engines.ollama import OllamaEngine
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script
from tests.support.running import run_async
from tests.support.scripted_engine import ScriptedEngine, serving

A, B = "a" * 64, "B" * 64
REPLIES: dict[str, Any] = {
    "/api/version": {"version": "0.33.0"},
    "/api/tags": {
        "models": [
            {
                "name": "qwen3:8b",
                "model": "qwen3:8b",
                "size": 5,
                "digest": A,
                "details": {"context_length": 40960},
            },
            {"name": "Library/Llama3", "digest": B},
        ]
    },
    "/api/ps": {"models": [{"name": "qwen3:8b", "digest": A, "context_length": 8192}]},
}


def probe(replies: dict[str, Any], **settings: Any) -> EngineReport:
    """Probe an Ollama that answers so."""

    async def scene() -> EngineReport:
        async with serving(ScriptedEngine(replies)) as engine:
            url = f"http://127.0.0.1:{engine.port}"
            return await OllamaEngine(EngineSettings(kind="ollama", url=url, **settings)).probe()

    return run_async(scene())


def tags(*entries: Any) -> dict[str, Any]:
    """The usual replies with other models."""
    return {**REPLIES, "/api/tags": {"models": list(entries)}}


def test_models_digests_and_what_is_loaded() -> None:
    """Name, digest, and the window of a loaded model (not the one it was trained for) are reported."""
    report = probe(REPLIES)
    assert (report.kind, report.version, report.slots) == ("ollama", "0.33.0", 1)
    assert report.replicas == (
        (Replica(ModelName("llama3:latest"), f"sha256:{B.lower()}", None), False),
        (Replica(ModelName("qwen3:8b"), f"sha256:{A}", 8192), True),
    )


def test_slots_come_from_the_settings() -> None:
    """Ollama does not say how many requests it runs at once, so a person does."""
    assert probe(REPLIES, slots=4).slots == 4


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "gpt-oss:120b-cloud", "digest": A},
        {"name": "GLM:Cloud", "digest": A},
        {"name": "mine", "digest": A, "remote_host": "https://ollama.com:443"},
        {"name": "mine", "digest": A, "remote_model": "gpt-oss:120b"},
        {"name": "mine", "digest": "short"},
        {"name": "mine", "digest": "z" * 64},
        {"name": "mine"},
        {"name": "", "digest": A},
        {"name": "a\nb", "digest": A},
        {"name": 7, "digest": A},
        "mine",
        None,
    ],
)
def test_cloud_models_and_odd_entries_are_left_out(entry: Any) -> None:
    """What runs on this person's account elsewhere, or cannot be identified, is no replica; others are."""
    report = probe(tags(entry, {"name": "good", "digest": A}))
    assert [replica.model for replica, _ in report.replicas] == ["good:latest"]


@pytest.mark.parametrize("window", [None, "8192", -1, 0, True, 10**30])
def test_an_odd_window_is_unknown(window: Any) -> None:
    """A window that cannot be right is None; the model still counts as loaded."""
    loaded = {"/api/ps": {"models": [{"name": "qwen3:8b", "digest": A, "context_length": window}]}}
    assert (Replica(ModelName("qwen3:8b"), f"sha256:{A}", None), True) in probe(
        {**REPLIES, **loaded}
    ).replicas


def test_other_content_of_the_same_name_is_not_the_loaded_one() -> None:
    """After a pull the old content may still be loaded; it is not what the name means now."""
    loaded = {"/api/ps": {"models": [{"name": "qwen3:8b", "digest": B, "context_length": 8192}]}}
    assert (Replica(ModelName("qwen3:8b"), f"sha256:{A}", None), False) in probe(
        {**REPLIES, **loaded}
    ).replicas


@pytest.mark.parametrize("path", ["/api/version", "/api/tags", "/api/ps"])
def test_a_missing_answer_is_an_error(path: str) -> None:
    """Half of an answer is none: an Ollama that is starting is not reported as empty."""
    with pytest.raises(UpstreamError):
        probe({key: reply for key, reply in REPLIES.items() if key != path})


@pytest.mark.parametrize("odd", [[], "x", None, {"models": None}, {"models": "x"}, {"models": {}}])
def test_odd_lists_are_empty(odd: Any) -> None:
    """A list that is none gives no models and no exception."""
    assert probe({**REPLIES, "/api/tags": odd, "/api/ps": odd, "/api/version": odd}).replicas == ()


def test_a_model_is_shown_once_for_what_it_is_made_of() -> None:
    """Two Ollamas of different age hash one model differently, yet hold the same; the cloud's is left out."""
    weights = "c" * 64

    def shown(request: ParsedRequest) -> dict[str, Any]:
        remote = {"remote_host": "https://ollama.com"} if request.json()["model"] == "far" else {}
        capabilities = ["completion", "vision"]
        return {"modelfile": f"FROM /blobs/sha256-{weights}", "capabilities": capabilities, **remote}

    async def show(request: ParsedRequest, connection: EngineConnection) -> None:
        await connection.send(scripts.json_bytes(shown(request)))

    def ollama(digest: str) -> Script:
        listed = scripts.ollama({"Qwen3:8b": digest, "far": digest}, chat=show)
        return scripts.routes({"/api/show": show}, otherwise=listed)

    async def scene() -> None:
        async with FakeEngine(ollama(A)) as one, FakeEngine(ollama(B)) as other:
            settings = [EngineSettings(kind="ollama", url=engine.url) for engine in (one, other)]
            old, new = [OllamaEngine(each) for each in settings]
            await old.probe()
            ((replica, _),), ((same, _),) = (await old.probe()).replicas, (await new.probe()).replicas
            assert replica.capabilities == frozenset({"completion", "vision"})
            assert replica.identity != same.identity
            assert is_same(replica, same)
            assert [request.path for request in one.requests].count("/api/show") == 2

    run_async(scene())


def test_newer_ones_list_what_a_model_can() -> None:
    """So it is known before the model was shown."""
    ((replica, _),) = probe(tags({"name": "m", "digest": A, "capabilities": ["tools"]})).replicas
    assert replica.capabilities == frozenset({"tools"})


def test_a_model_that_is_being_copied_here_is_none_yet() -> None:
    """Under the name of its way here it is listed for a moment, and would be offered to peers and clients."""
    coming = {"name": f"127.0.0.1:4711/pairproxy-copy-{'a' * 32}/m:1", "digest": A}
    like_it = {"name": "someone/pairproxy-copy-m:1", "digest": A}
    report = probe(tags(coming, like_it))
    assert [replica.model for replica, _ in report.replicas] == ["someone/pairproxy-copy-m:1"]
    assert [entry.model for entry in report.catalogue] == ["someone/pairproxy-copy-m:1"]
