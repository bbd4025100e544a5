import gzip
import json

import pytest

from pairproxy.core.dialects import reading
from pairproxy.core.dialects.excess import (
    MOST_CONTEXT_TOKENS,
    MOST_REPLIES,
    MOST_TOKENS,
    is_excessive,
)
from pairproxy.core.models import RequestId


def excessive(path: str, body: object, coding: str = "") -> bool:
    """Whether a peer's request with this body is refused."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = gzip.compress(raw) if coding else raw
    return is_excessive(reading.read(RequestId("a"), path, sent, coding=coding), sent)


def ollama(**options: object) -> dict[str, object]:
    """A chat with these options."""
    return {"model": "m", "messages": [{"role": "user", "content": "x"}], "options": options}


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, False),
        ({"num_ctx": 131072, "num_predict": 4096}, False),
        ({"num_predict": -1}, False),  # until it is done
        ({"num_predict": -2}, False),
        ({"num_ctx": MOST_CONTEXT_TOKENS}, False),
        ({"num_ctx": MOST_CONTEXT_TOKENS + 1}, True),
        ({"num_ctx": 1e12}, True),
        ({"num_predict": MOST_TOKENS + 1}, True),
        ({"num_predict": 1e300}, True),
    ],
)
def test_g13_windows_and_replies_of_any_honest_size_pass(options: dict[str, object], verdict: bool) -> None:
    """What would fill a memory or hold a slot for hours does not."""
    assert excessive("/api/chat", ollama(**options)) is verdict


@pytest.mark.parametrize("key", ["n", "best_of"])
@pytest.mark.parametrize(
    ("number", "verdict"),
    [
        (1, False),
        (None, False),
        (MOST_REPLIES, False),
        (MOST_REPLIES + 1, True),
        (100000, True),
        (1e300, True),
    ],
)
def test_g13_a_request_has_a_few_replies(key: str, number: float | None, verdict: bool) -> None:
    """In every path and coding in which n can stand."""
    body: dict[str, object] = {"model": "m", "messages": [], key: number}
    assert excessive("/v1/chat/completions", body) is verdict
    assert excessive("/v1/chat/completions", body, "gzip") is verdict


def test_g13_a_number_that_can_be_read_in_two_ways_is_too_large() -> None:
    """What engines may read differently is refused, text that merely speaks of it is not."""
    assert excessive("/v1/completions", b'{"model":"m","prompt":"x","n":1,"n":100000}')
    assert excessive("/v1/completions", b'{"model":"m","prompt":"x","n":"100000"}')
    assert excessive("/v1/completions", b'{"model":"m","prompt":"x","n":[1]}')
    assert not excessive("/v1/completions", {"model": "m", "prompt": 'the key "n" of JSON'})
    assert not excessive("/api/chat", {"model": "m", "messages": [{"n": 1e9}], "options": None})


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"])
def test_g13_a_reply_has_an_end(key: str) -> None:
    """By whatever name its length is asked for."""
    body: dict[str, object] = {"model": "m", "messages": []}
    assert excessive("/v1/chat/completions", {**body, key: 1e9})
    assert not excessive("/v1/chat/completions", {**body, key: 8192})
