import json

import pytest

from pairproxy.core.dialects.translate import (
    Call,
    ReplyStream,
    Route,
    immediate_reply,
    model_missing,
    read_object,
    requested_model,
    translate_error,
    translate_reply,
    translate_request,
    write_json,
)
from pairproxy.core.errors import BadRequest
from tests.core.dialects.test_ollama_catalogue import CARD
from tests.core.dialects.test_translate_reply import openai_reply
from tests.core.dialects.test_translate_stream import HELLO

STAMP = "2026-11-29T12:00:00Z"


def answer(route: Route, body: bytes, upstream: bytes, status: int = 200) -> list[bytes]:
    """One request from the client's bytes to the client's bytes, as the Ollama face does it."""
    asked = read_object(body)
    assert requested_model(asked)
    call = translate_request(route, asked, CARD)
    assert isinstance(call, Call)
    if call.done_reason is not None:
        return [immediate_reply(call, STAMP, 0.1)]
    if status != 200:
        return [translate_error(call, upstream, status)]
    if not call.is_streaming:
        return [translate_reply(call, upstream, STAMP, 0.1)]
    stream = ReplyStream(call)
    return [*stream.feed(upstream, STAMP, 0.1), *stream.close(STAMP, 0.1)]


def ask(**fields: object) -> bytes:
    """A chat request with these fields more."""
    return write_json({"model": "smollm2:135m", "messages": [{"role": "user", "content": "hi"}], **fields})


def test_a_conversation_streams() -> None:
    """A chat goes all the way, and every line echoes the model's name."""
    told = [json.loads(line) for line in answer(Route.CHAT, ask(), HELLO)]
    assert "".join(record["message"]["content"] for record in told) == "Grüß dich\n"
    assert {record["model"] for record in told} == {"smollm2:135m"}
    assert [record["done"] for record in told] == [False, False, True]


def test_a_conversation_comes_whole() -> None:
    """The same without streaming is one object."""
    (told,) = answer(Route.CHAT, ask(stream=False), openai_reply({"content": "hello"}))
    assert json.loads(told)["message"]["content"] == "hello"


def test_an_error_comes_as_ollamas() -> None:
    """The engine's sentence reaches the client in Ollama's shape."""
    (told,) = answer(Route.CHAT, ask(), b'{"error":{"message":"too long"}}', 400)
    assert json.loads(told) == {"error": "too long"}


def test_nothing_to_say_is_answered_without_asking() -> None:
    """No messages: loaded."""
    (told,) = answer(Route.CHAT, ask(messages=[]), b"")
    assert json.loads(told)["done_reason"] == "load"


def test_nesting_that_can_be_read_but_not_written_is_refused() -> None:
    """However deep a body is nested, the outcome is a translation or a BadRequest."""
    for depth in range(100, 3000, 50):
        schema = b'{"a":' * depth + b"1" + b"}" * depth
        body = b'{"model":"m","messages":[{"role":"user","content":"x"}],"format":' + schema + b"}"
        try:
            translate_request(Route.CHAT, read_object(body), CARD)
        except BadRequest:
            continue


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/api/chat", "model 'x' not found"),
        ("/api/show", "model 'x' not found"),
        ("/api/embed", 'model "x" not found, try pulling it first'),
    ],
)
def test_a_model_that_is_not_here_is_told_in_ollamas_words(path: str, sentence: str) -> None:
    """Each route has its own words for it."""
    assert model_missing(path, "x") == sentence
