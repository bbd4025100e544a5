"""Nodes that are killed in the middle of a stream, continuation on, seen through the official clients."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import ollama
import openai
import pytest

from tests.support.daemons import Daemons, Node, settings, until
from tests.support.embedded import model_cache

pytestmark = pytest.mark.slow  # daemons of their own in each test

WORDS = 80  # tokens of a reply: two seconds on the fast node
BEFORE = 10  # records that the client has when the node is killed
QUESTION = f"Say {WORDS} tokens."
ON = {"continuation": True}

Ask = Callable[[int, str, Callable[[], None]], tuple[str, str, int]]
"""(port, question, what to do after BEFORE records) -> (text, why it ended, output tokens)"""


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def by_openai(port: int, question: str, then: Callable[[], None]) -> tuple[str, str, int]:
    """Ask with OpenAI's client."""
    url = f"http://127.0.0.1:{port}/v1"
    with (
        openai.DefaultHttpxClient(trust_env=False) as web,
        openai.OpenAI(base_url=url, api_key="none", max_retries=0, http_client=web) as client,
    ):
        stream = client.chat.completions.create(
            model="paced:1b",
            messages=[{"role": "user", "content": question}],
            stream=True,
            stream_options={"include_usage": True},
        )
        text, reason, tokens, names = "", "", 0, set()
        for number, chunk in enumerate(stream):
            names.add(chunk.id)
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reason += choice.finish_reason or ""
            tokens = chunk.usage.completion_tokens if chunk.usage else tokens
            if number == BEFORE:
                then()
        assert len(names) == 1
    return text, reason, tokens


def by_ollama(port: int, question: str, then: Callable[[], None]) -> tuple[str, str, int]:
    """Ask with Ollama's client: /api/generate, whose rest is asked for as a chat."""
    with ollama.Client(f"http://127.0.0.1:{port}", trust_env=False) as client:
        text, reason, tokens = "", "", 0
        for number, part in enumerate(client.generate(model="paced:1b", prompt=question, stream=True)):
            text += part.response or ""
            reason += part.done_reason or ""
            tokens = part.eval_count or tokens
            if number == BEFORE:
                then()
        return text, reason, tokens


def by_ollama_chat(port: int, question: str, then: Callable[[], None]) -> tuple[str, str, int]:
    """Ask with Ollama's client: /api/chat."""
    with ollama.Client(f"http://127.0.0.1:{port}", trust_env=False) as client:
        text, reason, tokens = "", "", 0
        messages = [{"role": "user", "content": question}]
        for number, part in enumerate(client.chat(model="paced:1b", messages=messages, stream=True)):
            text += part.message.content or ""
            reason += part.done_reason or ""
            tokens = part.eval_count or tokens
            if number == BEFORE:
                then()
        return text, reason, tokens


def connected(daemons: Daemons, **texts: str) -> list[Node]:
    """Paired nodes that know of each other that they go on with texts."""
    for name, text in texts.items():
        daemons.home(name, text)
    daemons.pair(*texts)
    nodes = daemons.start(*texts)
    daemons.until_connected()
    until(lambda: all(_go_on(node) for node in nodes), "every engine was seen to go on")
    return nodes


def _go_on(node: Node) -> bool:
    engines = [engine for one in node.status().nodes for engine in one.engines]
    return all(replica.continues for engine in engines for replica in engine.replicas)


def no_more() -> None:
    """Let it end as it will."""


@pytest.mark.parametrize("ask", [by_openai, by_ollama, by_ollama_chat])
def test_a_node_killed_in_the_middle_of_a_stream_is_not_noticed(daemons: Daemons, ask: Ask) -> None:
    """F6: kill -9 of the node that writes; the official client sees one normal reply, the same text."""
    slow, fast = ({"decode": decode} for decode in (20.0, 40.0))
    a, b = connected(daemons, A=settings(paced=slow, routing=ON), B=settings(paced=fast, routing=ON))
    whole = ask(b.port, QUESTION, no_more)
    seen: list[str | None] = []

    def kill() -> None:
        seen.extend(one.node for one in a.status().running)
        b.kill()

    got = ask(a.port, QUESTION, kill)
    assert seen == [b.id], "the faster node writes"
    assert got == whole == (whole[0], "stop", WORDS)
    (record,) = until(lambda: [one for one in a.report().records if one.continued], "it is recorded")
    assert (record.outcome, record.attempts, record.continued, record.node) == ("done", 2, 1, a.id)
    assert "goes on at" in a.log


@pytest.mark.parametrize("lost", ["node", "engine"])
def test_a_reply_of_the_real_engine_goes_on_word_for_word(
    daemons: Daemons, lost: str, record_property: Callable[[str, object], None]
) -> None:
    """F6, F18: llama.cpp at temperature 0; the text after the loss is what one node would have written."""
    model_cache()
    text = settings("embedded", routing=ON)
    a, b = connected(daemons, A=text, B=text)
    model = a.status().nodes[0].engines[0].replicas[0].model
    asked = {"temperature": 0, "num_predict": 48}
    messages = [{"role": "user", "content": "Explain in three sentences why the sky is blue."}]

    def story(port: int, then: Callable[[], None]) -> str:
        said = ""
        with ollama.Client(f"http://127.0.0.1:{port}", trust_env=False) as client:
            parts = client.chat(model=model, messages=messages, stream=True, options=asked)
            for number, part in enumerate(parts):
                said += part.message.content or ""
                if number == BEFORE:
                    then()
            return said

    whole = story(b.port, no_more)
    busy = threading.Thread(target=by_ollama_long, args=(a.port, model))
    busy.start()
    until(lambda: len(a.status().running) == 1, "the node's own slot is taken")
    got = story(a.port, b.kill if lost == "node" else b.children()[0].kill)
    busy.join()
    record_property("without a loss", whole)
    record_property("with one", got)
    assert got == whole
    assert [one.continued for one in a.report().records if one.continued] == [1]


def by_ollama_long(port: int, model: str) -> None:
    """Keep a slot for a while."""
    with ollama.Client(f"http://127.0.0.1:{port}", trust_env=False) as client:
        options = {"num_predict": 120, "ignore_eos": True}
        messages = [{"role": "user", "content": "Count to a hundred."}]
        for _ in client.chat(model=model, messages=messages, stream=True, options=options):
            pass
