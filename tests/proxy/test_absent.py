"""What is answered where an engine is not there, while others can serve."""

import http.client
import json
from typing import Any

import pytest

from pairproxy.core.events import EngineLost, NodeReported
from pairproxy.core.models import NodeId
from tests.core.told import document
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import FakeEngine
from tests.support.node import ENGINE, Node
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async


def asked(line: str, body: Any = None, *, kind: str = "ollama", versions: tuple[str, ...] = ()) -> RawReply:
    """The answer at the port of an engine that is gone, where peers' Ollamas have these versions."""

    async def scene() -> RawReply:
        async with FakeEngine(scripts.json_reply({})) as engine, Node(engine, kind=kind) as node:
            engine.stop_listening()
            node.dispatcher.tell(EngineLost(node.dispatcher.now(), ENGINE))
            for number, version in enumerate(versions):
                told = document(NodeId(f"peer{number}"), kind="ollama", version=version)
                node.dispatcher.tell(NodeReported(node.dispatcher.now(), told))
            async with await RawClient.open(node.port) as client:
                return await client.ask(request(f"{line} HTTP/1.1", body), is_head=line.startswith("HEAD"))

    return run_async(scene())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("GET /", b"Ollama is running"),
        ("HEAD /", b""),
        ("GET /api/tags", b'{"models":[]}'),
        ("GET /api/ps", b'{"models":[]}'),
        ("GET /v1/models", b'{"object":"list","data":[]}'),
        ("GET /api/version", b'{"version":"0.0.0"}'),
    ],
)
def test_what_clients_ask_first_is_answered(line: str, said: bytes) -> None:
    """As an Ollama without models would; they go on to what other nodes serve."""
    reply = asked(line)
    assert (reply.status, reply.body) == (200, said)


def test_the_version_is_one_that_every_peer_can_keep() -> None:
    """The oldest, counted as numbers; what has none counts for nothing."""
    reply = asked("GET /api/version", versions=("0.33.0", "0.9.6", "0.14.1"))
    assert json.loads(reply.body) == {"version": "0.9.6"}


def test_a_model_that_nobody_has_is_not_found() -> None:
    """Not a fault of a gateway: `ollama run` goes on by trying to fetch it."""
    assert asked("POST /api/show", b'{"model":"new:1"}').status == http.client.NOT_FOUND
    assert asked("GET /v1/models/new:1").status == http.client.NOT_FOUND


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("POST /api/pull", b"POST /api/pull is for one of this machine"),
        ("POST /api/pu%6cl", b"this is for one"),
    ],
)
def test_what_only_an_engine_here_can_do_says_so(line: str, words: bytes) -> None:
    """In the words of its clients, without repeating what may be anything."""
    reply = asked(line, b"{}")
    assert reply.status == http.client.BAD_GATEWAY
    assert words in reply.body
    assert set(json.loads(reply.body)) == {"error"}


def test_who_expects_another_engine_is_not_told_of_ollama() -> None:
    """LM Studio's front says nothing in Ollama's name."""
    assert asked("GET /", kind="lmstudio").status == http.client.BAD_GATEWAY
