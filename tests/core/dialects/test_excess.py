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
from pairproxy.core.dialects.keeping import LONGEST_S
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


@pytest.mark.parametrize("key", ["n", "best_of", "n_cmpl"])
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


def test_g13_a_guest_holds_the_memory_of_lm_studio_for_an_hour_at_most() -> None:
    """Its ttl counts for a model that the request makes it load."""
    for seconds, verdict in ((60, False), (LONGEST_S, False), (LONGEST_S + 1, True)):
        assert excessive("/v1/chat/completions", {"model": "m", "messages": [], "ttl": seconds}) is verdict


@pytest.mark.parametrize(
    ("path", "body", "verdict"),
    [
        ("/v1/completions", {"prompt": ["x"] * MOST_REPLIES}, False),
        ("/v1/completions", {"prompt": ["x"] * (MOST_REPLIES + 1)}, True),
        ("/v1/completions", {"prompt": ["x"] * 5, "n": 4}, True),
        ("/completion", {"prompt": [[1, 2]] * (MOST_REPLIES + 1)}, True),
        ("/completion", {"prompt": [1] * 5000}, False),  # the tokens of one prompt
        ("/v1/completions", {"prompt": "[,,,]"}, False),
        ("/v1/chat/completions/batch", {"messages": [[{"role": "user"}]] * (MOST_REPLIES + 1)}, True),
        ("/v1/chat/completions", {"messages": [{"role": "user"}] * 500}, False),  # one conversation
        ("/v1/embeddings", {"input": ["x"] * 500}, False),  # of a few milliseconds each
    ],
)
def test_g13_many_prompts_are_many_replies(path: str, body: dict[str, object], verdict: bool) -> None:
    """A list of prompts takes as many slots as n does; the two count together."""
    assert excessive(path, {"model": "m", **body}) is verdict


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","prompt":"x","N":100000}',
        b'{"model":"m","prompt":"x","Best_Of":2}',
        b'{"model":"m","options":{"NUM_CTX":9}}',
        b'{"model":"m","options":{"\\u006eum_ctx":9}}',
    ],
)
def test_g13_a_bound_has_one_spelling(body: bytes) -> None:
    """What Go reads as a number that has a bound, whatever its case or escapes, is refused."""
    assert excessive("/api/generate", body)


def test_a_form_has_no_numbers_that_are_read() -> None:
    """Sound that happens to hold the name of one is sound."""
    body = (
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--x\r\n\r\n"n": 99999\r\n--x--\r\n'
    )
    assert not excessive("/v1/audio/transcriptions", body)
