"""keep_alive as Ollama reads it."""

import gzip
import math

import msgspec
import pytest

from pairproxy.core.dialects.keeping import LONGEST_S, NOTHING, bounded, keeping_of
from pairproxy.core.dialects.reading_json import Ambiguous, read_fields
from pairproxy.core.errors import BadRequest

PROMPT = '"prompt":"hi"'


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("null", None), ("0", 0.0), ("0.9", 0.0), ("1", 1.0), ("300", 300.0), ("-1", math.inf),
        ("-0.5", math.inf),
        ('"0"', 0.0), ('"0s"', 0.0), ('"+0h"', 0.0), ('"-0s"', 0.0), ('"999ms"', 0.0), ('"5m"', 300.0),
        ('"1h30m"', 5400.0), ('"1.5h"', 5400.0), ('".5m"', 30.0), ('"+2s"', 2.0), ('"-1s"', math.inf),
        ('"2000000us"', 2.0), ('"2000000\u00b5s"', 2.0), ('"5"', None), ('"5 m"', None), ('"m"', None),
        ('""', None),
        ("true", None), ("[]", None), ("{}", None),
    ],
)  # fmt: skip
def test_numbers_and_durations(text: str, seconds: float | None) -> None:
    """Seconds or Go's durations; below a second is none, below zero is for ever, the rest is the engine's."""
    body = f'{{{PROMPT},"keep_alive":{text}}}'.encode()
    assert keeping_of("/api/generate", read_fields(body)).keep_alive_s == seconds


@pytest.mark.parametrize(
    ("path", "fields", "expected"),
    [
        ("/api/generate", '"keep_alive":0', "unloads"),
        ("/api/generate", '"prompt":"","keep_alive":"0s"', "unloads"),
        ("/api/chat", '"messages":[],"keep_alive":0', "unloads"),
        ("/api/chat", '"messages":null', "loads"),
        ("/api/generate", '"prompt":"","keep_alive":-1', "loads"),
        ("/api/generate", f'{PROMPT},"keep_alive":0', ""),
        ("/api/chat", '"messages":[{}],"keep_alive":0', ""),
        ("/api/embed", '"input":[],"keep_alive":0', ""),
        ("/v1/chat/completions", '"keep_alive":0', ""),
        ("/api/v1/chat", '"keep_alive":0', ""),
    ],
)
def test_what_asks_for_no_reply(path: str, fields: str, expected: str) -> None:
    """No prompt and no message: with keep_alive 0 it unloads, otherwise it loads."""
    keeping = keeping_of(path, read_fields(f'{{"model":"m",{fields}}}'.encode()))
    assert (keeping.unloads, keeping.loads) == (expected == "unloads", expected == "loads")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("null", None), ("1", None), ('"1h"', None), (f"{LONGEST_S + 1}", '"1h"'), ('"24h"', '"1h"'),
     ("-1", '"1h"'), ('"-1m"', '"1h"'), ("1e300", '"1h"'), ("0", '"5m"'), ('"0s"', '"5m"'), ("0.5", '"5m"'),
     ('"nonsense"', None), ("[-1]", None), ("9" * 400, None)],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/api/generate", "/api/embed"])
def test_a_guest_rules_over_no_memory(path: str, text: str, expected: str | None) -> None:
    """For ever is an hour, gone at once is as usual, what is no duration is the engine's to refuse."""
    body = '{ "options" : {"keep_alive":-1},"keep_alive" :\t%s , "prompt":"\\"keep_alive\\":0 ü", "n":1e0 }'
    changed = bounded(path, (body % text).encode())
    assert changed == (None if expected is None else (body % expected).encode())


def test_a_guest_may_load_and_unload() -> None:
    """A load is bounded like a prompt; an unload is decided elsewhere."""
    assert bounded("/api/chat", b'{"model":"m","keep_alive":-1}') == b'{"model":"m","keep_alive":"1h"}'
    assert bounded("/api/chat", b'{"model":"m","keep_alive":0}') is None


def test_a_bounded_body_has_no_coding() -> None:
    """What was decoded to be changed is sent as it is; the rest keeps its coding."""
    body = b'{"prompt":"hi","keep_alive":-1}'
    assert bounded("/api/generate", gzip.compress(body), "gzip") == body.replace(b"-1", b'"1h"')
    assert bounded("/api/generate", gzip.compress(b'{"keep_alive":"1m","prompt":"hi"}'), "gzip") is None
    assert bounded("/api/generate", body, "br") is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"keep_alive":-1,"keep_alive":1}',
        b'{"keep_alive":1,"Keep_Alive":-1}',
        b'{"keep_alive"',
        b'["keep_alive"]',
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(body: bytes) -> None:
    """Otherwise the engine might read what nobody bounded."""
    with pytest.raises(BadRequest):
        bounded("/api/generate", body)


def test_other_words_have_no_such_field() -> None:
    """Nothing is read from them."""
    for path in ("/v1/messages", "/api/v0/completions", "/completion"):
        assert keeping_of(path, read_fields(b'{"keep_alive":-1}')) is NOTHING


def test_what_is_no_json_is_said() -> None:
    """The caller decides what an unreadable body means."""
    with pytest.raises(msgspec.DecodeError):
        keeping_of("/api/chat", {"keep_alive": msgspec.Raw(b"nonsense")})


@pytest.mark.parametrize("text", ['"' + "1" * 20_000 + '!"', '"' + "1h" * 600 + '"', "[" + "0," * 999 + "0]"])
def test_what_is_too_long_to_be_a_time_is_none(text: str) -> None:
    """Twenty kilobytes of digits held up all requests for seconds; 256 would have for minutes."""
    body = f'{{{PROMPT},"keep_alive":{text}}}'.encode()
    with pytest.raises(Ambiguous):
        keeping_of("/api/generate", read_fields(body))
    with pytest.raises(BadRequest):
        bounded("/api/generate", body)
