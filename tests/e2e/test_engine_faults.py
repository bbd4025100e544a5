"""Daemons as they are, before engines that hang, restart, are full or have lost a model: what clients see."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import engine_scripts as scripts
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.engine_thread import in_thread
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script

pytestmark = pytest.mark.slow

MODEL = "small:8b"
DIGEST = "sha256:" + "a" * 64
GOOD = scripts.ollama_chat([{"message": {"content": "hi"}, "done": False}, {"done": True, "eval_count": 1}])


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


def ollama(chat: Script) -> Script:
    """An Ollama that has the model, loaded."""
    return scripts.ollama({MODEL: DIGEST}, chat=chat, loaded=[MODEL])


def home_of(daemons: Daemons, name: str, engine: FakeEngine, **limits: Any) -> None:
    """The settings of a daemon before this engine."""
    daemons.home(name, settings("ollama", limits=limits) + f'url = "{engine.url}"\n')


def ask(node: Node) -> tuple[int, bytes, http.client.HTTPMessage]:
    """A short streamed chat: (status, body, headers)."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "options": {"num_predict": 1}}
    connection.request("POST", "/api/chat", json.dumps(body))
    reply = connection.getresponse()
    answer = reply.status, reply.read(), reply.headers
    connection.close()
    return answer


async def never(_: ParsedRequest, connection: EngineConnection) -> None:
    """Hang, as a graphics card that is stuck: the engine's other paths answer."""
    await connection.peer_left(600)


@pytest.mark.parametrize("side", ["here", "at a peer"])
def test_a_stuck_engine_is_left_for_the_other_node(side: str, daemons: Daemons) -> None:
    """F8: its daemon lives and its engine answers all questions but this."""
    hers, his = (never, GOOD) if side == "here" else (GOOD, never)
    with in_thread(ollama(hers)) as one, in_thread(ollama(his)) as other:
        home_of(daemons, "anna", one, stuck_s=1.0)
        home_of(daemons, "ben", other, stuck_s=1.0)
        daemons.pair("anna", "ben")
        anna, _ben = daemons.start("anna", "ben")
        daemons.until_connected()
        for _ in range(2):  # ties are broken in turn: one of the two goes to the stuck engine first
            status, body, _headers = ask(anna)
            assert (status, body.splitlines()[-1]) == (200, b'{"done": true, "eval_count": 1}')
        stuck = one if side == "here" else other
        assert "/api/chat" in [request.path for request in stuck.requests]


def test_an_engine_that_is_started_anew_is_waited_for(daemons: Daemons) -> None:
    """F18: a request that comes while it restarts is answered; one that it misses for good hears 503."""
    with in_thread(ollama(GOOD)) as engine:
        home_of(daemons, "anna", engine)
        (anna,) = daemons.start("anna")
        daemons.until_connected()
        port = engine.port
        assert ask(anna)[0] == 200
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(ask, anna)
        threading.Event().wait(3.0)  # the engine takes this long to start: the fault itself
        assert not asking.done()
        with in_thread(ollama(GOOD), port=port):
            status, body, _ = asking.result(30)
            assert (status, body.splitlines()[-1]) == (200, b'{"done": true, "eval_count": 1}')
    began = time.monotonic()
    status, body, headers = ask(anna)
    assert (status, "error" in json.loads(body)) == (503, True)
    assert int(headers["Retry-After"]) >= 1
    assert 9.0 < time.monotonic() - began < 30.0


def test_a_model_that_a_peer_lost_is_served_here_and_its_inventory_is_new(daemons: Daemons) -> None:
    """F12: its 404 is not seen; within seconds nobody sends it such a request any more."""
    lost = scripts.json_reply({"error": f"model '{MODEL}' not found"}, 404)
    with in_thread(ollama(GOOD)) as one, in_thread(ollama(lost)) as other:
        home_of(daemons, "anna", one)
        home_of(daemons, "ben", other)
        daemons.pair("anna", "ben")
        anna, ben = daemons.start("anna", "ben")
        daemons.until_connected()
        for _ in range(3):
            assert ask(anna)[0] == 200
        other.script = scripts.ollama({"another:1b": DIGEST}, chat=lost, loaded=[])
        until(lambda: MODEL not in str(anna.view_of(ben).engines), "the inventory is new")
        assert ask(anna)[0] == 200
