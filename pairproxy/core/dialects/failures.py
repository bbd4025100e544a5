"""An error made here, written as the engine whose port was called would write it."""

import msgspec

from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import Dialect

_OPENAI_TYPES = {400: "invalid_request_error", 404: "not_found_error", 413: "invalid_request_error"}


def error_body(dialect: Dialect, error: PairproxyError) -> bytes:
    """The JSON body of an error reply."""
    if dialect is Dialect.OLLAMA:
        return msgspec.json.encode({"error": error.sentence})
    kind = _OPENAI_TYPES.get(error.status, "api_error")
    return msgspec.json.encode(
        {"error": {"message": error.sentence, "type": kind, "param": None, "code": None}}
    )


def final_line(dialect: Dialect, error: PairproxyError) -> bytes | None:
    """What a broken stream may end with. Ollama documents a last error line; SSE has no such thing."""
    return error_body(dialect, error) + b"\n" if dialect is Dialect.OLLAMA else None
