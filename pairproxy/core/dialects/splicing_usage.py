"""The usage of one reply in several parts, as the last of its records tells it.

A later part read as prompt what the others had written: its prompt is longer by that, its reply shorter.
"""

from typing import Any

NS_PER_S = 1e9
MS_PER_S = 1e3
PER_TOKEN, PER_SECOND = "predicted_per_token_ms", "predicted_per_second"

Record = dict[str, Any]


class Spent:
    """What the parts before the present one delivered, and how long they took; ``at`` as of Splicer."""

    def __init__(self, at: float) -> None:
        self.tokens = 0
        self.total_s = 0.0  # from the request to the present part
        self.decode_s = 0.0  # from the first to the last text of each part
        self._began_at = at
        self._first_at: float | None = None
        self._last_at = at

    def saw(self, at: float) -> None:
        """Text came."""
        if self._first_at is None:
            self._first_at = at
        self._last_at = at

    def end_part(self, tokens: int, at: float) -> None:
        """A part is over, after which the client has so many tokens in all."""
        if self._first_at is not None:
            self.decode_s += self._last_at - self._first_at
        self._first_at = None
        self.tokens = tokens
        self.total_s = at - self._began_at


def openai_in_all(record: Record, spent: Spent) -> Record:
    """A record with the ``usage`` of all parts, and llama.cpp's ``timings`` of all that was written."""
    out = {**record}
    if isinstance(used := record.get("usage"), dict):
        counts = {**used}
        _lower(counts, "prompt_tokens", spent.tokens)
        _raise(counts, "completion_tokens", spent.tokens)
        if "total_tokens" in counts and "prompt_tokens" in counts and "completion_tokens" in counts:
            counts["total_tokens"] = counts["prompt_tokens"] + counts["completion_tokens"]
        out["usage"] = counts
    if isinstance(timings := record.get("timings"), dict) and "predicted_n" in timings:
        times = {**timings}
        _raise(times, "predicted_n", spent.tokens)
        _raise(times, "predicted_ms", spent.decode_s * MS_PER_S)
        if times.get("predicted_ms") and times["predicted_n"]:
            times[PER_TOKEN] = times["predicted_ms"] / times["predicted_n"]
            times[PER_SECOND] = MS_PER_S * times["predicted_n"] / times["predicted_ms"]
        out["timings"] = times
    return out


def ollama_in_all(record: Record, spent: Spent) -> Record:
    """A record with the counts (tokens) and durations (nanoseconds) of all parts, where it has any."""
    out = {**record}
    _lower(out, "prompt_eval_count", spent.tokens)
    _raise(out, "eval_count", spent.tokens)
    _raise(out, "eval_duration", round(spent.decode_s * NS_PER_S))
    _raise(out, "total_duration", round(spent.total_s * NS_PER_S))
    return out


def _raise(record: Record, key: str, by: float) -> None:
    if isinstance(value := record.get(key), int | float):
        record[key] = value + by


def _lower(record: Record, key: str, by: int) -> None:
    if isinstance(value := record.get(key), int | float):
        record[key] = max(value - by, 0)
