"""Another model's name in a request body, every other byte as it was: for engines that a person mapped.

Only the top-level ``model`` is touched. What a body means must not depend on who reads it, so one that holds
that key twice, in another case too, or no text in it, is not renamed at all.
"""

import json
import re

import msgspec

KEY = "model"

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(rb"(?P<text>" + _STRING + rb")(?P<is_key>[ \t\r\n]*+:)?|[{}\[\]]", re.DOTALL)
_VALUE = re.compile(rb"[ \t\r\n]*+(?P<text>" + _STRING + rb")", re.DOTALL)
_check_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def renamed(body: bytes, name: str) -> bytes | None:
    """The body with ``name`` as its model; None if it is ambiguous or no JSON object with one."""
    span = _span(body)
    if span is None:
        return None
    start, end = span
    return b"".join((body[:start], json.dumps(name).encode(), body[end:]))


def _span(body: bytes) -> tuple[int, int] | None:
    """Where the value of the only top-level ``model`` stands."""
    try:
        _check_object(body)
        named = [(key, end) for key, end in _top_level_keys(body) if key.lower() == KEY]
        if len(named) != 1 or named[0][0] != KEY:
            return None
        value = _VALUE.match(body, named[0][1])
        if value is None:
            return None
        json.loads(value["text"])
    except (ValueError, RecursionError):  # msgspec's and json's errors are ValueErrors
        return None
    return value.span("text")


def _top_level_keys(body: bytes) -> list[tuple[str, int]]:
    """Each key of the outermost object with the place after its colon. The body is known to be JSON."""
    keys = []
    depth = 0
    for token in _TOKEN.finditer(body):
        text = token["text"]
        if text is None:
            depth += 1 if token[0] in (b"{", b"[") else -1
        elif depth == 1 and token["is_key"] is not None:
            keys.append((json.loads(text), token.end()))
    return keys
