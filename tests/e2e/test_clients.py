"""The official `ollama` and `openai` clients through two nodes with embedded engines, against the engine."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import ollama
import openai
import psutil
import pytest

from tests.support.daemons import Daemons, Node, settings, until
from tests.support.embedded import model_cache

MODEL = "smollm2:135m"
TOKENS = 12
SOON_S = 10.0  # a fraction of what 3,000 tokens take
# The same text every time: without sampling, and without a cached prefix, which is summed in another order.
EXACT = {"temperature": 0, "num_predict": TOKENS, "cache_prompt": False}
QUESTION: list[dict[str, str]] = [{"role": "user", "content": "Name three rivers of Europe."}]
SPEAKS_OPENAI: dict[str, Any] = {
    "model": MODEL,
    "messages": QUESTION,
    "temperature": 0,
    "max_tokens": TOKENS,
    "extra_body": {"cache_prompt": False},
}
VOLATILE = ("created_at", "total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


@dataclass
class Side:
    """Both clients towards one port for Ollama's API and one for OpenAI's."""

    ollama: ollama.Client
    openai: openai.OpenAI


@dataclass
class Scene:
    """The proxy of node A of a two-node cluster, and A's engine without a proxy."""

    nodes: list[Node]
    proxy: Side
    engine: Side


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One cluster for all of these tests: its engines take some seconds to start."""
    model_cache()
    with Daemons(tmp_path_factory.mktemp("clients")) as daemons, contextlib.ExitStack() as stack:
        for name in "AB":
            daemons.home(name, settings("embedded"))
        daemons.pair("A", "B")
        nodes = daemons.start("A", "B")
        daemons.until_connected()
        face, llama = engine_ports(nodes[0])
        port = nodes[0].port
        yield Scene(nodes, _side(port, port, stack), _side(face, llama, stack))


def engine_ports(node: Node) -> tuple[int, int]:
    """Where the embedded engine of a node answers Ollama's API and OpenAI's: the ports nobody is told."""
    file = node.file
    (child,) = node.children()
    known = {file.admin_port, file.peer_port, *file.client_ports.values()}
    (face,) = _listening(psutil.Process(node.pid)) - known
    (llama,) = _listening(child)
    return face, llama


def _listening(process: psutil.Process) -> set[int]:
    return {one.laddr.port for one in process.net_connections() if one.status == psutil.CONN_LISTEN}


def _side(ollama_port: int, openai_port: int, stack: contextlib.ExitStack) -> Side:
    web = stack.enter_context(openai.DefaultHttpxClient(trust_env=False))
    speaker = openai.OpenAI(
        base_url=f"http://127.0.0.1:{openai_port}/v1", api_key="none", max_retries=0, http_client=web
    )
    asker = stack.enter_context(ollama.Client(f"http://127.0.0.1:{ollama_port}", trust_env=False))
    return Side(asker, speaker)


def steady(answer: Any) -> dict[str, Any]:
    """What must be the same each time of one of Ollama's answers."""
    return {key: value for key, value in answer.model_dump().items() if key not in VOLATILE}


def same(scene: Scene, ask: Callable[[Side], Any]) -> Any:
    """The proxy's answer, which is the engine's own."""
    through = ask(scene.proxy)
    assert through == ask(scene.engine)
    return through


def is_free(node: Node) -> bool:
    """Whether nothing runs, waits or occupies a slot."""
    status = node.status()
    in_flight = sum(engine.in_flight for one in status.nodes for engine in one.engines)
    return not (status.running or status.queue_length or in_flight)


# --- ollama ---------------------------------------------------------------------------------------------


def test_ollama_chat(scene: Scene) -> None:
    """A whole reply has the engine's text, counts and reason."""
    answer = same(scene, lambda side: steady(side.ollama.chat(MODEL, QUESTION, options=EXACT)))
    assert answer["message"]["content"].strip()
    assert (answer["done"], answer["done_reason"], answer["eval_count"]) == (True, "length", TOKENS)


def test_ollama_chat_streamed(scene: Scene) -> None:
    """A stream has the engine's parts, one a token, and ends with its counts."""

    def ask(side: Side) -> list[dict[str, Any]]:
        return [steady(part) for part in side.ollama.chat(MODEL, QUESTION, stream=True, options=EXACT)]

    *parts, last = same(scene, ask)
    assert len(parts) == TOKENS
    assert (last["done"], last["eval_count"]) == (True, TOKENS)


def test_ollama_durations_are_real(scene: Scene) -> None:
    """Durations are nanoseconds of the work and fit into the time that the client waited."""
    began_at = time.monotonic_ns()
    answer = scene.proxy.ollama.chat(MODEL, QUESTION, options=EXACT).model_dump()
    waited_ns = time.monotonic_ns() - began_at
    worked_ns = answer["prompt_eval_duration"] + answer["eval_duration"]
    assert 1_000_000 < worked_ns <= answer["total_duration"] * 1.1
    assert answer["total_duration"] <= waited_ns


def test_ollama_generate(scene: Scene) -> None:
    """generate() too, streamed and whole."""

    def ask(side: Side) -> list[str]:
        prompt = "The river flows through"
        whole = side.ollama.generate(MODEL, prompt, options=EXACT).response or ""
        parts = [
            part.response or "" for part in side.ollama.generate(MODEL, prompt, stream=True, options=EXACT)
        ]
        return [whole, "".join(parts)]

    whole, streamed = same(scene, ask)
    assert whole == streamed
    assert whole.strip()


def test_ollama_model_list(scene: Scene) -> None:
    """list(), show() and ps() tell of the embedded model, as the engine does."""
    listed = same(scene, lambda side: [model.model_dump() for model in side.ollama.list().models])
    assert [model["model"] for model in listed] == [MODEL]
    shown = same(scene, lambda side: side.ollama.show(MODEL).model_dump())
    assert "completion" in shown["capabilities"]
    running = same(scene, lambda side: [model.model_dump() for model in side.ollama.ps().models])
    assert [model["model"] for model in running] == [MODEL]


def test_ollama_embeddings(scene: Scene) -> None:
    """embed() gives the engine's vectors, one for each text."""

    texts = ["a river", "a stone"]
    first, second = same(scene, lambda side: side.ollama.embed(MODEL, texts).embeddings)
    assert (len(first), len(second)) == (576, 576)
    assert first != second


def test_ollama_errors(scene: Scene) -> None:
    """An unknown model is 404 and a bad option 400, in the engine's own words."""

    def error_of(ask: Callable[[], Any]) -> tuple[int, str]:
        with pytest.raises(ollama.ResponseError) as caught:
            ask()
        return caught.value.status_code, caught.value.error

    status, words = same(scene, lambda side: error_of(lambda: side.ollama.chat("nobody", QUESTION)))
    assert status == 404
    assert "nobody" in words
    bad = cast("Any", {"temperature": "warm"})
    status, _ = same(scene, lambda side: error_of(lambda: side.ollama.chat(MODEL, QUESTION, options=bad)))
    assert status == 400


# --- openai ---------------------------------------------------------------------------------------------


def test_openai_chat(scene: Scene) -> None:
    """A whole reply has the engine's text, counts and reason."""

    def ask(side: Side) -> Any:
        answer = side.openai.chat.completions.create(**SPEAKS_OPENAI)
        counts = answer.usage.completion_tokens if answer.usage else None
        return answer.choices[0].message.content, answer.choices[0].finish_reason, counts

    text, reason, tokens = same(scene, ask)
    assert text.strip()
    assert (reason, tokens) == ("length", TOKENS)


def test_openai_chat_streamed(scene: Scene) -> None:
    """A stream has the engine's parts in the engine's order."""

    def ask(side: Side) -> list[Any]:
        stream = side.openai.chat.completions.create(**SPEAKS_OPENAI, stream=True)
        return [(part.choices[0].delta.content, part.choices[0].finish_reason) for part in stream]

    parts = same(scene, ask)
    assert "".join(text or "" for text, _ in parts).strip()
    assert parts[-1][1] == "length"


def test_openai_completions(scene: Scene) -> None:
    """The older endpoint for plain text works as well."""

    def ask(side: Side) -> str:
        asked: dict[str, Any] = {"prompt": "The river flows", "extra_body": {"cache_prompt": False}}
        answer = side.openai.completions.create(model=MODEL, max_tokens=TOKENS, temperature=0, **asked)
        return answer.choices[0].text

    assert same(scene, ask).strip()


def test_openai_model_list(scene: Scene) -> None:
    """models.list() tells of the embedded model."""
    assert same(scene, lambda side: [model.id for model in side.openai.models.list()]) == [MODEL]


def test_openai_embeddings(scene: Scene) -> None:
    """embeddings.create() gives the engine's vectors."""

    def ask(side: Side) -> Any:
        return [one.embedding for one in side.openai.embeddings.create(model=MODEL, input=["a", "b"]).data]

    assert [len(vector) for vector in same(scene, ask)] == [576, 576]


def test_openai_errors(scene: Scene) -> None:
    """A request that is none is 400 in the engine's own words, of any kind that the client knows."""

    def ask(side: Side) -> Any:
        with pytest.raises(openai.BadRequestError) as caught:
            side.openai.chat.completions.create(model=MODEL, messages=cast("Any", "no list"))
        return caught.value.status_code, caught.value.body

    status, body = same(scene, ask)
    assert status == 400
    assert body["message"]


def test_openai_unknown_model(scene: Scene) -> None:
    """llama.cpp answers for any name; a model that no node lists is its to answer, so that answer stands."""

    def ask(side: Side) -> Any:
        return side.openai.chat.completions.create(**SPEAKS_OPENAI | {"model": "nobody"}).choices[0].message

    assert same(scene, ask).content


# --- leaving --------------------------------------------------------------------------------------------


def leave_ollama(side: Side) -> None:
    """Take three parts of a long reply and go."""
    options = {"num_predict": 3000, "ignore_eos": True}
    stream = side.ollama.chat(MODEL, QUESTION, stream=True, options=options)
    for _ in range(3):
        next(stream)
    cast("Any", stream).close()  # a generator


def leave_openai(side: Side) -> None:
    """Take three parts of a long reply and go."""
    long = SPEAKS_OPENAI | {"max_tokens": 3000, "extra_body": {"ignore_eos": True}}
    with side.openai.chat.completions.create(**long, stream=True) as stream:
        for number, _ in enumerate(stream):
            if number == 3:
                return


@pytest.mark.parametrize("leave", [leave_ollama, leave_openai])
def test_a_client_that_leaves_frees_engine_and_slot(scene: Scene, leave: Callable[[Side], None]) -> None:
    """Long before its reply would end nothing is in flight and the engines compute nothing any more."""
    leave(scene.proxy)
    until(lambda: is_free(scene.nodes[0]) and is_free(scene.nodes[1]), "slots are free", SOON_S)
    engines = [node.children()[0] for node in scene.nodes]
    until(lambda: all(_is_quiet(engine) for engine in engines), "engines are quiet", SOON_S)
    assert scene.nodes[0].report().records[-1].outcome == "cancelled"
    assert scene.proxy.ollama.chat(MODEL, QUESTION, options=EXACT).done


def _is_quiet(process: psutil.Process) -> bool:
    before = sum(process.cpu_times()[:2])
    time.sleep(0.2)  # the window that is looked at
    return bool(sum(process.cpu_times()[:2]) - before <= 0.02)
