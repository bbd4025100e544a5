"""Meters: reply bytes in, usage and outcome out. They see bytes after these were sent on, and keep both ends.

A complete HTTP message is not a complete answer: only the terminal record of the wire format tells
(``"done":true``, ``[DONE]``, an event called ``message_stop``, a closed JSON object).
"""

import re
from dataclasses import replace

from pairproxy.core.dialects.meter_fields import usage_of
from pairproxy.core.models import Dialect, Outcome, Usage

TAIL_BYTES = 64 * 1024  # the last record, with its usage, of every format seen so far
HEAD_BYTES = 4 * 1024  # Anthropic's first event, which counts the prompt, has about 400
EVENT_NAME_BYTES = 64  # the longest in use, response.function_call_arguments.delta, has 38

TERMINAL = {
    Dialect.ANTHROPIC: frozenset({b"message_stop"}),
    Dialect.RESPONSES: frozenset({b"response.completed", b"response.incomplete"}),
    Dialect.LMSTUDIO: frozenset({b"chat.end"}),
}
"""The event that ends a stream, where events have names."""
FAILED = frozenset({b"error", b"response.failed"})

_EVENT = re.compile(rb"\nevent: ?([\w.]{1,%d})\r?(?=\n)" % EVENT_NAME_BYTES)
_EDGE_BYTES = EVENT_NAME_BYTES + len("\nevent: \r\n")
_OLLAMA_DONE = re.compile(rb'"done"\s*:\s*(true|false)')
_OLLAMA_TOTAL = re.compile(rb'"total_duration"\s*:')
_LLAMA_STOP = re.compile(rb'"stop"\s*:\s*(true|false)')
_LLAMA_STOP_TYPE = b'"stop_type"'
_ERROR_LINE = re.compile(rb'^(?:error:|(?:data:\s*)?\{\s*"error"\s*:(?!\s*null))')
_SERVER_SENT = (b"data:", b"event:", b"id:", b"retry:", b":", b"error:")
_DONE = frozenset({b"data: [DONE]", b"data:[DONE]"})
_EVENT_NEWLINES = 2  # the end of an event's line and the empty line after it
_LINES = {Dialect.OLLAMA: 1} | dict.fromkeys(TERMINAL, 3)  # of a record, where an event has no name: two
_EVENTS_WITHOUT_TOKEN = 2  # the reason why it stopped, and [DONE]


class Meter:
    """Follows one reply. feed() takes decoded body bytes in any split; the rest is asked at its end."""

    def __init__(self, dialect: Dialect, is_streaming: bool, status: int) -> None:
        self._dialect = dialect
        self._is_asked_to_stream = is_streaming
        self._status = status
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._newlines = 0
        self._edge = b"\n"  # what the next bytes may continue to the name of an event
        self._event = b""
        self._has_failed = False

    @property
    def size_bytes(self) -> int:
        """Body bytes seen."""
        return self._size

    def feed(self, data: bytes) -> None:
        """Take in the next decoded bytes of the body."""
        self._size += len(data)
        self._newlines += data.count(b"\n")
        if len(self._head) < HEAD_BYTES:
            self._head += data[: HEAD_BYTES - len(self._head)]
        self._tail += data
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]
        if self._dialect in TERMINAL:
            self._watch_events(data)

    def outcome(self, is_complete: bool) -> Outcome:
        """How the reply ended. ``is_complete``: the HTTP message ended as its framing said it would."""
        if self._status >= 400:
            return Outcome.ERROR if is_complete else Outcome.TRUNCATED
        records = self._last_records()
        if self._has_failed or any(_ERROR_LINE.match(record) for record in records):
            return Outcome.ERROR
        last = records[-1] if records else b""
        return Outcome.DONE if is_complete and self._is_terminated(last) else Outcome.TRUNCATED

    def usage(self) -> Usage:
        """What the reply said of itself; a stream of events that does not count its tokens is counted."""
        if self._dialect is Dialect.OLLAMA:
            records = self._last_records()
            usage = usage_of(self._dialect, records[-1] if records else b"")
        else:
            usage = usage_of(self._dialect, self._end(), bytes(self._head))
        if self._dialect is Dialect.OPENAI and usage.output_tokens is None:
            usage = replace(usage, output_tokens=self._counted_tokens())
        if not self._is_stream():
            return usage
        return replace(usage, records=self._records())

    def written(self) -> int:
        """About the tokens that came so far: one for each record; of a body that is no stream none."""
        return self._records() if self._status < 400 and self._is_stream() else 0

    def _records(self) -> int:
        return self._newlines // _LINES.get(self._dialect, _EVENT_NEWLINES)

    def _watch_events(self, data: bytes) -> None:
        text = self._edge + data
        for found in _EVENT.finditer(text):
            self._event = found[1]
            self._has_failed = self._has_failed or self._event in FAILED
        self._edge = text[-_EDGE_BYTES:]

    def _is_stream(self) -> bool:
        """Whether the body is one of records: as its first bytes show, else as it was asked for."""
        start = bytes(self._head[:16]).lstrip()
        if start.startswith(_SERVER_SENT):
            return True
        if self._dialect is Dialect.OLLAMA or not start.startswith((b"{", b"[")):
            return self._is_asked_to_stream
        return False

    def _is_terminated(self, last: bytes) -> bool:
        if not self._is_stream():
            return self._is_closed(last)
        if self._dialect is Dialect.OLLAMA:
            return _ends_ollama(last)
        if last in _DONE:
            return self._event in TERMINAL.get(self._dialect, (self._event,))
        if self._dialect is Dialect.LLAMACPP:
            stops = _LLAMA_STOP.findall(last)[-1:]
            is_last = stops == [b"true"] or _LLAMA_STOP_TYPE in last
        else:
            is_last = self._event in TERMINAL.get(self._dialect, ())
        return is_last and last.endswith(b"}") and self._tail.endswith(b"\n")

    def _is_closed(self, last: bytes) -> bool:
        """Whether a body that is one document is whole. Text (a transcription) has no end of its own."""
        start = bytes(self._head[:16]).lstrip()[:1]
        return {b"{": last.endswith(b"}"), b"[": last.endswith(b"]")}.get(start, True)

    def _last_records(self) -> list[bytes]:
        """The last two records of a stream (an error may stand before the terminal one), or all there is."""
        tail = self._end().rstrip()
        if not self._is_stream():
            return [tail]
        count = 1 if self._dialect is Dialect.OLLAMA else 2
        return [line for line in tail.rsplit(b"\n", 2 * count)[1 - 2 * count :] if line.strip()][-count:]

    def _end(self) -> bytes:
        return bytes(self._tail[-TAIL_BYTES:])

    def _counted_tokens(self) -> int | None:
        """About the tokens of a stream, one for each event that can hold one; None if there are none."""
        events = self._newlines // _EVENT_NEWLINES if self._is_stream() else 0
        return max(events - _EVENTS_WITHOUT_TOKEN, 0) or None


def _ends_ollama(line: bytes) -> bool:
    """Whether a line is the last record; ``done`` stands behind what a model wrote.

    The beginning of a line that holds a long ``context`` is lost, but only that record tells a total.
    """
    if not line.endswith(b"}"):
        return False
    if not line.startswith(b"{"):
        return _OLLAMA_TOTAL.search(line) is not None
    return _OLLAMA_DONE.findall(line)[-1:] == [b"true"]
