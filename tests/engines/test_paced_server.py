import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import openai

from pairproxy.config import PacedSettings
from pairproxy.engines.paced import PacedEngine
from tests.support.running import run_async

QUICK = PacedSettings(prefill=1e6, decode=5000.0)
MESSAGES: Any = [{"role": "user", "content": "hello"}]


def with_server(play: Callable[[PacedEngine, str], Awaitable[Any]], settings: PacedSettings = QUICK) -> Any:
    """Run ``play(engine, url)`` against a running engine of two slots."""

    async def played() -> Any:
        engine = PacedEngine(settings, slots=2)
        await engine.start()
        try:
            host, port = engine.address("/v1")
            return await play(engine, f"http://{host}:{port}")
        finally:
            await engine.stop()

    return run_async(played())


async def posted(url: str, body: Any) -> tuple[int, bytes]:
    """Status and body of a POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with aiohttp.ClientSession() as session, session.post(url, data=data) as reply:
        return reply.status, await reply.read()


async def events(url: str, **more: Any) -> list[Any]:
    """The events of a streamed reply, the end mark as text."""
    _, body = await posted(url, {"messages": MESSAGES, "prompt": "hello", "stream": True, **more})
    assert body.endswith(b"\n\n")
    pieces = [event.removeprefix("data: ") for event in body.decode().strip().split("\n\n")]
    return [piece if piece == "[DONE]" else json.loads(piece) for piece in pieces]


def test_a_chat_streams_as_llamacpp_streams() -> None:
    """Role, one event a token, reason, usage with timings, end mark: in this order and no other."""

    async def play(_: PacedEngine, url: str) -> list[Any]:
        path = f"{url}/v1/chat/completions"
        return await events(path, max_tokens=3, stream_options={"include_usage": True})

    first, *tokens, reason, last, mark = with_server(play)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert [list(token["choices"][0]["delta"]) for token in tokens] == [["content"]] * 3
    assert (reason["choices"][0]["delta"], reason["choices"][0]["finish_reason"]) == ({}, "length")
    assert (last["choices"], last["usage"]["completion_tokens"], last["timings"]["predicted_n"]) == ([], 3, 3)
    assert mark == "[DONE]"


def test_without_usage_the_timings_come_with_the_reason() -> None:
    """As llama.cpp does when no usage was asked for, and always for bare completions."""

    async def play(_: PacedEngine, url: str) -> tuple[list[Any], list[Any]]:
        chat = await events(f"{url}/v1/chat/completions", max_tokens=2)
        usage = {"include_usage": True}
        return chat, await events(f"{url}/v1/completions", max_tokens=2, stream_options=usage)

    chat, bare = with_server(play)
    assert "usage" not in chat[-2]
    assert chat[-2]["timings"]["predicted_n"] == 2
    assert [event["choices"][0]["text"] != "" for event in bare[:-1]] == [True, True, False]
    assert (bare[-2]["usage"]["completion_tokens"], bare[-2]["timings"]["prompt_n"]) == (2, 2)


def test_streamed_and_whole_are_the_same_text() -> None:
    """The way of telling changes nothing."""

    async def play(_: PacedEngine, url: str) -> tuple[str, str]:
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        async with client:
            ask = client.chat.completions.create
            whole = await ask(model="m", messages=MESSAGES, max_tokens=20)
            stream = await ask(model="m", messages=MESSAGES, max_tokens=20, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            return whole.choices[0].message.content or "", text

    whole, streamed = with_server(play)
    assert whole == streamed
    assert len(whole.split()) == 20


def test_a_chain_finds_its_last_turn_cached() -> None:
    """The next turn of a conversation reads only what is new, reply included."""

    async def play(_: PacedEngine, url: str) -> tuple[int, int]:
        async def turn(messages: Any) -> Any:
            body = {"messages": messages, "max_tokens": 40}
            return json.loads((await posted(f"{url}/v1/chat/completions", body))[1])

        first = [{"role": "user", "content": "x" * 800}]
        reply = await turn(first)
        said = reply["choices"][0]["message"]
        later = await turn([*first, said, {"role": "user", "content": "and then?"}])
        return later["timings"]["cache_n"], (800 + len(said["content"])) // 4

    cached, told = with_server(play)
    assert told - 16 <= cached <= told + 16


def test_the_official_client_gets_models_and_embeddings() -> None:
    """OpenAI's Python client asks for base64 and gets the same vectors."""

    async def play(_: PacedEngine, url: str) -> tuple[list[str], list[float], list[float]]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            models = await client.models.list()
            one = await client.embeddings.create(model="m", input="a")
            two = await client.embeddings.create(model="m", input="a", encoding_format="float")
            return [model.id for model in models.data], one.data[0].embedding, two.data[0].embedding

    names, packed, plain = with_server(play)
    assert names == ["paced:1b"]
    assert len(packed) == len(plain)
    assert all(abs(one - two) < 1e-6 for one, two in zip(packed, plain, strict=True))


def test_errors_are_told_as_llamacpp_tells_them() -> None:
    """Status, code, sentence and type, for every route."""

    async def play(_: PacedEngine, url: str) -> list[tuple[int, Any]]:
        bodies = {"chat/completions": b"{", "completions": {"prompt": 3}, "embeddings": {"input": 3}}
        answers = [await posted(f"{url}/v1/{path}", body) for path, body in bodies.items()]
        return [(status, json.loads(body)["error"]) for status, body in answers]

    for status, error in with_server(play):
        assert status == error["code"] == 400
        assert error["type"] == "invalid_request_error"
        assert error["message"]


def test_the_probes_tell_slots_and_health() -> None:
    """/health, /props and /slots say what a monitor reads; a running request shows in /slots."""

    async def play(engine: PacedEngine, url: str) -> tuple[Any, Any, Any]:
        async with aiohttp.ClientSession() as session:

            async def got(path: str) -> Any:
                async with session.get(f"{url}{path}") as reply:
                    return await reply.json()

            body = json.dumps({"prompt": "x", "max_tokens": 100_000}).encode()
            running = asyncio.create_task(posted(f"{url}/v1/completions", body))
            await engine.gpu.slots.until(lambda: engine.gpu.slots.running > 0)
            busy = [slot["is_processing"] for slot in await got("/slots")]
            running.cancel()
            await engine.settled(0)
            return await got("/health"), (await got("/props"))["total_slots"], busy

    assert with_server(play) == ({"status": "ok"}, 2, [True, False])


def test_fast_forward_sends_as_many_records_a_second_as_without() -> None:
    """Eight times as fast, eight tokens go in a record; they are counted as tokens, not as records."""
    fast = PacedSettings(prefill=1e6, decode=5000.0, fast_forward=8.0)

    async def play(_: PacedEngine, url: str) -> list[Any]:
        return await events(f"{url}/v1/completions", max_tokens=20)

    *pieces, last, _ = with_server(play, fast)
    texts = [piece["choices"][0]["text"] for piece in pieces]
    assert [len(text.split()) for text in texts] == [1, 8, 8, 3]
    assert last["timings"]["predicted_n"] == 20


def test_it_tells_the_most_it_ever_held() -> None:
    """Whoever handed over more than the slots can be found out afterwards, also over HTTP."""

    async def play(_: PacedEngine, url: str) -> Any:
        body = {"prompt": "hello", "max_tokens": 20}
        await asyncio.gather(*(posted(f"{url}/v1/completions", body) for _ in range(3)))
        async with aiohttp.ClientSession() as session, session.get(f"{url}/props") as reply:
            return await reply.json()

    props = with_server(play)
    assert (props["total_slots"], props["most_at_once"]) == (2, 3)
