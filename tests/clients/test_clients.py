"""The official clients, unmodified: what each gets through two nodes is what the engine itself gives."""

import pytest

from pairproxy.api.schema import Record
from tests.clients.clients import CLIENTS, Client, failed, run
from tests.clients.environments import CannotPrepare
from tests.clients.scenes import Scene
from tests.e2e.test_clients import is_free
from tests.support.daemons import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the first of them may install the clients

DIRECT_TRIES = 6  # under load one in ten fails


def ask(client: Client, url: str, model: str) -> dict[str, object]:
    """Run a driver; where its environment cannot be had, the skip says why and is counted."""
    try:
        return run(client, url, model)
    except CannotPrepare as error:
        pytest.skip(str(error))


def ask_engine(client: Client, scene: Scene) -> dict[str, object]:
    """Run a driver without a proxy.

    llama.cpp's server closes a kept connection a moment after each stream, without a word before: a client
    that asks at once on the same one fails by chance (one time in two where that was sought). Through us it
    may not.
    """
    for _ in range(DIRECT_TRIES):
        directly = ask(client, scene.engine[client.dialect], scene.model)
        unexpected = {name: directly[name] for name in failed(directly) - scene.may_fail - {"error"}}
        if not unexpected:
            return directly
    raise AssertionError(f"{client.name} fails without us: {unexpected}")


def compare(client: Client, scene: Scene) -> list[Record]:
    """Run a driver directly and through both nodes: equal results. Returns what was new to the ledger."""
    directly = ask_engine(client, scene)
    assert set(directly) == set(client.calls)
    until(lambda: all(is_free(node) for node in scene.nodes), "the engines have dropped what others left")
    before = scene.records()
    assert ask(client, scene.url, scene.model) == directly
    until(lambda: all(is_free(node) for node in scene.nodes), f"what {client.name} left is dropped")
    return [record for name, record in scene.records().items() if name not in before]


def serve_in_turns(client: Client, scene: Scene) -> None:
    """Compare, and see that both nodes had work and that leaving reached the engine."""
    records = compare(client, scene)
    assert {record.node for record in records} == {node.id for node in scene.nodes}
    assert [record.outcome for record in records].count("cancelled") == 1


SPEAK_OLLAMA = [client for client in CLIENTS if client.dialect != "lmstudio"]
SPEAK_OPENAI = [client for client in CLIENTS if client.dialect == "openai"]
SPEAK_SOCKETS = [client for client in CLIENTS if client.dialect == "lmstudio"]


@pytest.mark.parametrize("client", SPEAK_OLLAMA, ids=lambda client: client.name)
def test_embedded_engine(client: Client, embedded: Scene) -> None:
    """Texts at temperature 0, parts, counts, vectors, lists and errors are the embedded engine's own."""
    serve_in_turns(client, embedded)


@pytest.mark.parametrize("client", SPEAK_OLLAMA, ids=lambda client: client.name)
def test_ollama_bytes(client: Client, fake: Scene) -> None:
    """Replies, tool calls and errors made from Ollama's bytes reach each client as they would directly."""
    serve_in_turns(client, fake)
    error = ask(client, fake.url, fake.model)["error"]
    assert isinstance(error, dict)
    assert error["status"] == 404


@pytest.mark.parametrize("client", SPEAK_OPENAI, ids=lambda client: client.name)
def test_lmstudio_bytes(client: Client, studios: Scene) -> None:
    """OpenAI's API on LM Studio's port is served by both nodes and answered as by LM Studio."""
    serve_in_turns(client, studios)


@pytest.mark.parametrize("client", SPEAK_SOCKETS, ids=lambda client: client.name)
def test_lmstudio_sockets(client: Client, studios: Scene) -> None:
    """LM Studio's own clients talk through the port to the LM Studio behind it, and leaving reaches it."""
    first, second = studios.studios
    sockets, cancelled = first.sockets, first.cancelled
    assert compare(client, studios) == []  # nothing that the scheduler has to do with
    opened = first.sockets - sockets
    assert opened >= 2
    assert opened % 2 == 0  # as many through the port as without
    assert second.sockets == 0
    until(lambda: first.cancelled == cancelled + 2, "both predictions are cancelled")
