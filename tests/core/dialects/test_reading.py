import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.dialects.reading import Asked, read
from pairproxy.core.models import ModelName


def asked(target: str, **body: object) -> Asked:
    """What a body with a model and these fields asks."""
    result = read(target, json.dumps({"model": "m", **body}).encode())
    assert result is not None
    return result


def test_the_model_has_one_spelling() -> None:
    """Ollama's default tag is added, its default registry taken away."""
    body = json.dumps({"model": "registry.ollama.ai/library/Llama3"}).encode()
    assert read("/api/chat", body) == Asked(ModelName("llama3:latest"), True, 1, None)


@pytest.mark.parametrize(
    ("target", "stream", "expected"),
    [
        ("/api/chat", None, True), ("/api/generate", False, False), ("/api/embed", None, False),
        ("/v1/chat/completions", None, False), ("/v1/completions", True, True),
    ],
)  # fmt: skip
def test_a_reply_is_streamed_as_asked_or_as_the_dialect_does(
    target: str, stream: bool | None, expected: bool
) -> None:
    """Null means the default, as absence does."""
    assert asked(target, stream=stream).is_streaming is expected


@pytest.mark.parametrize(
    ("target", "body", "limit"),
    [
        ("/api/chat", {"options": {"num_predict": 5}}, 5),
        ("/api/chat", {"options": {"num_predict": -1}}, None),
        ("/api/chat", {"options": None}, None),
        ("/api/chat", {"max_tokens": 5}, None),
        ("/v1/chat/completions", {"max_tokens": 5}, 5),
        ("/v1/chat/completions", {"max_tokens": 5, "max_completion_tokens": 7.0}, 7),
        ("/v1/chat/completions", {"max_tokens": None}, None),
        ("/v1/embeddings", {}, 0),
        ("/api/embed", {"options": {"num_predict": 5}}, 0),
    ],
)
def test_the_clients_limit_is_read_where_its_dialect_has_it(
    target: str, body: dict[str, object], limit: int | None
) -> None:
    """An embedding has no output; a negative number means no limit."""
    assert asked(target, **body).max_output_tokens == limit


def test_the_prompt_is_estimated_from_all_that_is_read() -> None:
    """Messages, tools and the like count, the rest of the body does not."""
    small = asked("/v1/chat/completions", messages=[{"role": "user", "content": "x" * 4000}])
    assert small.prompt_tokens == pytest.approx(1000, rel=0.02)
    with_tools = asked(
        "/v1/chat/completions", messages=[{"content": "x" * 4000}], tools=["y" * 4000], user="z" * 4000
    )
    assert with_tools.prompt_tokens == pytest.approx(2000, rel=0.02)
    assert asked("/api/generate").prompt_tokens == 1


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"null", b"{", b'{"model":null}', b'{"model":7}', b'{"model":""}',
        b'{"model":" "}', b"{}",
        b'{"Model":"m"}', b'{"model":"m","MODEL":"n"}', b'{"model":"m","stream":"yes"}', b'{"model":"m\xff"}',
        b'{"model":"m","options":[]}', b'{"model":"m","options":{"num_predict":"many"}}', b"\x1f\x8b\x08",
        b'{"model":"m","options":' + b"[" * 100_000 + b"}",
    ],
)  # fmt: skip
def test_what_is_ambiguous_or_unreadable_is_left_to_the_local_engine(body: bytes) -> None:
    """Only the engine whose port was called can say what it means."""
    assert read("/api/chat", body) is None


@given(body=st.binary(max_size=200))
def test_no_body_is_too_odd(body: bytes) -> None:
    """Reading never raises."""
    assert read("/api/chat", body) is None or b"model" in body
