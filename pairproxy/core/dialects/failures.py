"""An error made here, written as the engine whose port was called would write it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import Dialect

ANTHROPIC_REQUEST_ID = "req_pairproxy"
"""Where Anthropic's clients look for the name of a request; it says who made the error."""

_TYPES: dict[Dialect, Mapping[int, str]] = {
    Dialect.OPENAI: {
        400: "invalid_request_error",
        401: "invalid_request_error",
        403: "permission_error",
        404: "not_found_error",
        413: "invalid_request_error",
        429: "rate_limit_error",
    },
    Dialect.ANTHROPIC: {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        529: "overloaded_error",
    },
    Dialect.LMSTUDIO: {
        400: "invalid_request",
        401: "authentication_error",
        403: "permission_error",
        404: "model_not_found",
        413: "invalid_request",
        429: "rate_limit_error",
        501: "not_implemented",
    },
    Dialect.LLAMACPP: {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "invalid_request_error",
        429: "rate_limit_error",
        501: "not_supported_error",
        503: "unavailable_error",
    },
}
_OTHERS = {Dialect.LMSTUDIO: "internal_error", Dialect.LLAMACPP: "server_error"}
_USUAL_TYPE = "api_error"
_CODES = {401: "invalid_api_key"}  # OpenAI's clients show it


def error_body(dialect: Dialect, error: PairproxyError) -> bytes:
    """The JSON body of an error reply."""
    return msgspec.json.encode(_document(dialect, error))


def final_line(dialect: Dialect, error: PairproxyError) -> bytes | None:
    """What a broken stream may end with. Ollama documents a last error line; SSE has no such thing."""
    return error_body(dialect, error) + b"\n" if dialect is Dialect.OLLAMA else None


def _document(dialect: Dialect, error: PairproxyError) -> dict[str, Any]:
    if dialect is Dialect.OLLAMA:
        return {"error": error.sentence}
    types = _TYPES.get(dialect, _TYPES[Dialect.OPENAI])
    kind = types.get(error.status, _OTHERS.get(dialect, _USUAL_TYPE))
    if dialect is Dialect.ANTHROPIC:
        inner = {"type": kind, "message": error.sentence}
        return {"type": "error", "error": inner, "request_id": ANTHROPIC_REQUEST_ID}
    if dialect is Dialect.LMSTUDIO:
        return {"error": {"type": kind, "message": error.sentence}}
    if dialect is Dialect.LLAMACPP:
        return {"error": {"code": error.status, "message": error.sentence, "type": kind}}
    code = _CODES.get(error.status)
    return {"error": {"message": error.sentence, "type": kind, "param": None, "code": code}}
