"""Strict JSON in and out: what a client sends is refused with a sentence, never with a traceback."""

import json
import re
from typing import Any, NoReturn, TypeVar

from pairproxy.core.errors import BadRequest

_T = TypeVar("_T")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_KIND_NAMES = {bool: "true or false", str: "a string", int: "an integer", list: "a list", dict: "an object"}


def read_object(body: bytes) -> dict[str, Any]:
    """Read a request body that must be one JSON object. Raises BadRequest."""
    if not body.strip():
        raise BadRequest("missing request body")
    try:
        # decode first: json.loads(bytes) would also take UTF-16 and a byte order mark
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise BadRequest("the request body is nested too deeply; send a flatter object") from None
    except ValueError:
        raise BadRequest("the request body is not valid JSON; check it with a JSON parser") from None
    if not isinstance(value, dict):
        raise BadRequest("the request body must be a JSON object")
    return value


def write_json(value: object) -> bytes:
    """Write compact UTF-8 JSON. Raises BadRequest for infinite numbers and endless nesting.

    A lone surrogate (half of a UTF-16 pair, legal in JSON, impossible in UTF-8) becomes U+FFFD.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise BadRequest("the request body is nested too deeply; send a flatter object") from None
    except ValueError:
        raise BadRequest("the request body holds a number that is too large") from None
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text).encode("utf-8")


def field(body: dict[str, Any], key: str, kind: type[_T]) -> _T | None:
    """The value at ``key`` if it is of ``kind``, None if absent or null. Raises BadRequest."""
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(f'"{key}" must be {_KIND_NAMES[kind]}')
    return value


def objects(value: object, key: str) -> list[dict[str, Any]]:
    """``value`` as a list of JSON objects; an absent one is empty. Raises BadRequest."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRequest(f'"{key}" must be a list')
    if not all(isinstance(entry, dict) for entry in value):
        raise BadRequest(f'every entry of "{key}" must be an object')
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
