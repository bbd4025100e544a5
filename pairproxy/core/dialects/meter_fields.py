"""Where each wire format writes the numbers of a reply, and in which units."""

import re
from collections.abc import Callable, Mapping
from typing import TypedDict

from pairproxy.core.models import Dialect, Usage

# Inside a JSON string a quote is escaped, so a model that writes "eval_count": 5 never matches a key.
_VALUE = re.compile(rb"\s*:\s*([0-9.eE+-]+)")
_TRIES = 8  # places of one key that hold no number (null, an object) before a search ends
_COUNT_LIMIT = 1e9  # tokens; more is no count
_SECONDS_LIMIT = 1e9  # 31 years


Keys = Mapping[bytes, Mapping[str, bytes]]
"""Keys that are looked for, as they stand in a text, by what some have in common: most are in no reply."""


class Numbers:
    """The numbers in a piece of JSON text, also one that is cut anywhere; of each key the last one counts."""

    __slots__ = ("_found",)

    def __init__(self, text: bytes, keys: Keys) -> None:
        self._found: dict[str, float] = {}
        for part, names in keys.items():
            if text.rfind(part) < 0:  # five times as fast as "in" where nothing is found
                continue
            for key, name in names.items():
                at = text.rfind(name)
                if at >= 0 and (number := _last(text, name, at)) is not None:
                    self._found[key] = number

    def count(self, *keys: str) -> int | None:
        """The first of these keys that holds a possible count."""
        for key in keys:
            value = self._found.get(key)
            if value is not None and 0 <= value < _COUNT_LIMIT:
                return int(value)
        return None

    def seconds(self, *units: tuple[str, float]) -> float | None:
        """The first of these keys that holds a possible duration; each with its units per second."""
        for key, per_second in units:
            value = self._found.get(key)
            if value is not None and 0 <= value / per_second < _SECONDS_LIMIT:
                return value / per_second
        return None


def keys_of(parts: Mapping[str, str]) -> Keys:
    """Keys, written with spaces between them, by what they have in common."""
    return {part.encode(): {key: f'"{key}"'.encode() for key in keys.split()} for part, keys in parts.items()}


def _last(text: bytes, name: bytes, at: int) -> float | None:
    """The last number of a key that stands there last at ``at``."""
    for _ in range(_TRIES):
        if found := _VALUE.match(text, at + len(name)):
            try:
                return float(found[1])
            except ValueError:
                return None
        at = text.rfind(name, 0, at)
        if at < 0:
            return None
    return None


class _Said(TypedDict, total=False):
    """What a reply says of itself: fields of Usage."""

    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    prefill_s: float | None
    decode_s: float | None
    load_s: float | None


def usage_of(
    dialect: Dialect,
    end: bytes,
    start: bytes = b"",
    *,
    counted: int | None = None,
    records: int | None = None,
) -> Usage:
    """What a reply says of itself; ``end`` is the last of its bytes, ``start`` the first.

    Counts are tokens, durations seconds; None where it does not say. ``counted`` are the output tokens where
    it does not say them; ``records`` see Usage.
    """
    said = _READERS[dialect](Numbers(end, _KEYS[dialect]), start)
    if said["output_tokens"] is None:
        said["output_tokens"] = counted
    return Usage(**said, records=records)


def _ollama(end: Numbers, start: bytes) -> _Said:
    return {
        "prompt_tokens": end.count("prompt_eval_count"),
        "output_tokens": end.count("eval_count"),
        "prefill_s": end.seconds(("prompt_eval_duration", 1e9)),
        "decode_s": end.seconds(("eval_duration", 1e9)),
        "load_s": end.seconds(("load_duration", 1e9)),
    }


def _openai(end: Numbers, start: bytes) -> _Said:
    """OpenAI's usage, llama-server's timings and LM Studio's stats, whichever are there."""
    cached = end.count("cache_n")
    prompt, evaluated = end.count("prompt_tokens"), end.count("prompt_n")
    if prompt is None and evaluated is not None:
        prompt = evaluated + (cached or 0)
    return {
        "prompt_tokens": prompt if prompt is not None else end.count("tokens_evaluated"),
        "cached_tokens": cached if cached is not None else end.count("cached_tokens"),
        "output_tokens": end.count("completion_tokens", "predicted_n", "tokens_predicted"),
        "prefill_s": end.seconds(("prompt_ms", 1e3), ("time_to_first_token", 1.0)),
        "decode_s": end.seconds(("predicted_ms", 1e3), ("generation_time", 1.0)),
        "load_s": end.seconds(("load_ms", 1e3)),
    }


def _responses(end: Numbers, start: bytes) -> _Said:
    return {
        "prompt_tokens": end.count("input_tokens"),
        "cached_tokens": end.count("cached_tokens"),
        "output_tokens": end.count("output_tokens"),
        "prefill_s": end.seconds(("prompt_ms", 1e3)),
        "decode_s": end.seconds(("predicted_ms", 1e3)),
    }


def _anthropic(end: Numbers, start: bytes) -> _Said:
    """The prompt's size stands in the first event, cached parts apart from it; the last may correct it."""
    begun = Numbers(start, _PROMPT)

    def count(name: str) -> int | None:
        value = end.count(name)
        return value if value is not None else begun.count(name)

    prompt, cached = count("input_tokens"), count("cache_read_input_tokens")
    if prompt is not None:
        prompt += (cached or 0) + (count("cache_creation_input_tokens") or 0)
    return {
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "output_tokens": end.count("output_tokens"),
        "prefill_s": end.seconds(("prompt_ms", 1e3)),
        "decode_s": end.seconds(("predicted_ms", 1e3)),
    }


def _lmstudio(end: Numbers, start: bytes) -> _Said:
    output, per_second = end.count("total_output_tokens"), end.seconds(("tokens_per_second", 1.0))
    return {
        "prompt_tokens": end.count("input_tokens"),
        "output_tokens": output,
        "prefill_s": end.seconds(("time_to_first_token_seconds", 1.0)),
        "decode_s": output / per_second if output is not None and per_second else None,
        "load_s": end.seconds(("model_load_time_seconds", 1.0)),
    }


_PROMPT = keys_of({"put_tokens": "input_tokens cache_read_input_tokens cache_creation_input_tokens"})
_OPENAI = keys_of(
    {
        '_tokens"': "prompt_tokens cached_tokens completion_tokens",
        '_n"': "cache_n prompt_n predicted_n",
        '_ms"': "prompt_ms predicted_ms load_ms",
        '"tokens_': "tokens_evaluated tokens_predicted",
        "time": "time_to_first_token generation_time",
    }
)
_KEYS: dict[Dialect, Keys] = {
    Dialect.OLLAMA: keys_of(
        {
            "eval_": "prompt_eval_count eval_count prompt_eval_duration eval_duration",
            "load_": "load_duration",
        }
    ),
    Dialect.OPENAI: _OPENAI,
    Dialect.LLAMACPP: _OPENAI,
    Dialect.RESPONSES: keys_of(
        {
            '_tokens"': "input_tokens cached_tokens output_tokens",
            '_ms"': "prompt_ms predicted_ms",
        }
    ),
    Dialect.ANTHROPIC: keys_of(
        {
            "put_tokens": "input_tokens cache_read_input_tokens cache_creation_input_tokens output_tokens",
            '_ms"': "prompt_ms predicted_ms",
        }
    ),
    Dialect.LMSTUDIO: keys_of(
        {
            "tokens": "input_tokens total_output_tokens tokens_per_second",
            "_seconds": "time_to_first_token_seconds model_load_time_seconds",
        }
    ),
}
"""Every key that a reader asks for."""
_READERS: dict[Dialect, Callable[[Numbers, bytes], _Said]] = {
    Dialect.OLLAMA: _ollama,
    Dialect.OPENAI: _openai,
    Dialect.LLAMACPP: _openai,
    Dialect.RESPONSES: _responses,
    Dialect.ANTHROPIC: _anthropic,
    Dialect.LMSTUDIO: _lmstudio,
}
