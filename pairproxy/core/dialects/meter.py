"""Meters: reply bytes in, usage and outcome out. They see bytes after these were sent on, and keep a tail.

A complete HTTP message is not a complete answer: only the terminal record of the wire format tells
(``"done":true``, ``[DONE]``, a closed JSON object).
"""

import re

from pairproxy.core.models import Dialect, Outcome, Usage

TAIL_BYTES = 64 * 1024  # the last record, with its usage, of every format seen so far

# Inside a JSON string a quote is escaped, so a model that writes "eval_count": 5 never matches these.
_NUMBER = rb"\s*:\s*([0-9.eE+-]+)"


def _field(name: str) -> "re.Pattern[bytes]":
    return re.compile(b'"' + name.encode() + b'"' + _NUMBER)


_OLLAMA_PROMPT = _field("prompt_eval_count")
_OLLAMA_PROMPT_NS = _field("prompt_eval_duration")
_OLLAMA_OUTPUT = _field("eval_count")
_OLLAMA_OUTPUT_NS = _field("eval_duration")
_OLLAMA_LOAD_NS = _field("load_duration")
_OLLAMA_DONE = re.compile(rb'"done"\s*:\s*(true|false)')
_OPENAI_PROMPT = _field("prompt_tokens")
_OPENAI_OUTPUT = _field("completion_tokens")
_OPENAI_CACHED = _field("cached_tokens")
_TIMINGS_CACHED = _field("cache_n")
_TIMINGS_PROMPT = _field("prompt_n")
_TIMINGS_PROMPT_MS = _field("prompt_ms")
_TIMINGS_OUTPUT = _field("predicted_n")
_TIMINGS_OUTPUT_MS = _field("predicted_ms")
_TIMINGS_LOAD_MS = _field("load_ms")
_ERROR_LINE = re.compile(rb'^(?:data:\s*)?\{\s*"error"\s*:(?!\s*null)')
_EVENT_NEWLINES = 2  # the end of an event's line and the empty line after it
_EVENTS_WITHOUT_TOKEN = 2  # the reason why it stopped, and [DONE]


class Meter:
    """Follows one reply. feed() takes decoded body bytes in any split; the rest is asked at its end."""

    def __init__(self, dialect: Dialect, is_streaming: bool, status: int) -> None:
        self._dialect = dialect
        self._is_streaming = is_streaming
        self._status = status
        self._tail = bytearray()
        self._size = 0
        self._newlines = 0

    @property
    def size_bytes(self) -> int:
        """Body bytes seen."""
        return self._size

    def feed(self, data: bytes) -> None:
        """Take in the next decoded bytes of the body."""
        self._size += len(data)
        self._newlines += data.count(b"\n")
        self._tail += data
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def outcome(self, is_complete: bool) -> Outcome:
        """How the reply ended. ``is_complete``: the HTTP message ended as its framing said it would."""
        if self._status >= 400:
            return Outcome.ERROR if is_complete else Outcome.TRUNCATED
        last = self._last_record()
        if _ERROR_LINE.match(last):
            return Outcome.ERROR
        return Outcome.DONE if is_complete and self._is_terminated(last) else Outcome.TRUNCATED

    def usage(self) -> Usage:
        """What the reply said of itself; a stream of events that does not count its tokens is counted."""
        if self._dialect is Dialect.OLLAMA:
            return self._ollama_usage(self._last_record() if self._is_streaming else bytes(self._tail))
        return self._openai_usage(bytes(self._tail))

    def _is_terminated(self, last: bytes) -> bool:
        if not self._is_streaming:
            return last.endswith(b"}") or not last
        if self._dialect is Dialect.OLLAMA:
            is_done = _OLLAMA_DONE.findall(last)[-1:] == [b"true"]  # it stands behind what a model wrote
            return is_done and last.endswith(b"}")
        return last == b"data: [DONE]" or last == b"data:[DONE]"

    def _last_record(self) -> bytes:
        tail = bytes(self._tail).rstrip()
        return tail[tail.rfind(b"\n") + 1 :] if self._is_streaming else tail

    def _ollama_usage(self, record: bytes) -> Usage:
        return Usage(
            prompt_tokens=_count(_OLLAMA_PROMPT, record),
            output_tokens=_count(_OLLAMA_OUTPUT, record),
            prefill_s=_seconds(_OLLAMA_PROMPT_NS, record, 1e9),
            decode_s=_seconds(_OLLAMA_OUTPUT_NS, record, 1e9),
            load_s=_seconds(_OLLAMA_LOAD_NS, record, 1e9),
        )

    def _openai_usage(self, tail: bytes) -> Usage:
        cached = _count(_TIMINGS_CACHED, tail)
        evaluated = _count(_TIMINGS_PROMPT, tail)
        prompt = _count(_OPENAI_PROMPT, tail)
        output = _count(_OPENAI_OUTPUT, tail)
        if output is None:
            output = _count(_TIMINGS_OUTPUT, tail)
        if prompt is None and evaluated is not None:
            prompt = evaluated + (cached or 0)
        return Usage(
            prompt_tokens=prompt,
            cached_tokens=cached if cached is not None else _count(_OPENAI_CACHED, tail),
            output_tokens=output if output is not None else self._counted_tokens(),
            prefill_s=_seconds(_TIMINGS_PROMPT_MS, tail, 1e3),
            decode_s=_seconds(_TIMINGS_OUTPUT_MS, tail, 1e3),
            load_s=_seconds(_TIMINGS_LOAD_MS, tail, 1e3),
        )

    def _counted_tokens(self) -> int | None:
        """About the tokens of a stream, one for each event that can hold one; None if there are none."""
        events = self._newlines // _EVENT_NEWLINES if self._is_streaming else 0
        return max(events - _EVENTS_WITHOUT_TOKEN, 0) or None


def _number(pattern: "re.Pattern[bytes]", text: bytes) -> float | None:
    found = pattern.findall(text)
    try:
        return float(found[-1]) if found else None
    except ValueError:
        return None


def _count(pattern: "re.Pattern[bytes]", text: bytes) -> int | None:
    value = _number(pattern, text)
    return int(value) if value is not None and 0 <= value < 1e9 else None


def _seconds(pattern: "re.Pattern[bytes]", text: bytes, per_second: float) -> float | None:
    value = _number(pattern, text)
    return value / per_second if value is not None and 0 <= value < 1e18 else None
