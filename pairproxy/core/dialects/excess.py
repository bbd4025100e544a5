"""Whether a guest asks for more than a node gives to others: replies at once, tokens, a window, memory.

For a client of this machine its engine decides; a peer's request could hold it for hours, or fill its memory.
"""

from collections.abc import Iterator

import msgspec

from pairproxy.core.dialects import routes
from pairproxy.core.dialects.coding import decoded
from pairproxy.core.dialects.keeping import LONGEST_S
from pairproxy.core.dialects.reading_json import Ambiguous, Fields, is_crowded, items_of, read_fields
from pairproxy.core.dialects.reading_options import LIMIT_KEYS
from pairproxy.core.models import Request

MOST_REPLIES = 16  # of one request: each takes a slot's worth of memory in engines that make them together
MOST_CONTEXT_TOKENS = 2**20  # reserved for one request; the widest models that run at home have so many
MOST_TOKENS = 1_000_000  # of one reply: hours of a slot

_REPLIES = ("n", "best_of", "n_cmpl")
_MOST = {
    **dict.fromkeys(_REPLIES, MOST_REPLIES),
    "num_ctx": MOST_CONTEXT_TOKENS,
    "context_length": MOST_CONTEXT_TOKENS,
    "num_predict": MOST_TOKENS,
    "ttl": LONGEST_S,  # LM Studio's keep_alive, for models that a request makes it load
    **dict.fromkeys(LIMIT_KEYS, MOST_TOKENS),
}
_PROMPTS = {"prompt": (b'"', b"[", b"{"), "messages": (b"[",)}
"""How the first item of a list of prompts begins: one of numbers is one prompt, of messages one, too."""

_number = msgspec.json.Decoder(float | None).decode


def is_excessive(request: Request, body: bytes) -> bool:
    """Whether ``request``, read from ``body``, asks for more than that, or nobody can say for how much."""
    row = routes.inference(request.path)
    plain = decoded(request.coding, body)
    if plain is None or (row is not None and row.is_form):
        return False
    try:
        fields = read_fields(plain)
        asked = [(key, number) for one in (fields, _options(fields)) for key, number in _numbers(one)]
        replies = max([1.0, *(number for key, number in asked if key in _REPLIES)])
        has_end = row is None or row.has_output
        return any(number > _MOST[key] for key, number in asked) or (
            has_end and replies * _prompts(fields) > MOST_REPLIES
        )
    except (msgspec.DecodeError, Ambiguous, RecursionError):
        return True


def _options(fields: Fields) -> Fields:
    """Ollama's options; none where there are none."""
    options = fields.get("options")
    has_options = options is not None and bytes(memoryview(options)[:1]) == b"{"
    return read_fields(bytes(options or b"")) if has_options else {}


def _numbers(fields: Fields) -> Iterator[tuple[str, float]]:
    """Each number that has a bound, with its key. Raises Ambiguous for a key that is one but for its case."""
    for key, value in fields.items():
        if key not in _MOST and key.casefold() in _MOST:
            raise Ambiguous
        number = _number(value) if key in _MOST else None
        if number is not None:
            yield key, number


def _prompts(fields: Fields) -> int:
    """How many prompts there are, each of which is answered by itself."""
    count = 1
    for key, begins in _PROMPTS.items():
        value = fields.get(key)
        start = b"" if value is None else bytes(memoryview(value)[:64])
        if value is None or start[:1] != b"[" or start[1:].lstrip()[:1] not in begins:
            continue
        if is_crowded(value):
            raise Ambiguous
        count = max(count, len(items_of(value)))
    return count
