"""A JSON object taken apart one level deep, if there is only one way to read it.

Go matches keys without case and takes the last of equal ones, others do neither: what a body means must not
depend on who reads it. So an object that holds a key twice, spells one with escapes, or has a key that is
ours but for its case, is ambiguous.
"""

import re
from typing import Final

import msgspec

Fields = dict[str, msgspec.Raw]
"""The values of an object, each as its own JSON text."""

KEYS: Final = frozenset({
    "model", "messages", "prompt", "input", "system", "system_prompt", "instructions", "tools", "functions",
    "suffix", "content", "query", "documents", "images", "stream", "options", "keep_alive", "think",
    "reasoning", "reasoning_effort", "thinking", "max_tokens", "max_completion_tokens", "max_output_tokens",
    "n_predict", "context_length", "previous_response_id", "conversation", "store", "background", "context",
    "integrations", "mcp_servers", "container", "id_slot", "lora", "draft_model", "input_extra",
})  # fmt: skip
"""Every key that is read here."""
OTHERS: Final = frozenset({
    "temperature", "top_p", "top_k", "seed", "stop", "user", "n", "presence_penalty", "frequency_penalty",
    "stream_options",
})  # fmt: skip
"""Keys that many requests have, and that tell nothing of where one may run, nor of its size."""
_SETTLED: Final = KEYS | OTHERS

MOST_VALUES: Final = 500_000  # in one that is read to its ground: in 0.7 s and 100 MB; no prompt has more
_LOOKED_AT: Final = 2**20  # bytes at once
MOST_VALUE_BYTES: Final = 64 * 1024  # of an option; the largest, a reasoning object, has a hundred
MOST_KEYS: Final = 1000  # of one object; llama.cpp, which has most, knows about a hundred
MOST_OTHER_BYTES: Final = 2**20  # of keys that are not read, with their values: hundreds of thousands
_SMALL: Final = 256 * 1024  # bytes in which there is no room for so many

NOTHING: Final = frozenset({b"null", b'""', b"[]", b"{}", b"false"})

_BEGINNING: Final = re.compile(rb'[ \t\r\n]*+[{,][ \t\r\n]*+"([^"\\]*+)"[ \t\r\n]*+:[ \t\r\n]*+')
"""What stands before a value: its key, and the brace or comma before that. The text is known to be JSON."""
_decode: Final = msgspec.json.Decoder(Fields).decode
_decode_any: Final = msgspec.json.Decoder().decode
_decode_known: Final = msgspec.json.Decoder(
    msgspec.defstruct("_Known", [(key, msgspec.Raw, msgspec.Raw(b"")) for key in sorted(KEYS)])
).decode
_decode_text: Final = msgspec.json.Decoder(str | None).decode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Ambiguous(ValueError):
    """There is more than one way to read it."""


def read_fields(text: bytes) -> Fields:
    """The fields of an object. Raises msgspec.DecodeError, RecursionError, Ambiguous."""
    if len(text) > _SMALL and _other_bytes(text) > MOST_OTHER_BYTES:
        raise Ambiguous  # 48 MB of tiny keys took ten seconds, in three of which nothing else ran
    fields = _decode(text)
    if len(fields) > MOST_KEYS:
        raise Ambiguous
    size = 1 + 4 * len(fields)  # braces, commas, colons and the quotes of keys, if there is no space between
    for key, value in fields.items():
        if key not in _SETTLED and key.casefold() in KEYS:
            raise Ambiguous
        size += len(key) + len(value)
    # Whatever else stands there makes it longer: spaces, escapes, another key, and letters beyond ASCII.
    if size != len(text) and not _is_spaced(text, fields) and not _is_plain(text, fields):
        raise Ambiguous
    return fields


def text_of(value: msgspec.Raw | None) -> str | None:
    """A string; None for none and null. Raises msgspec.DecodeError for anything else."""
    return None if value is None else _decode_text(value)


def is_nothing(value: msgspec.Raw | None) -> bool:
    """Whether a value is absent or empty, as null, "", [], {} and false are."""
    if value is None:
        return True
    text = bytes(memoryview(value)[:64])
    if text[:1] in (b"[", b"{") and text[1:].lstrip()[:1] in (b"]", b"}"):
        return True
    return text in NOTHING


def is_crowded(value: msgspec.Raw) -> bool:
    """Whether it may hold more than MOST_VALUES, which no prompt does: 50 bytes of memory for each of two.

    Commas are counted, those within texts too.
    """
    if len(value) <= MOST_VALUES:
        return False
    view = memoryview(value)
    starts = range(0, len(view), _LOOKED_AT)
    return sum(bytes(view[start : start + _LOOKED_AT]).count(b",") for start in starts) > MOST_VALUES


def items_of(value: msgspec.Raw | None) -> list[msgspec.Raw]:
    """The items of an array; none for anything else."""
    if value is None or bytes(memoryview(value)[:1]) != b"[":
        return []
    return _decode_list(value)


def _other_bytes(text: bytes) -> int:
    """The size of all that is no value of a key in KEYS; of equal keys the last counts."""
    known = msgspec.structs.astuple(_decode_known(text))
    return len(text) - sum(map(len, known))


def value_of(value: msgspec.Raw) -> object:
    """A small value, whatever it is. Raises msgspec.DecodeError, Ambiguous for one that is too large."""
    if len(value) > MOST_VALUE_BYTES:
        raise Ambiguous
    return _decode_any(value)


def _is_spaced(text: bytes, fields: Fields) -> bool:
    """Whether the text is these fields as Python writes them, with a space behind each comma and colon.

    The usual text that has any; ``_is_plain`` would say the same of it, and takes five times as long.
    """
    if len(text) > _SMALL or text[:2] != b'{"':
        return False
    parts: list[bytes | msgspec.Raw] = []
    before = b'{"'
    for key, value in fields.items():
        parts.append(before)  # one by one: that is a store each, and to add a tuple of them a call
        parts.append(key.encode())
        parts.append(b'": ')
        parts.append(value)
        before = b', "'
    parts.append(b"}")
    return b"".join(parts) == text


def _is_plain(text: bytes, fields: Fields) -> bool:
    """Whether the text is these fields one after another and no more: then no key stands there twice."""
    at = 0
    for key, value in fields.items():
        begun = _BEGINNING.match(text, at)
        if begun is None or begun[1] != key.encode() or not text.startswith(value, begun.end()):
            return False
        at = begun.end() + len(value)
    return not fields or text[at:].strip(b" \t\r\n") == b"}"
