import asyncio
from collections.abc import Iterator

import pytest

from pairproxy.cli.demo import job
from pairproxy.cli.demo.job import Leg, run_leg
from pairproxy.core.errors import PairproxyError
from tests.support.engine_scripts import json_reply, ollama_chat, openai_chat, raw, routes
from tests.support.engine_thread import in_thread
from tests.support.fake_engine import FakeEngine, Script

OLLAMA = [{"message": {"role": "assistant", "content": word}, "done": False} for word in ("one ", "two")]
OPENAI = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in ("three ", "four")]
BOTH = routes(
    {
        "/api/chat": ollama_chat([*OLLAMA, {"message": {"role": "assistant", "content": ""}, "done": True}]),
        "/v1/chat/completions": openai_chat(OPENAI),
    }
)


def leg(engine: FakeEngine, *, is_local_only: bool = False) -> Leg:
    """A leg of replies of eight tokens."""
    return Leg(engine.port, "m:1b", "together-1", "n0nce", is_local_only, tokens=8)


def run(script: Script, requests: int = 2) -> tuple[FakeEngine, list[job.Answer]]:
    """Run a leg against an engine with this script."""
    with in_thread(script) as engine:
        _, answers = asyncio.run(run_leg(leg(engine), requests, lambda index, count: None))
    return engine, answers


def errors_of(group: BaseException) -> list[str]:
    """The sentences of all of our errors in a group."""
    assert isinstance(group, BaseExceptionGroup)
    assert all(isinstance(error, PairproxyError) for error in group.exceptions)
    return sorted(str(error) for error in group.exceptions)


@pytest.fixture(autouse=True)
def _a_proxy_for_the_web(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A proxy that does not exist: who uses it for loopback gets nowhere."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    return iter([None])


def test_both_clients_get_their_texts() -> None:
    """Sub-agents ask through the two clients in turn, whatever proxy the environment names."""
    _, answers = run(BOTH)
    assert [(answer.client, answer.text) for answer in answers] == [
        ("ollama", "one two"),
        ("openai", "three four"),
    ]


def test_every_request_asks_for_the_same_length_behind_one_system_prompt() -> None:
    """The same system prompt with the leg's nonce, a task of its own, a fixed length, no sampling."""
    engine, _ = run(BOTH, requests=4)
    bodies = [request.json() for request in engine.requests]
    systems = {body["messages"][0]["content"] for body in bodies}
    tasks = {body["messages"][1]["content"] for body in bodies}
    assert len(systems) == 1
    assert "n0nce" in systems.pop()
    assert len(tasks) == 4
    for body in bodies:
        options = body.get("options", {})
        assert options.get("num_predict", body.get("max_tokens")) == 8
        assert options.get("ignore_eos", body.get("ignore_eos")) is True
        assert options.get("temperature", body.get("temperature")) == 0
        assert body["stream"] is True


def test_a_leg_alone_says_so_in_its_headers() -> None:
    """Both legs go through the proxy; alone keeps the requests on their node."""
    with in_thread(BOTH) as engine:
        assert leg(engine).headers == {"X-Pairproxy-Run": "together-1"}
        assert leg(engine, is_local_only=True).headers["X-Pairproxy-Local"] == "true"
        asyncio.run(run_leg(leg(engine, is_local_only=True), 2, lambda index, count: None))
    assert [request.header("X-Pairproxy-Local") for request in engine.requests] == [b"true"] * 2


def test_progress_counts_the_pieces_as_they_come() -> None:
    """Whoever watches hears of each piece with its sub-agent."""
    heard: list[tuple[int, int]] = []
    with in_thread(BOTH) as engine:
        asyncio.run(run_leg(leg(engine), 2, lambda index, count: heard.append((index, count))))
    assert [count for index, count in heard if index == 1] == [1, 2]
    assert [count for index, count in heard if index == 0][:2] == [1, 2]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (json_reply({"error": "secret words"}, 503), "HTTP 503"),
        (raw(b"", then="close"), "the connection ended"),
        (raw(b"nonsense\r\n\r\n", then="close"), "the connection ended"),
    ],
)
def test_a_failure_is_a_sentence_without_a_word_of_what_was_said(script: Script, why: str) -> None:
    """The clients' own errors are translated; what an engine wrote into them is dropped."""
    with pytest.raises(BaseExceptionGroup) as caught:
        run(script)
    sentences = errors_of(caught.value)
    assert all(why in sentence and "Start the demo again" in sentence for sentence in sentences)
    assert not any("secret" in sentence for sentence in sentences)


def test_an_empty_answer_is_a_failure() -> None:
    """A demo that shows nothing has shown nothing."""
    empty = routes(
        {
            "/api/chat": ollama_chat([{"message": {"role": "assistant", "content": " "}, "done": True}]),
            "/v1/chat/completions": openai_chat([]),
        }
    )
    with pytest.raises(BaseExceptionGroup) as caught:
        run(empty)
    assert any("empty answer" in sentence for sentence in errors_of(caught.value))
