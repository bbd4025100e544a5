"""Where each wire format writes the numbers of a reply, and in which units."""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from pairproxy.core.dialects.reading_shapes import Reply
from pairproxy.core.models import Dialect, Usage

# Inside a JSON string a quote is escaped, so a model that writes "eval_count": 5 never matches a key.
_VALUE: Final = re.compile(rb"\s*:\s*([0-9.eE+-]+)")
_TRIES: Final = 8  # places of one key that hold no number (null, an object) before a search ends
_COUNT_LIMIT: Final = 1e9  # tokens; more is no count
_COUNTS_LIMIT: Final = 1_000_000_000  # the same
_SECONDS_LIMIT: Final = 1e9  # 31 years
_decode_reply: Final = msgspec.json.Decoder(Reply).decode

Keys = tuple[tuple[bytes, tuple[tuple[str, bytes], ...]], ...]
"""Keys that are looked for, as they stand in a text, by what some have in common: most are in no reply."""


class Numbers:
    """The numbers in a piece of JSON text, also one that is cut anywhere; of each key the last one counts."""

    __slots__ = ("_found",)

    def __init__(self, text: bytes, keys: Keys) -> None:
        self._found: dict[str, float] = {}
        for part, names in keys:
            if text.rfind(part) < 0:  # five times as fast as "in" where nothing is found
                continue
            for key, name in names:
                at = text.rfind(name)
                if at >= 0 and (number := _last(text, name, at)) is not None:
                    self._found[key] = number

    def count(self, key: str) -> int | None:
        """The number of this key, if it is a possible count."""
        value = self._found.get(key)
        return int(value) if value is not None and 0 <= value < _COUNT_LIMIT else None

    def seconds(self, key: str, per_second: float = 1.0) -> float | None:
        """The number of this key as seconds, if it is a possible duration; with its units per second."""
        value = self._found.get(key)
        if value is None:
            return None
        seconds = value / per_second
        return seconds if 0 <= seconds < _SECONDS_LIMIT else None


def keys_of(parts: Mapping[str, str]) -> Keys:
    """Keys, written with spaces between them, by what they have in common."""
    return tuple([
        (part.encode(), tuple([(key, f'"{key}"'.encode()) for key in keys.split()]))
        for part, keys in parts.items()
    ])  # fmt: skip


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
    said = Numbers(end, _KEYS[dialect])
    prompt, cached, output, prefill_s, decode_s, load_s = _READERS[dialect](said, start)
    return Usage(prompt, cached, counted if output is None else output, prefill_s, decode_s, load_s, records)


def counts_of(document: bytes) -> Usage | None:
    """What a whole reply of OpenAI's says of itself, if it counts both its tokens and says no more than that.

    None: look for it as in a piece of text. To do only that took four times as long for the usual reply.
    """
    try:
        said = _decode_reply(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    counts = said.usage
    if counts is None or said.timings or said.stats:
        return None
    prompt, output, details = counts.prompt_tokens, counts.completion_tokens, counts.prompt_tokens_details
    if prompt is None or output is None:
        return None
    if counts.cached_tokens or counts.time_to_first_token or counts.generation_time:
        return None
    cached = None if details is None else details.cached_tokens
    return Usage(_possible(prompt), None if cached is None else _possible(cached), _possible(output))


def _possible(value: int | float) -> int | None:
    """A number, if it is a possible count."""
    if isinstance(value, int):  # by itself: both kinds at once are compared by calls
        return value if 0 <= value < _COUNTS_LIMIT else None
    return int(value) if 0 <= value < _COUNT_LIMIT else None


_Said = tuple[int | None, int | None, int | None, float | None, float | None, float | None]
"""What a reply says of itself: the first fields of Usage."""


def _ollama(end: Numbers, start: bytes) -> _Said:
    return (
        end.count("prompt_eval_count"),
        None,
        end.count("eval_count"),
        end.seconds("prompt_eval_duration", 1e9),
        end.seconds("eval_duration", 1e9),
        end.seconds("load_duration", 1e9),
    )


def _openai(end: Numbers, start: bytes) -> _Said:
    """OpenAI's usage, llama-server's timings and LM Studio's stats, whichever are there."""
    cached, prompt, output = end.count("cache_n"), end.count("prompt_tokens"), end.count("completion_tokens")
    if prompt is None and (evaluated := end.count("prompt_n")) is not None:
        prompt = evaluated + (cached or 0)
    if prompt is None:
        prompt = end.count("tokens_evaluated")
    if output is None:
        output = end.count("predicted_n")
    if output is None:
        output = end.count("tokens_predicted")
    prefill_s, decode_s = end.seconds("prompt_ms", 1e3), end.seconds("predicted_ms", 1e3)
    return (
        prompt,
        end.count("cached_tokens") if cached is None else cached,
        output,
        end.seconds("time_to_first_token") if prefill_s is None else prefill_s,
        end.seconds("generation_time") if decode_s is None else decode_s,
        end.seconds("load_ms", 1e3),
    )


def _responses(end: Numbers, start: bytes) -> _Said:
    return (
        end.count("input_tokens"),
        end.count("cached_tokens"),
        end.count("output_tokens"),
        end.seconds("prompt_ms", 1e3),
        end.seconds("predicted_ms", 1e3),
        None,
    )


def _anthropic(end: Numbers, start: bytes) -> _Said:
    """The prompt's size stands in the first event, cached parts apart from it; the last may correct it."""
    begun = Numbers(start, _PROMPT)
    prompt = _either(end, begun, "input_tokens")
    cached = _either(end, begun, "cache_read_input_tokens")
    if prompt is not None:
        prompt += (cached or 0) + (_either(end, begun, "cache_creation_input_tokens") or 0)
    return (
        prompt,
        cached,
        end.count("output_tokens"),
        end.seconds("prompt_ms", 1e3),
        end.seconds("predicted_ms", 1e3),
        None,
    )


def _either(end: Numbers, begun: Numbers, key: str) -> int | None:
    value = end.count(key)
    return begun.count(key) if value is None else value


def _lmstudio(end: Numbers, start: bytes) -> _Said:
    output, per_second = end.count("total_output_tokens"), end.seconds("tokens_per_second")
    return (
        end.count("input_tokens"),
        None,
        output,
        end.seconds("time_to_first_token_seconds"),
        output / per_second if output is not None and per_second else None,
        end.seconds("model_load_time_seconds"),
    )


_PROMPT: Final = keys_of({"put_tokens": "input_tokens cache_read_input_tokens cache_creation_input_tokens"})
_OPENAI: Final = keys_of(
    {
        '_tokens"': "prompt_tokens cached_tokens completion_tokens",
        '_n"': "cache_n prompt_n predicted_n",
        '_ms"': "prompt_ms predicted_ms load_ms",
        '"tokens_': "tokens_evaluated tokens_predicted",
        "time": "time_to_first_token generation_time",
    }
)
_KEYS: Final[dict[Dialect, Keys]] = {
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
_READERS: Final[dict[Dialect, Callable[[Numbers, bytes], _Said]]] = {
    Dialect.OLLAMA: _ollama,
    Dialect.OPENAI: _openai,
    Dialect.LLAMACPP: _openai,
    Dialect.RESPONSES: _responses,
    Dialect.ANTHROPIC: _anthropic,
    Dialect.LMSTUDIO: _lmstudio,
}
