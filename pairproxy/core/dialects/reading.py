"""Body -> what choosing a node needs of it. The bytes are forwarded as they came, whatever is read here."""

from dataclasses import dataclass

import msgspec

from pairproxy.core.dialects import routes
from pairproxy.core.models import Dialect, ModelName
from pairproxy.core.replicas import canonical_name

CHARACTERS_PER_TOKEN = 4  # of English text and JSON in the usual vocabularies
_PROMPT_KEYS = ("messages", "prompt", "input", "system", "tools", "suffix")
_LIMIT_KEYS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a body asks. ``prompt_tokens`` is estimated; ``max_output_tokens`` None = no limit given."""

    model: ModelName
    is_streaming: bool
    prompt_tokens: int
    max_output_tokens: int | None


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read(target: str, body: bytes) -> Asked | None:
    """Read an inference body. None: ambiguous or unreadable, so only the local engine may answer it.

    Ollama matches keys without case and Python does not, so a second spelling of ``model`` is ambiguous.
    """
    try:
        fields = _decode_object(body)
        if sum(key.lower() == "model" for key in fields) != 1 or "model" not in fields:
            return None
        model = _text(fields["model"])
        if not model or not model.strip():
            return None
        streaming = _flag(fields.get("stream"), routes.streams_by_default(target))
        limit = 0 if routes.is_embedding(target) else _limit(target, fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    prompt = sum(len(bytes(fields[key])) for key in _PROMPT_KEYS if key in fields)
    return Asked(canonical_name(model), streaming, max(1, prompt // CHARACTERS_PER_TOKEN), limit)


def _text(raw: msgspec.Raw) -> str:
    return msgspec.json.decode(raw, type=str)


def _flag(raw: msgspec.Raw | None, default: bool) -> bool:
    value = None if raw is None else msgspec.json.decode(raw, type=bool | None)
    return default if value is None else value


def _limit(target: str, fields: dict[str, msgspec.Raw]) -> int | None:
    if routes.inference_dialect("POST", target) is Dialect.OLLAMA:
        options = fields.get("options")
        fields = _decode_object(options) if options is not None and bytes(options) != b"null" else {}
        return _positive(fields.get("num_predict"))
    for key in _LIMIT_KEYS:
        if (limit := _positive(fields.get(key))) is not None:
            return limit
    return None


def _positive(raw: msgspec.Raw | None) -> int | None:
    """A limit of tokens; None for none, null and the negative numbers that mean "no limit"."""
    value = None if raw is None else msgspec.json.decode(raw, type=float | None)
    return int(value) if value is not None and value >= 0 else None
