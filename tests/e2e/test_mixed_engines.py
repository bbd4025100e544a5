"""Daemons before engines of different makers: who may serve whom, by which name, and what is never mixed."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import engine_scripts as scripts
from tests.support.asking import CHAT, Asker, Got
from tests.support.command import here
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.engine_thread import in_thread
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script

MODEL = "small:8b"
ITS_NAME = "Org/Small-8B"
SERVICE_S = 0.2
OPENAI_REPLY = {"object": "chat.completion", "choices": [{"message": {"content": "hi"}}], "usage": {}}
OLLAMA_REPLY = scripts.ollama_chat([{"message": {"content": "hi"}}, {"done": True}], delay_s=SERVICE_S)


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def ollama(digest: str) -> Script:
    """An Ollama that has the model in this content."""
    reply = scripts.in_chunks(
        [json.dumps(OPENAI_REPLY).encode()], content_type="application/json", delay_s=SERVICE_S
    )
    return scripts.ollama({MODEL: digest}, chat=OLLAMA_REPLY, v1=reply, loaded=[MODEL])


def vllm() -> Script:
    """A server of OpenAI's API that has the model under a name of its own, and no other."""
    entry = {"id": ITS_NAME, "object": "model", "root": ITS_NAME, "max_model_len": 8192}
    served = scripts.in_chunks(
        [json.dumps(OPENAI_REPLY | {"model": ITS_NAME}).encode()],
        content_type="application/json",
        delay_s=SERVICE_S,
    )
    unknown = scripts.json_reply({"error": {"message": "no such model"}}, 404)

    async def chat(request: ParsedRequest, connection: EngineConnection) -> None:
        script = served if request.json()["model"] == ITS_NAME else unknown
        await script(request, connection)

    listed = scripts.json_reply({"object": "list", "data": [entry]})
    return scripts.routes({"/v1/models": listed, "/v1/chat/completions": chat})


def before(engine: FakeEngine, kind: str, more: str = "") -> str:
    """The settings of a daemon before this engine."""
    return settings(kind, slots=1) + f'url = "{engine.url}"\n{more}'


def pair_of(daemons: Daemons, a: str, b: str) -> list[Node]:
    """Two connected nodes with these settings."""
    daemons.home("A", a)
    daemons.home("B", b)
    daemons.pair("A", "B")
    nodes = daemons.start("A", "B")
    daemons.until_connected()
    return nodes


def at_once(node: Node, path: str, count: int) -> list[Got]:
    """Ask ``count`` times at once and wait for the replies."""
    asker = Asker(node.port, MODEL)
    body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
    limit = {"options": {"num_predict": 8}} if path == CHAT["ollama"] else {"max_tokens": 8}
    with ThreadPoolExecutor(count) as pool:
        futures: list[Future[Got]] = [
            pool.submit(asker.request, "POST", path, body | limit) for _ in range(count)
        ]
        return [future.result() for future in futures]


@pytest.mark.slow
def test_openai_requests_spread_over_both_kinds_and_ollamas_stay_with_ollama(daemons: Daemons) -> None:
    """By an alias a vLLM serves the model of an Ollama elsewhere; what only Ollama speaks stays with it."""
    with in_thread(ollama("a" * 64)) as ours, in_thread(vllm()) as theirs:
        alias = f'aliases = {{ "{MODEL}" = "{ITS_NAME}" }}\n'
        a, b = pair_of(daemons, before(ours, "ollama"), before(theirs, "openai", alias))
        replies = at_once(a, CHAT["openai"], 8)
        assert [reply.status for reply in replies] == [200] * 8
        assert {reply.node for reply in replies} == {a.id, b.id}
        asked = [one.json()["model"] for one in theirs.requests if one.method == "POST"]
        assert asked == [ITS_NAME] * sum(reply.node == b.id for reply in replies)
        assert {reply.json().get("model") for reply in replies if reply.node == b.id} == {ITS_NAME}
        replies = at_once(a, CHAT["ollama"], 4)
        assert [(reply.status, reply.node) for reply in replies] == [(200, a.id)] * 4
        replies = at_once(b, CHAT["openai"], 8)
        assert {reply.status for reply in replies} == {200}
        assert {reply.node for reply in replies} == {a.id, b.id}


@pytest.mark.slow
def test_models_that_differ_are_told_and_never_mixed(daemons: Daemons) -> None:
    """The same name for two contents: every request stays where its content is, and a person is told."""
    with in_thread(ollama("a" * 64)) as ours, in_thread(ollama("b" * 64)) as theirs:
        a, b = pair_of(daemons, before(ours, "ollama"), before(theirs, "ollama"))
        until(lambda: a.view_of(b).models_differ == (MODEL,), "A sees that B has another content")
        assert {reply.node for reply in at_once(a, CHAT["ollama"], 4)} == {a.id}
        assert {reply.node for reply in at_once(b, CHAT["openai"], 4)} == {b.id}
        said = " ".join(here("status", "--home", a.home).stdout.split())
        assert f"models differ on B: {MODEL}" in said


@pytest.mark.slow
def test_a_model_of_this_machine_only_never_leaves(daemons: Daemons) -> None:
    """Its requests wait for the one slot here while the same content is idle on another node."""
    with in_thread(ollama("a" * 64)) as ours, in_thread(ollama("a" * 64)) as theirs:
        a, b = pair_of(
            daemons,
            settings("ollama", routing={"local_only": ["small:*"]}) + f'url = "{ours.url}"\n',
            before(theirs, "ollama"),
        )
        assert a.view_of(b).models_differ == ()
        assert {reply.node for reply in at_once(a, CHAT["ollama"], 4)} == {a.id}
        assert {reply.node for reply in at_once(b, CHAT["ollama"], 8)} == {a.id, b.id}
