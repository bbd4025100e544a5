import json
from dataclasses import replace
from typing import Any

import pytest

from pairproxy.core.dialects.translate_reply import immediate_reply, translate_error, translate_reply
from pairproxy.core.dialects.translate_request import Call, Route
from pairproxy.core.errors import BrokenReply

STAMP = "2026-11-29T12:00:00Z"
CHAT = Call(Route.CHAT, "M:1", "/v1/chat/completions", b"", is_streaming=False)
GENERATE = replace(CHAT, route=Route.GENERATE)
EMBED = Call(Route.EMBED, "M:1", "/v1/embeddings", b"", is_streaming=False)
TIMINGS = {"cache_n": 31, "prompt_n": 1, "prompt_ms": 5.922, "predicted_n": 4, "predicted_ms": 17.479}
USAGE = {"completion_tokens": 4, "prompt_tokens": 32, "total_tokens": 36}


def openai_reply(message: dict[str, Any], **more: Any) -> bytes:
    """A whole reply as llama.cpp writes it."""
    choice = {"finish_reason": "length", "index": 0, "message": message}
    return json.dumps({"choices": [choice], "usage": USAGE, "timings": TIMINGS, **more}).encode()


def reply(call: Call, body: bytes) -> dict[str, Any]:
    """The reply that the client gets."""
    return dict(json.loads(translate_reply(call, body, STAMP, 0.5)))


def test_a_chat_reply_has_ollamas_shape_and_units() -> None:
    """Counts include the cached part, durations are nanoseconds, what is 0 is left out."""
    assert reply(CHAT, openai_reply({"role": "assistant", "content": "Hello"})) == {
        "model": "M:1",
        "created_at": STAMP,
        "message": {"role": "assistant", "content": "Hello"},
        "done": True,
        "done_reason": "length",
        "total_duration": 500_000_000,
        "prompt_eval_count": 32,
        "prompt_eval_duration": 5_922_000,
        "eval_count": 4,
        "eval_duration": 17_479_000,
    }


def test_a_generate_reply_says_response() -> None:
    """The same for /api/generate, from a chat as well as from a bare completion."""
    assert reply(GENERATE, openai_reply({"content": "Hello"}))["response"] == "Hello"
    bare = json.dumps({"choices": [{"text": "Hi", "finish_reason": "stop"}], "usage": USAGE}).encode()
    assert reply(GENERATE, bare)["response"] == "Hi"
    assert reply(GENERATE, bare)["done_reason"] == "stop"


def test_without_timings_usage_counts() -> None:
    """Another OpenAI server tells tokens but no durations."""
    translated = reply(CHAT, openai_reply({"content": "x"}, timings=None))
    assert (translated["prompt_eval_count"], translated["eval_count"]) == (32, 4)
    assert "eval_duration" not in translated


def test_loading_is_told_when_the_engine_tells_it() -> None:
    """load_ms becomes load_duration."""
    translated = reply(CHAT, openai_reply({"content": "x"}, timings={**TIMINGS, "load_ms": 250.0}))
    assert translated["load_duration"] == 250_000_000


def test_tool_calls_and_thinking_are_told() -> None:
    """Arguments become an object, the finish reason of a call is stop, reasoning is thinking."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    message = {"content": None, "reasoning_content": "hm", "tool_calls": [call]}
    body = json.loads(openai_reply(message))
    body["choices"][0]["finish_reason"] = "tool_calls"
    translated = reply(CHAT, json.dumps(body).encode())
    assert translated["message"] == {
        "role": "assistant",
        "content": "",
        "thinking": "hm",
        "tool_calls": [{"id": "c1", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}}],
    }
    assert translated["done_reason"] == "stop"


def test_a_call_that_was_cut_off_is_told_as_text() -> None:
    """Nothing that the model wrote is lost."""
    call = {"id": "c1", "function": {"name": "f", "arguments": '{"city":"Par'}}
    message = reply(CHAT, openai_reply({"content": "a", "tool_calls": [call]}))["message"]
    assert message == {"role": "assistant", "content": 'a{"city":"Par'}


def test_logprobs_keep_their_numbers() -> None:
    """Tokens, their bytes and their rivals are told by Ollama's names."""
    rival = {"id": 2, "token": "Hi", "bytes": [72], "logprob": -2.0}
    entry = {"id": 1, "token": "He", "bytes": [72, 101], "logprob": -0.5, "top_logprobs": [rival]}
    body = json.loads(openai_reply({"content": "He"}))
    body["choices"][0]["logprobs"] = {"content": [entry]}
    del rival["id"], entry["id"]
    assert reply(CHAT, json.dumps(body).encode())["logprobs"] == [entry]


def test_embeddings_come_in_the_order_asked() -> None:
    """Vectors are sorted by their index."""
    data = [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}]
    body = json.dumps({"data": data, "usage": {"prompt_tokens": 2}}).encode()
    translated = reply(EMBED, body)
    assert translated["embeddings"] == [[1.0, 0.0], [0.0, 1.0]]
    assert (translated["prompt_eval_count"], translated["total_duration"]) == (2, 500_000_000)
    assert reply(replace(EMBED, route=Route.EMBEDDINGS), body) == {"embedding": [1.0, 0.0]}


def test_shorter_embeddings_have_length_one_again() -> None:
    """Cutting to fewer dimensions normalises anew."""
    body = json.dumps({"data": [{"index": 0, "embedding": [3.0, 4.0, 9.0]}], "usage": {"prompt_tokens": 1}})
    assert reply(replace(EMBED, dimensions=2), body.encode())["embeddings"] == [[0.6, 0.8]]


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[3]}', b"[" * 9999]
)
@pytest.mark.parametrize("call", [CHAT, EMBED], ids=["chat", "embed"])
def test_another_shape_is_a_broken_reply(call: Call, body: bytes) -> None:
    """What is no OpenAI reply may be tried on another node."""
    with pytest.raises(BrokenReply):
        translate_reply(call, body, STAMP, 0.5)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error":{"code":400,"message":"too long","type":"x"}}', "too long"),
        (b'{"error":"plain"}', "plain"),
        (b'{"error":{}}', "the engine answered with status 400"),
        (b"<html>", "the engine answered with status 400"),
        (b"[" * 9999, "the engine answered with status 400"),
    ],
)
def test_errors_are_one_text(body: bytes, text: str) -> None:
    """Ollama's errors are an object with one sentence."""
    assert json.loads(translate_error(CHAT, body, 400)) == {"error": text}


def test_an_engine_without_embeddings_says_so_in_the_clients_words() -> None:
    """llama.cpp's advice to restart it with a flag is of no use to a client."""
    body = b'{"error":{"code":501,"message":"Start it with `--embeddings`"}}'
    assert json.loads(translate_error(EMBED, body, 501)) == {"error": '"M:1" does not support embeddings'}


def test_loading_and_unloading_are_answered_at_once() -> None:
    """One object with the reason, whatever the client said about streaming."""
    record = {"model": "M:1", "created_at": STAMP, "done": True}
    unload = immediate_reply(replace(CHAT, done_reason="unload"), STAMP, 0.1)
    message = {"role": "assistant", "content": ""}
    assert json.loads(unload) == {**record, "message": message, "done_reason": "unload"}
    load = immediate_reply(replace(GENERATE, done_reason="load"), STAMP, 0.1)
    assert json.loads(load) == {**record, "response": "", "done_reason": "load"}


def test_nothing_to_embed_is_answered_with_nothing() -> None:
    """No text, no vector."""
    assert json.loads(immediate_reply(EMBED, STAMP, 0.1))["embeddings"] == []
    assert json.loads(immediate_reply(replace(EMBED, route=Route.EMBEDDINGS), STAMP, 0.1)) == {
        "embedding": []
    }
