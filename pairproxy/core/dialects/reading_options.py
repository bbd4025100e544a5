"""What a body says of how it wants to be served: limits, runner options, thinking."""

from dataclasses import dataclass
from typing import Final

import msgspec

from pairproxy.core.dialects.reading_json import Fields, is_nothing, read_fields, value_of
from pairproxy.core.models import Dialect

RUNNER_KEYS: Final = (
    "draft_num_predict", "main_gpu", "num_batch", "num_ctx", "num_gpu", "num_thread", "use_mmap",
)  # fmt: skip
"""The options for which Ollama loads a model anew. All others count for one request only."""
THINKING_KEYS: Final = ("think", "thinking", "reasoning", "reasoning_effort")
"""What tells a model to think, in the words of all dialects."""
LIMIT_KEYS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens", "n_predict")

_LIMITING: Final = frozenset(LIMIT_KEYS)
_OLLAMA: Final = Dialect.OLLAMA
_LMSTUDIO: Final = Dialect.LMSTUDIO

_decode_number: Final = msgspec.json.Decoder(float | None).decode
_decode_flag: Final = msgspec.json.Decoder(bool | None).decode


@dataclass(slots=True, init=False)
class Options:
    """``limit`` and ``context_tokens`` are tokens, None = not given; ``runner`` "" = no option given."""

    limit: int | None
    context_tokens: int | None
    runner: str

    def __init__(self, limit: int | None, context_tokens: int | None = None, runner: str = "") -> None:
        self.limit = limit
        self.context_tokens = context_tokens
        self.runner = runner


def read(dialect: Dialect, fields: Fields) -> Options:
    """Read them in the words of a dialect. Raises msgspec.DecodeError, Ambiguous."""
    if dialect is not _OLLAMA:
        limit = None
        if not _LIMITING.isdisjoint(fields):
            limits = [_count(fields.get(key)) for key in LIMIT_KEYS]  # each, for one that is none is an error
            limit = next((one for one in limits if one is not None), None)
        return Options(limit, _count(fields.get("context_length")) if dialect is _LMSTUDIO else None)
    options = {} if is_nothing(fields.get("options")) else read_fields(bytes(fields["options"]))
    return Options(
        limit=_count(options.get("num_predict")),
        context_tokens=_count(options.get("num_ctx")),
        runner=_runner(options),
    )


def flag(fields: Fields, key: str, default: bool) -> bool:
    """A truth value; null means the default. Raises msgspec.DecodeError for anything else."""
    given = fields.get(key)
    value = None if given is None else _decode_flag(given)
    return default if value is None else value


def is_thinking(dialect: Dialect, fields: Fields) -> bool:
    """Whether the model is told to think first. Raises msgspec.DecodeError, Ambiguous."""
    if dialect is _OLLAMA:
        return not is_nothing(fields.get("think"))
    if dialect is Dialect.ANTHROPIC:
        return _inner(fields, "thinking", "type") not in (None, "disabled")
    if dialect is Dialect.LMSTUDIO:
        return _value(fields, "reasoning") not in (None, "off")
    effort = _value(fields, "reasoning_effort") or _inner(fields, "reasoning", "effort")
    return effort not in (None, "none")


def _runner(options: Fields) -> str:
    """The runner's options in one spelling. ``num_gpu`` below zero means "as you think best" to Ollama."""
    given = {key: value_of(options[key]) for key in RUNNER_KEYS if key in options}
    spelled = {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in given.items()
        if value is not None
    }
    gpus = spelled.get("num_gpu")
    if isinstance(gpus, int) and gpus < 0:
        del spelled["num_gpu"]
    return msgspec.json.encode(spelled, order="deterministic").decode() if spelled else ""


def _count(value: msgspec.Raw | None) -> int | None:
    """Tokens; None for none, null and the negative numbers that mean "no limit"."""
    number = None if value is None else _decode_number(value)
    return int(number) if number is not None and 0 <= number < 1e9 else None


def _value(fields: Fields, key: str) -> object:
    return value_of(fields[key]) if key in fields else None


def _inner(fields: Fields, key: str, inner: str) -> object:
    value = _value(fields, key)
    return value.get(inner) if isinstance(value, dict) else None
