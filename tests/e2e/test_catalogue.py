"""Daemons with different models: clients see them all, ask what each is, and use it, at any port."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ollama
import openai
import pytest

from tests.support.asking import Asker
from tests.support.daemons import Daemons, Node, settings, until

COPILOT = {"User-Agent": "GitHubCopilotChat/0.32"}
MINE, THEIRS = "paced:1b", "other:3b"
QUESTION = [{"role": "user", "content": "hello"}]


def with_model(model: str, **sections: Any) -> str:
    """The settings of a quick node with this model."""
    return settings(paced={"decode": 500.0, "model": model}, **sections)


@contextlib.contextmanager
def two(directory: Path, **sections: Any) -> Iterator[tuple[Daemons, Node, Node]]:
    """A with MINE and B with THEIRS, connected."""
    with Daemons(directory) as daemons:
        daemons.home("A", with_model(MINE, **sections))
        daemons.home("B", with_model(THEIRS))
        daemons.pair("A", "B")
        a, b = daemons.start("A", "B")
        daemons.until_connected()
        yield daemons, a, b


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    """Two nodes that see each other's models."""
    with two(tmp_path_factory.mktemp("catalogue")) as (_, a, b):
        until(lambda: names(a) == [MINE, THEIRS] and names(b) == [THEIRS, MINE], "both see both")
        yield a, b


def names(node: Node, path: str = "/api/tags", key: str = "models", name: str = "name") -> list[str]:
    """What a listing of a node's port names."""
    return [entry[name] for entry in Asker(node.port).request("GET", path).json()[key]]


def test_every_listing_names_both(pair: tuple[Node, Node]) -> None:
    """Own ones first, at each node; OpenAI's listing is the same set as Ollama's."""
    for node, first, second in ((pair[0], MINE, THEIRS), (pair[1], THEIRS, MINE)):
        assert names(node) == names(node, "/v1/models", "data", "id") == [first, second]
        assert set(names(node, "/api/ps")) <= {first, second}


def test_copilot_fills_its_picker(pair: tuple[Node, Node]) -> None:
    """version, tags, show of each: all 200, and a new enough version; then it chats with any of them."""
    for node in pair:
        asker = Asker(node.port, headers=COPILOT)
        version = asker.request("GET", "/api/version").json()["version"]
        assert tuple(int(part) for part in version.split(".")) >= (0, 6, 4)
        listed = asker.request("GET", "/api/tags").json()["models"]
        assert len(listed) == 2
        for entry in listed:
            shown = asker.request("POST", "/api/show", {"model": entry["name"]})
            assert shown.status == 200
            about = shown.json()
            assert about["capabilities"]
            assert about["model_info"][about["model_info"]["general.architecture"] + ".context_length"] > 0
            assert about["model_info"]["general.basename"] == entry["name"]
            body = {"model": entry["name"], "messages": QUESTION, "max_tokens": 4}
            chatted = asker.request("POST", "/v1/chat/completions", body)
            assert (chatted.status, chatted.json()["model"]) == (200, entry["name"])


def test_the_official_ollama_client_lists_shows_and_uses_both(pair: tuple[Node, Node]) -> None:
    """`ollama list`, `show`, `ps` and a chat with each model, at each port."""
    for node in pair:
        with ollama.Client(f"http://127.0.0.1:{node.port}", trust_env=False) as client:
            _list_show_and_use(client)


def _list_show_and_use(client: ollama.Client) -> None:
    models = [one.model for one in client.list().models]
    assert sorted(model for model in models if model) == sorted([MINE, THEIRS])
    for model in models:
        assert model is not None
        assert client.show(model).capabilities
        assert client.chat(model, QUESTION, options={"num_predict": 4}).message.content
        assert client.embed(model, "hello").embeddings
    ask = client.ps
    loaded = until(lambda ask=ask: [one.model for one in ask().models], "something is loaded")  # type: ignore[misc]
    assert set(loaded) <= {MINE, THEIRS}


def test_home_assistant_finds_and_asks_another_nodes_model(pair: tuple[Node, Node]) -> None:
    """Its setup lists; its questions stream, with a window of their own and keep_alive -1."""

    async def main() -> str:
        async with ollama.AsyncClient(f"http://127.0.0.1:{pair[0].port}", trust_env=False) as client:
            assert THEIRS in [one.model for one in (await client.list()).models]
            options = {"num_ctx": 8192, "num_predict": 4}
            stream = await client.chat(THEIRS, QUESTION, stream=True, keep_alive=-1, options=options)
            return "".join([part.message.content or "" async for part in stream])

    assert asyncio.run(main())


def test_the_official_openai_client_retrieves_one_of_another_node(pair: tuple[Node, Node]) -> None:
    """models.list() and models.retrieve() of a model that only the peer has."""
    with openai.DefaultHttpxClient(trust_env=False) as web:
        client = openai.OpenAI(
            base_url=f"http://127.0.0.1:{pair[0].port}/v1", api_key="none", max_retries=0, http_client=web
        )
        assert [one.id for one in client.models.list()] == [MINE, THEIRS]
        assert client.models.retrieve(THEIRS).id == THEIRS
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("nobody:1b")


def test_a_model_that_no_node_has_is_missing_as_always(pair: tuple[Node, Node]) -> None:
    """So that `ollama run` pulls it."""
    shown = Asker(pair[0].port).request("POST", "/api/show", {"model": "nobody:1b"})
    assert (shown.status, "nobody:1b" in shown.json()["error"]) == (404, True)


@pytest.mark.slow
def test_a_silent_peer_is_listed_while_it_counts_as_there_and_delays_nothing(tmp_path: Path) -> None:
    """Stopped like a machine that froze: lists come at once all the time, first with it, then without."""
    with two(tmp_path) as (_, a, b):
        until(lambda: names(a) == [MINE, THEIRS], "a sees both")
        b.send(signal.SIGSTOP)
        asker = Asker(a.port)
        waited = []

        def without_it() -> bool:
            got = asker.request("GET", "/api/tags")
            waited.append(got.seconds)
            return [one["name"] for one in got.json()["models"]] == [MINE]

        until(without_it, "a lists its own alone")
        assert sorted(waited)[len(waited) // 2] < 0.1
        assert asker.request("POST", "/api/show", {"model": THEIRS}).status == 404
        b.send(signal.SIGCONT)
        until(lambda: names(a) == [MINE, THEIRS], "a sees both again")


@pytest.mark.slow
def test_a_node_with_catalogue_local_lists_its_own(tmp_path: Path) -> None:
    """Not one byte more than its engine; what it may use of others it may use all the same."""
    with two(tmp_path, routing={"catalogue": "local"}) as (_, a, b):
        until(lambda: names(b) == [THEIRS, MINE], "b sees both")
        assert names(a) == names(a, "/v1/models", "data", "id") == [MINE]
        assert Asker(a.port).request("POST", "/api/show", {"model": THEIRS}).status == 404
        assert Asker(a.port, model=THEIRS).ask(tokens=4).status == 200
