"""The official clients, unmodified: what each gets through two nodes is what the engine itself gives."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pairproxy.api.schema import Record
from tests.clients.clients import CLIENTS, Client, failed, run
from tests.clients.environments import CannotPrepare
from tests.e2e.test_clients import engine_ports, is_free
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.embedded import model_cache
from tests.support.engine_thread import in_thread
from tests.support.fake_ollama import MODEL as FAKE_MODEL
from tests.support.fake_ollama import ollama_surface

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the first of them may install the clients

EMBEDDED_MODEL = "smollm2:135m"
TURNS = {"policy": "least-busy"}  # one request here, the next there: both nodes serve each client


@dataclass
class Scene:
    """Two paired nodes, and where the engine of the first answers without a proxy."""

    nodes: list[Node]
    model: str
    engine: dict[str, str]
    """URL by dialect."""
    may_fail: set[str]
    """Calls that the engine itself does not know; ``error`` always may."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.nodes[0].port}"

    def records(self) -> dict[str, Record]:
        return {record.request: record for record in self.nodes[0].report().records}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Two nodes with embedded engines: a real model, real sampling, llama.cpp's own bytes."""
    model_cache()
    with Daemons(tmp_path_factory.mktemp("embedded")) as daemons:
        for name in "AB":
            daemons.home(name, settings("embedded", routing=TURNS))
        daemons.pair("A", "B")
        nodes = daemons.start("A", "B")
        daemons.until_connected()
        face, llama = (f"http://127.0.0.1:{port}" for port in engine_ports(nodes[0]))
        # llama.cpp answers for any name, and has no path for one model of its list.
        engine = {"ollama": face, "openai": llama, "anthropic": llama}
        yield Scene(nodes, EMBEDDED_MODEL, engine, {"retrieving"})


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Two nodes before engines that answer with the real Ollama's documented bytes."""
    directory = tmp_path_factory.mktemp("fake")
    with (
        in_thread(ollama_surface()) as first,
        in_thread(ollama_surface()) as second,
        Daemons(directory) as daemons,
    ):
        for name, engine in (("A", first), ("B", second)):
            daemons.home(name, settings_for({"kind": "ollama", "url": engine.url, "listen": "127.0.0.1:0"}))
        daemons.pair("A", "B")
        nodes = daemons.start("A", "B")
        daemons.until_connected()
        dialects = dict.fromkeys(("ollama", "openai", "anthropic"), first.url)
        yield Scene(nodes, FAKE_MODEL, dialects, set())


def settings_for(engine: dict[str, str]) -> str:
    """A node before an engine that is already there."""
    text, _, _ = settings(routing=TURNS).partition("[[engines]]")
    return text + "[[engines]]\n" + "".join(f'{key} = "{value}"\n' for key, value in engine.items())


def ask(client: Client, url: str, model: str) -> dict[str, object]:
    """Run a driver; where its environment cannot be had, the skip says why and is counted."""
    try:
        return run(client, url, model)
    except CannotPrepare as error:
        pytest.skip(str(error))


def compare(client: Client, scene: Scene) -> None:
    """Run a driver directly and through both nodes; the results are equal and both nodes had work."""
    directly = ask(client, scene.engine[client.dialect], scene.model)
    assert set(directly) == set(client.calls)
    assert failed(directly) <= scene.may_fail | {"error"}, directly
    until(lambda: all(is_free(node) for node in scene.nodes), "the engines have dropped what others left")
    before = scene.records()
    assert ask(client, scene.url, scene.model) == directly

    def ended() -> list[Record] | None:
        new = [record for name, record in scene.records().items() if name not in before]
        return new if any(record.outcome == "cancelled" for record in new) else None

    records = until(ended, f"the request that {client.name} left is recorded", 5.0)
    served = Counter(record.node for record in records)
    assert set(served) == {node.id for node in scene.nodes}, served


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_embedded_engine(client: Client, embedded: Scene) -> None:
    """Texts at temperature 0, parts, counts, vectors, lists and errors are the embedded engine's own."""
    compare(client, embedded)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_ollama_bytes(client: Client, fake: Scene) -> None:
    """Replies, tool calls and errors made from Ollama's bytes reach each client as they would directly."""
    compare(client, fake)
    error = ask(client, fake.url, fake.model)["error"]
    assert isinstance(error, dict)
    assert error["status"] == 404
