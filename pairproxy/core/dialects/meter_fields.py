"""Where each wire format writes the numbers of a reply, and in which units."""

import re
from collections.abc import Callable

from pairproxy.core.models import Dialect, Usage

# Inside a JSON string a quote is escaped, so a model that writes "eval_count": 5 never matches a key.
_VALUE = re.compile(rb"\s*:\s*([0-9.eE+-]+)")
_TRIES = 8  # places of one key that hold no number (null, an object) before a search ends
_COUNT_LIMIT = 1e9  # tokens; more is no count
_SECONDS_LIMIT = 1e9  # 31 years


class Numbers:
    """The numbers in a piece of JSON text, also one that is cut anywhere; of each key the last one counts."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def count(self, *names: str) -> int | None:
        """The first of these keys that holds a possible count."""
        for name in names:
            value = self._last(name)
            if value is not None and 0 <= value < _COUNT_LIMIT:
                return int(value)
        return None

    def seconds(self, *units: tuple[str, float]) -> float | None:
        """The first of these keys that holds a possible duration; each with its units per second."""
        for name, per_second in units:
            value = self._last(name)
            if value is not None and 0 <= value / per_second < _SECONDS_LIMIT:
                return value / per_second
        return None

    def _last(self, name: str) -> float | None:
        key, end = f'"{name}"'.encode(), len(self._text)
        for _ in range(_TRIES):
            end = self._text.rfind(key, 0, end)
            if end < 0:
                return None
            if found := _VALUE.match(self._text, end + len(key)):
                try:
                    return float(found[1])
                except ValueError:
                    return None
        return None


def usage_of(dialect: Dialect, end: bytes, start: bytes = b"") -> Usage:
    """What a reply says of itself; ``end`` is the last of its bytes, ``start`` the first.

    Counts are tokens, durations seconds; None where it does not say.
    """
    return _READERS[dialect](Numbers(end), Numbers(start))


def _ollama(end: Numbers, start: Numbers) -> Usage:
    return Usage(
        prompt_tokens=end.count("prompt_eval_count"),
        output_tokens=end.count("eval_count"),
        prefill_s=end.seconds(("prompt_eval_duration", 1e9)),
        decode_s=end.seconds(("eval_duration", 1e9)),
        load_s=end.seconds(("load_duration", 1e9)),
    )


def _openai(end: Numbers, start: Numbers) -> Usage:
    """OpenAI's usage, llama-server's timings and LM Studio's stats, whichever are there."""
    cached = end.count("cache_n")
    prompt, evaluated = end.count("prompt_tokens"), end.count("prompt_n")
    if prompt is None and evaluated is not None:
        prompt = evaluated + (cached or 0)
    return Usage(
        prompt_tokens=prompt if prompt is not None else end.count("tokens_evaluated"),
        cached_tokens=cached if cached is not None else end.count("cached_tokens"),
        output_tokens=end.count("completion_tokens", "predicted_n", "tokens_predicted"),
        prefill_s=end.seconds(("prompt_ms", 1e3), ("time_to_first_token", 1.0)),
        decode_s=end.seconds(("predicted_ms", 1e3), ("generation_time", 1.0)),
        load_s=end.seconds(("load_ms", 1e3)),
    )


def _responses(end: Numbers, start: Numbers) -> Usage:
    return Usage(
        prompt_tokens=end.count("input_tokens"),
        cached_tokens=end.count("cached_tokens"),
        output_tokens=end.count("output_tokens"),
        prefill_s=end.seconds(("prompt_ms", 1e3)),
        decode_s=end.seconds(("predicted_ms", 1e3)),
    )


def _anthropic(end: Numbers, start: Numbers) -> Usage:
    """The prompt's size stands in the first event, cached parts apart from it; the last may correct it."""

    def count(name: str) -> int | None:
        value = end.count(name)
        return value if value is not None else start.count(name)

    prompt, cached = count("input_tokens"), count("cache_read_input_tokens")
    if prompt is not None:
        prompt += (cached or 0) + (count("cache_creation_input_tokens") or 0)
    return Usage(
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=end.count("output_tokens"),
        prefill_s=end.seconds(("prompt_ms", 1e3)),
        decode_s=end.seconds(("predicted_ms", 1e3)),
    )


def _lmstudio(end: Numbers, start: Numbers) -> Usage:
    output, per_second = end.count("total_output_tokens"), end.seconds(("tokens_per_second", 1.0))
    return Usage(
        prompt_tokens=end.count("input_tokens"),
        output_tokens=output,
        prefill_s=end.seconds(("time_to_first_token_seconds", 1.0)),
        decode_s=output / per_second if output is not None and per_second else None,
        load_s=end.seconds(("model_load_time_seconds", 1.0)),
    )


_READERS: dict[Dialect, Callable[[Numbers, Numbers], Usage]] = {
    Dialect.OLLAMA: _ollama,
    Dialect.OPENAI: _openai,
    Dialect.LLAMACPP: _openai,
    Dialect.RESPONSES: _responses,
    Dialect.ANTHROPIC: _anthropic,
    Dialect.LMSTUDIO: _lmstudio,
}
