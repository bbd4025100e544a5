"""What an engine gets of a guest's request."""

import gzip
import json

import pytest

from pairproxy.core.dialects.guests import OWNERS, for_guest
from pairproxy.core.errors import BadRequest


@pytest.mark.parametrize("key", sorted(OWNERS))
@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/api/embed", "/api/embeddings"])
def test_what_makes_an_engine_load_anew_is_left_out(path: str, key: str) -> None:
    """G13: everything else stays to the letter, in its order: also the same words elsewhere."""
    body = '{"model" : "m","options":{"seed":1e0, %s"num_ctx":512},"prompt":"\\u00fc num_gpu","num_gpu":7}'
    changed = for_guest(path, (body % f'"{key}": 1,').encode())
    assert changed == (body % "").encode().replace(b" : ", b":").replace(b", ", b",")


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "options": {"num_ctx": 4096, "seed": 1, "num_predict": 9}},
        {"model": "m", "prompt": "What is num_gpu, and what main_gpu?"},
        {"model": "m", "prompt": "num_gpu", "options": None},
        {"model": "m", "prompt": "num_gpu", "options": {}},
        {"model": "m", "num_gpu": 1},
    ],
)
def test_what_asks_for_nothing_of_that_passes_as_it_came(body: object) -> None:
    """The window too: the reply would be another one without it."""
    assert for_guest("/api/chat", json.dumps(body).encode()) is None


def test_other_dialects_have_no_such_options() -> None:
    """What means something else there stays."""
    body = json.dumps({"model": "m", "options": {"num_gpu": 1}}).encode()
    assert for_guest("/v1/chat/completions", body) is None
    assert for_guest("/api/v1/chat", body) is None


def test_both_bounds_hold_at_once() -> None:
    """The memory after the reply, and how the model is loaded; what had a coding comes without it."""
    body = json.dumps({"model": "m", "keep_alive": -1, "options": {"num_thread": 1}}).encode()
    wanted = {"model": "m", "keep_alive": "1h", "options": {}}
    assert json.loads(for_guest("/api/chat", body) or b"") == wanted
    assert json.loads(for_guest("/api/chat", gzip.compress(body), "gzip") or b"") == wanted
    assert for_guest("/api/chat", body, "br") is None, "it is refused elsewhere: nobody can read it"


@pytest.mark.parametrize(
    "body",
    [
        b'{"options":{"num_gpu":1,"num_gpu":2}}',
        b'{"options":{"num_gpu":1},"options":{}}',
        b'{"options":{},"Options":{"num_gpu":1}}',
        b'{"options":{"num_gpu":1}',
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(body: bytes) -> None:
    """Otherwise the engine might read what nobody left out."""
    with pytest.raises(BadRequest):
        for_guest("/api/chat", body)
