"""Another value for one key of a request body, every other byte as it was.

For engines that a person mapped (another model's name), and for guests (a shorter keep_alive). Only the
outermost object's own key is touched. What a body means must not depend on who reads it, so one that holds
that key twice, in another case too, or with another sort of value, is not changed at all.
"""

import json
import re

import msgspec

KEY = "model"

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(rb"(?P<text>" + _STRING + rb")(?P<is_key>[ \t\r\n]*+:)?|[{}\[\]]", re.DOTALL)
_VALUE = re.compile(rb"[ \t\r\n]*+(?P<value>" + _STRING + rb"|[-+.0-9A-Za-z]++)", re.DOTALL)
_check_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def renamed(body: bytes, name: str) -> bytes | None:
    """The body with ``name`` as its model; None if it is ambiguous or no JSON object with one."""
    span = _span(body, KEY)
    if span is None or body[span[0] : span[0] + 1] != b'"':
        return None
    return _spliced(body, span, json.dumps(name))


def replaced(body: bytes, key: str, json_value: str) -> bytes | None:
    """The body with ``json_value`` for ``key`` (in lower case), which held no array or object.

    None if the body is ambiguous or no JSON object with such a value.
    """
    span = _span(body, key)
    return None if span is None else _spliced(body, span, json_value)


def _spliced(body: bytes, span: tuple[int, int], json_value: str) -> bytes:
    return b"".join((body[: span[0]], json_value.encode(), body[span[1] :]))


def _span(body: bytes, wanted: str) -> tuple[int, int] | None:
    """Where the value of the only top-level key of this name stands."""
    try:
        _check_object(body)
        named = [(key, end) for key, end in _top_level_keys(body) if key.lower() == wanted]
        if len(named) != 1 or named[0][0] != wanted:
            return None
        value = _VALUE.match(body, named[0][1])
        if value is None:
            return None
        json.loads(value["value"])
    except (ValueError, RecursionError):  # msgspec's and json's errors are ValueErrors
        return None
    return value.span("value")


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
