"""Whether a guest asks for more than a node gives to others: replies at once, tokens, a window.

For a client of this machine its engine decides; a peer's request could hold it for hours, or fill its memory.
"""

from collections.abc import Iterator

import msgspec

from pairproxy.core.dialects.coding import decoded
from pairproxy.core.dialects.reading_json import Ambiguous, Fields, read_fields
from pairproxy.core.dialects.reading_options import LIMIT_KEYS
from pairproxy.core.models import Request

MOST_REPLIES = 16  # of one request: each takes a slot's worth of memory in engines that make them together
MOST_CONTEXT_TOKENS = 2**20  # reserved for one request; the widest models that run at home have so many
MOST_TOKENS = 1_000_000  # of one reply: hours of a slot

_MOST = {
    "n": MOST_REPLIES,
    "best_of": MOST_REPLIES,
    "num_ctx": MOST_CONTEXT_TOKENS,
    "context_length": MOST_CONTEXT_TOKENS,
    "num_predict": MOST_TOKENS,
    **dict.fromkeys(LIMIT_KEYS, MOST_TOKENS),
}
_MARKS = tuple(f'"{key}"'.encode() for key in _MOST)
_number = msgspec.json.Decoder(float | None).decode


def is_excessive(request: Request, body: bytes) -> bool:
    """Whether ``request``, read from ``body``, asks for more than that, or nobody can say for how much."""
    plain = decoded(request.coding, body)
    if plain is None or not any(mark in plain for mark in _MARKS):
        return False
    try:
        return any(number > most for number, most in _numbers(read_fields(plain)))
    except (msgspec.DecodeError, Ambiguous, RecursionError):
        return True


def _numbers(fields: Fields) -> Iterator[tuple[float, int]]:
    """Each number that has a bound, with it; those in Ollama's options too."""
    options = fields.get("options")
    has_options = options is not None and bytes(memoryview(options)[:1]) == b"{"
    for one in (fields, read_fields(bytes(options or b"")) if has_options else {}):
        for key, most in _MOST.items():
            number = _number(one[key]) if key in one else None
            if number is not None:
                yield number, most
