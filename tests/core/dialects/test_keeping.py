"""keep_alive as Ollama reads it."""

import math

import msgspec
import pytest

from pairproxy.core.dialects.keeping import LONGEST_S, NOTHING, keeping_of
from pairproxy.core.dialects.reading_json import read_fields

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
    ("text", "stays"),
    [("null", False), ("1", False), ('"1h"', False), (f"{LONGEST_S + 1}", True), ('"24h"', True),
     ("-1", True), ("0", True), ('"nonsense"', False)],
)  # fmt: skip
def test_who_would_rule_a_peers_memory(text: str, stays: bool) -> None:
    """More than an hour, for ever, and gone at once are for this machine; what is no duration is an error."""
    body = f'{{{PROMPT},"keep_alive":{text}}}'.encode()
    assert keeping_of("/api/generate", read_fields(body)).stays is stays


def test_other_words_have_no_such_field() -> None:
    """Nothing is read from them."""
    for path in ("/v1/messages", "/api/v0/completions", "/completion"):
        assert keeping_of(path, read_fields(b'{"keep_alive":-1}')) is NOTHING


def test_what_is_no_json_is_said() -> None:
    """The caller decides what an unreadable body means."""
    with pytest.raises(msgspec.DecodeError):
        keeping_of("/api/chat", {"keep_alive": msgspec.Raw(b"nonsense")})
