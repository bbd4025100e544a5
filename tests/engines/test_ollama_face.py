import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import ollama
import pytest

from pairproxy.config import PacedSettings
from pairproxy.core.errors import Unreachable
from pairproxy.engines.ollama_face import OllamaFace
from pairproxy.engines.paced import PacedEngine
from tests.core.dialects.test_ollama_catalogue import CARD
from tests.support.running import run_async

QUICK = PacedSettings(prefill=1e6, decode=2000.0)
MODEL = QUICK.model
MESSAGES = [{"role": "user", "content": "hello"}]
SHORT = {"num_predict": 5}
Play = Callable[[PacedEngine, ollama.AsyncClient], Awaitable[Any]]


def with_client(play: Play, settings: PacedSettings = QUICK, slots: int = 2) -> Any:
    """Run ``play(engine, client)`` with Ollama's own client against the face of a paced engine."""

    async def played() -> Any:
        engine = PacedEngine(settings, slots=slots)
        await engine.start()
        try:
            async with ollama.AsyncClient(url_of(engine)) as client:
                return await play(engine, client)
        finally:
            await engine.stop()

    return run_async(played())


def url_of(engine: PacedEngine) -> str:
    """Where the face answers."""
    host, port = engine.address("/api/chat")
    return f"http://{host}:{port}"


def test_a_chat_comes_whole() -> None:
    """Text, reason, counts and durations in nanoseconds."""

    async def play(_: PacedEngine, client: ollama.AsyncClient) -> ollama.ChatResponse:
        return await client.chat(MODEL, MESSAGES, options=SHORT)

    reply = with_client(play)
    assert len(reply.message.content.split()) == 5
    assert (reply.model, reply.done, reply.done_reason) == (MODEL, True, "length")
    assert (reply.eval_count, reply.prompt_eval_count) == (5, 4)
    assert 0.0025 <= reply.eval_duration / 1e9 <= reply.total_duration / 1e9 < 5


def test_a_chat_streams_token_by_token() -> None:
    """One record a token, the same text as whole, the model's name as it was asked for."""

    async def play(_: PacedEngine, client: ollama.AsyncClient) -> tuple[str, list[ollama.ChatResponse]]:
        whole = await client.chat(MODEL, MESSAGES, options=SHORT)
        stream = await client.chat("PACED:1B", MESSAGES, options=SHORT, stream=True)
        return whole.message.content or "", [record async for record in stream]

    whole, records = with_client(play)
    assert "".join(record.message.content for record in records) == whole
    assert [record.done for record in records] == [False] * 5 + [True]
    assert {record.model for record in records} == {"PACED:1B"}
    assert records[-1].eval_count == 5


def test_generate_speaks_too() -> None:
    """/api/generate streams and comes whole, templated and raw."""

    async def play(_: PacedEngine, client: ollama.AsyncClient) -> tuple[Any, str, Any]:
        whole = await client.generate(MODEL, "hello", system="be brief", options=SHORT)
        stream = await client.generate(MODEL, "hello", system="be brief", options=SHORT, stream=True)
        text = "".join([record.response or "" async for record in stream])
        return whole, text, await client.generate(MODEL, "say 7 tokens", raw=True)

    whole, streamed, raw = with_client(play)
    assert whole.response == streamed != ""
    assert (whole.done_reason, raw.done_reason, raw.eval_count, raw.prompt_eval_count) == (
        "length",
        "stop",
        7,
        3,
    )


def test_the_catalogue_answers_every_clients_first_questions() -> None:
    """list, show and ps agree on the model; ps is empty until it is loaded."""

    async def play(_: PacedEngine, client: ollama.AsyncClient) -> tuple[Any, ...]:
        before = await client.ps()
        await client.chat(MODEL, MESSAGES, options=SHORT)
        return before, await client.ps(), await client.list(), await client.show(MODEL)

    before, after, listed, shown = with_client(play)
    assert before.models == []
    assert [model.model for model in after.models] == [model.model for model in listed.models] == [MODEL]
    assert after.models[0].digest == listed.models[0].digest
    assert listed.models[0].digest in shown.modelfile
    assert "completion" in shown.capabilities


def test_embeddings_by_both_routes() -> None:
    """/api/embed takes many texts, the older route one; the vectors are the same."""

    async def play(_: PacedEngine, client: ollama.AsyncClient) -> tuple[Any, Any]:
        return await client.embed(MODEL, ["a", "b"]), await client.embeddings(MODEL, "a")

    many, one = with_client(play)
    assert len(many.embeddings) == 2
    assert many.embeddings[0] == one.embedding
    assert many.prompt_eval_count == 2


def test_loading_and_unloading_are_acknowledged() -> None:
    """The empty requests by which clients load and unload get Ollama's one-object answers."""

    async def play(_: PacedEngine, client: ollama.AsyncClient) -> list[str | None]:
        answers = [
            await client.generate(MODEL),
            await client.generate(MODEL, keep_alive=0),
            await client.chat(MODEL, [], keep_alive="0s"),
        ]
        return [answer.done_reason for answer in answers]

    assert with_client(play) == ["load", "unload", "unload"]


def test_errors_have_status_and_sentence() -> None:
    """The client raises with Ollama's words."""

    async def play(_: PacedEngine, client: ollama.AsyncClient) -> list[tuple[int, str]]:
        faults: list[Awaitable[Any]] = [
            client.chat("nope", MESSAGES),
            client.embed("nope", "x"),
            client.show("nope"),
            client.chat(MODEL, MESSAGES, think=True),
            client.pull(MODEL),
            client.delete(MODEL),
        ]
        raised = await asyncio.gather(*faults, return_exceptions=True)
        assert all(isinstance(error, ollama.ResponseError) for error in raised)
        return [
            (error.status_code, error.error) for error in raised if isinstance(error, ollama.ResponseError)
        ]

    told = with_client(play)
    assert told[:4] == [
        (404, "model 'nope' not found"),
        (404, 'model "nope" not found, try pulling it first'),
        (404, "model 'nope' not found"),
        (400, '"paced:1b" does not support thinking'),
    ]
    assert [status for status, _ in told[4:]] == [501, 501]
    assert all("fixed model" in sentence for _, sentence in told[4:])


async def raw(url: str, method: str, path: str, body: bytes = b"") -> tuple[int, str | None, bytes]:
    """Status, type and body of one request."""
    async with aiohttp.ClientSession() as session, session.request(method, url + path, data=body) as reply:
        assert "Server" not in reply.headers
        return reply.status, reply.headers.get("Content-Type"), await reply.read()


def test_the_small_answers_are_ollamas_to_the_byte() -> None:
    """Greeting, unknown path, wrong method, framing of whole and streamed replies."""
    text, a_json = "text/plain; charset=utf-8", "application/json; charset=utf-8"

    async def play(engine: PacedEngine, _: ollama.AsyncClient) -> None:
        url = url_of(engine)
        assert await raw(url, "GET", "/") == (200, text, b"Ollama is running")
        assert (await raw(url, "HEAD", "/"))[0] == 200
        assert await raw(url, "GET", "/nope") == (404, text, b"404 page not found")
        assert await raw(url, "GET", "/api/chat") == (405, text, b"405 method not allowed")
        assert await raw(url, "POST", "/api/tags") == (405, text, b"405 method not allowed")
        assert (await raw(url, "GET", "/api/version"))[:2] == (200, a_json)
        body = json.dumps({"model": MODEL, "messages": MESSAGES, "options": SHORT}).encode()
        assert (await raw(url, "POST", "/api/chat", body))[:2] == (200, "application/x-ndjson")
        load = json.dumps({"model": MODEL}).encode()
        assert (await raw(url, "POST", "/api/chat", load))[:2] == (200, a_json)

    with_client(play)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b'{"model":"m"', b'{"model":"paced:1b","x":NaN}', b'{"messages":[]}',
     b'{"model":"paced:1b","messages":3}', b'{"model":"paced:1b","stream":"yes"}', b"[" * 100_000],
    ids=lambda body: repr(body[:30]),
)  # fmt: skip
def test_bad_bodies_never_reach_the_engine(body: bytes) -> None:
    """400 with an error object, and no request inside."""

    async def play(engine: PacedEngine, _: ollama.AsyncClient) -> int:
        status, _type, told = await raw(url_of(engine), "POST", "/api/chat", body)
        assert set(json.loads(told)) == {"error"}
        assert engine.gpu.slots.max_in_flight == 0
        return status

    assert with_client(play) == 400


def test_a_body_too_large_is_refused() -> None:
    """413 with a sentence, whatever the limit."""

    async def play() -> tuple[int, str | None, bytes]:
        face = OllamaFace(CARD, lambda: ("127.0.0.1", 1), body_bytes=1000)
        try:
            return await raw(f"http://127.0.0.1:{await face.start()}", "POST", "/api/chat", b" " * 5000)
        finally:
            await face.stop()

    status, _, body = run_async(play())
    assert status == 413
    assert "1000 bytes" in json.loads(body)["error"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_the_engine(stream: bool) -> None:
    """Closing the client's connection closes the engine's, and the slot is free."""

    async def play(engine: PacedEngine, client: ollama.AsyncClient) -> None:
        async def go() -> None:
            ask: Any = client.chat
            reply = await ask(MODEL, MESSAGES, stream=stream, options={"num_predict": 100_000})
            async for _ in reply:
                pass

        leaving = asyncio.create_task(go())
        await engine.gpu.slots.until(lambda: engine.gpu.slots.running > 0)
        leaving.cancel()
        async with asyncio.timeout(5):
            await engine.settled(0)

    with_client(play)


def test_an_engine_that_is_away_is_told_as_such() -> None:
    """While the engine starts anew its own sentence reaches the client."""

    def nowhere() -> tuple[str, int]:
        raise Unreachable("It starts again; try in a few seconds.")

    async def play() -> tuple[int, str]:
        face = OllamaFace(CARD, nowhere)
        try:
            async with ollama.AsyncClient(f"http://127.0.0.1:{await face.start()}") as client:
                with pytest.raises(ollama.ResponseError) as raised:
                    await client.chat(CARD.name, MESSAGES)
            return raised.value.status_code, raised.value.error
        finally:
            await face.stop()

    assert run_async(play()) == (502, "It starts again; try in a few seconds.")
