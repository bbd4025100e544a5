"""A guest's body as the engines of this node get it: it rules over nobody's memory.

What a request asks of the memory after its reply is bounded (keeping). The options for which Ollama loads a
model anew are left out, all but the window, without which the reply would be another one: how many layers lie
on which card, and how many threads work, whoever owns the machine decides. A guest that changed one of them
would throw a loaded model out for everybody.
"""

import msgspec

from pairproxy.core.dialects import routes
from pairproxy.core.dialects.coding import decoded
from pairproxy.core.dialects.keeping import bounded
from pairproxy.core.dialects.reading_json import Ambiguous, read_fields
from pairproxy.core.dialects.reading_options import RUNNER_KEYS
from pairproxy.core.errors import BadRequest
from pairproxy.core.models import Dialect

OWNERS = frozenset(RUNNER_KEYS) - {"num_ctx"}
"""Options that are the owner's to set."""
_MARKS = tuple(key.encode() for key in sorted(OWNERS))


def for_guest(path: str, body: bytes, coding: str = "") -> bytes | None:
    """What an engine gets in place of a guest's body; None: the body as it came.

    What had a coding comes without it. Raises BadRequest for a body that cannot be read in one way only.
    """
    plain = decoded(coding, body)
    if plain is None:
        return None
    kept = bounded(path, plain)
    changed = _without_owners(path, plain if kept is None else kept)
    return kept if changed is None else changed


def _without_owners(path: str, body: bytes) -> bytes | None:
    """The body without OWNERS; None if there are none in it.

    Ollama knows them in this spelling only; one with escapes is ambiguous to who reads the request.
    """
    # "in" takes four times as long as rfind to find nothing
    if routes.dialect_of(path) is not Dialect.OLLAMA or all(body.rfind(mark) < 0 for mark in _MARKS):
        return None
    try:
        fields = read_fields(body)
        text = bytes(fields.get("options", b""))
        options = read_fields(text) if text.startswith(b"{") else {}
    except (Ambiguous, msgspec.DecodeError, RecursionError):
        raise BadRequest("The request body can be read in two ways.") from None
    kept = {key: value for key, value in options.items() if key not in OWNERS}
    if len(kept) == len(options):
        return None
    return msgspec.json.encode({**fields, "options": msgspec.Raw(msgspec.json.encode(kept))})
