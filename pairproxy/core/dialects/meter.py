"""Meters: reply bytes in, usage and outcome out. They see bytes after these were sent on, and keep both ends.

A complete HTTP message is not a complete answer: only the terminal record of the wire format tells
(``"done":true``, ``[DONE]``, an event called ``message_stop``, a closed JSON object).
"""

import re
from typing import Final

from pairproxy.core.dialects.meter_fields import counts_of, usage_of
from pairproxy.core.models import Dialect, Outcome, Usage

_OLLAMA: Final = Dialect.OLLAMA
_OPENAI: Final = Dialect.OPENAI
_ANTHROPIC: Final = Dialect.ANTHROPIC
_LLAMACPP: Final = Dialect.LLAMACPP
_DONE_WELL: Final = Outcome.DONE
_ERROR: Final = Outcome.ERROR
_TRUNCATED: Final = Outcome.TRUNCATED

TAIL_BYTES: Final = 64 * 1024  # the last record, with its usage, of every format seen so far
SHORT_TAIL_BYTES: Final = 2 * 1024  # of streams in SHORT, and what begins before: a thousand have 4 MB
ROOM_BYTES: Final = 2 * 1024  # at least, that a tail may grow by before it is cut
END_BYTES: Final = 2 * 1024  # looked at first, if they hold so many lines:
END_LINES: Final = 12  # six events of OpenAI's, four that have names; the usage is among them
HEAD_BYTES: Final = 4 * 1024  # Anthropic's first event, which counts the prompt, has about 400
START_BYTES: Final = 16  # by which a stream is known
EVENT_NAME_BYTES: Final = 64  # the longest in use, response.function_call_arguments.delta, has 38

TERMINAL: Final = {
    Dialect.ANTHROPIC: frozenset({b"message_stop"}),
    Dialect.RESPONSES: frozenset({b"response.completed", b"response.incomplete"}),
    Dialect.LMSTUDIO: frozenset({b"chat.end"}),
}
"""The event that ends a stream, where events have names."""
FAILED: Final = frozenset({b"error", b"response.failed"})

SHORT: Final = frozenset({Dialect.OLLAMA, Dialect.OPENAI, Dialect.ANTHROPIC})
"""Whose streams end with short records."""

_EVENT: Final = re.compile(rb"\nevent: ?([\w.]{1,%d})\r?(?=\n)" % EVENT_NAME_BYTES)
_EVENT_BYTES: Final = EVENT_NAME_BYTES + len("\nevent: \r\n")
_OLLAMA_DONE: Final = re.compile(rb'"done"\s*:\s*(true|false)')
_OLLAMA_TOTAL: Final = re.compile(rb'"total_duration"\s*:')
_LLAMA_STOP: Final = re.compile(rb'"stop"\s*:\s*(true|false)')
_LLAMA_STOP_TYPE: Final = b'"stop_type"'
_ERROR_LINE: Final = re.compile(rb'^(?:error:|(?:data:\s*)?\{\s*"error"\s*:(?!\s*null))')
_SERVER_SENT: Final = (b"data:", b"event:", b"id:", b"retry:", b":", b"error:")
_DONE: Final = frozenset({b"data: [DONE]", b"data:[DONE]"})
_LAST_LINES: Final = 3  # two records with the empty line between them
_EVENT_NEWLINES: Final = 2  # the end of an event's line and the empty line after it
_LINES: Final = {Dialect.OLLAMA: 1} | dict.fromkeys(TERMINAL, 3)  # of a record, two with no name
_EVENTS_WITHOUT_TOKEN: Final = 2  # the reason why it stopped, and [DONE]


class Meter:
    """Follows one reply. feed() takes decoded body bytes in any split; the rest is asked at its end.

    A chunk is only kept; its lines are counted, and the tail cut, when that is half as long again or somebody
    asks: so it costs 0.1 us. The first one is kept as it is: most replies that are no stream have no other.
    """

    __slots__ = (
        "_dialect", "_event", "_gone", "_has_failed", "_head", "_is_asked_to_stream", "_looked_at",
        "_newlines", "_only", "_room", "_shown", "_status", "_tail",
    )  # fmt: skip

    def __init__(self, dialect: Dialect, is_streaming: bool, status: int) -> None:
        self._dialect = dialect
        self._is_asked_to_stream = is_streaming
        self._status = status
        self._shown: bool | None = None  # whether it is a stream, once START_BYTES are there
        self._head = b""  # once it is gone from the tail
        self._only = b""  # the first chunk, while there is no other; then it begins the tail
        self._tail = bytearray()
        self._room = _room(SHORT_TAIL_BYTES)
        self._gone = 0  # bytes seen before the tail
        self._newlines = 0  # before
        self._looked_at = 0  # in the tail
        self._event = b""  # the name of the last one that is gone
        self._has_failed = False

    @property
    def size_bytes(self) -> int:
        """Body bytes seen."""
        return self._gone + len(self._tail) + len(self._only)

    def feed(self, data: bytes) -> None:
        """Take in the next decoded bytes of the body."""
        tail = self._tail
        if self._only:
            self._begin_tail()
        elif not tail and len(data) <= END_BYTES:
            self._only = data
            return
        tail += data
        if len(tail) > self._room:
            self._cut()

    def outcome(self, is_complete: bool) -> Outcome:
        """How the reply ended. ``is_complete``: the HTTP message ended as its framing said it would."""
        if self._status >= 400:
            return _ERROR if is_complete else _TRUNCATED
        if self._is_object():
            whole = self._only.rstrip()
            if _is_error(whole):
                return _ERROR
            return _DONE_WELL if is_complete and whole.endswith(b"}") else _TRUNCATED
        self._begin_tail()
        if self._dialect in TERMINAL:
            self._watch_events(len(self._tail))
        records = self._last_records() if self._is_stream() else [self._kept().rstrip()]
        if self._has_failed:
            return _ERROR
        for record in records:
            if _is_error(record):
                return _ERROR
        last = records[-1] if records else b""
        return _DONE_WELL if is_complete and self._is_terminated(last) else _TRUNCATED

    def usage(self) -> Usage:
        """What the reply said of itself; a stream of events that does not count its tokens is counted."""
        if self._dialect is _OPENAI and self._is_object():
            counts = counts_of(self._only)
            if counts is not None:
                return counts
        self._begin_tail()
        head = self._beginning(HEAD_BYTES) if self._dialect is _ANTHROPIC else b""
        if not self._is_stream():
            return self._usage_of_document(head)
        counted = self._counted_tokens() if self._dialect is _OPENAI else None
        return usage_of(self._dialect, self._end(), head, counted=counted, records=self._records())

    def _usage_of_document(self, head: bytes) -> Usage:
        """Most tell it in their last bytes; embeddings are long and have no output."""
        is_all = len(self._tail) <= END_BYTES
        end = bytes(self._tail) if is_all else bytes(self._tail[-END_BYTES:])
        usage = usage_of(self._dialect, end, head)
        is_all = is_all or (usage.prompt_tokens is not None and usage.output_tokens is not None)
        return usage if is_all else usage_of(self._dialect, self._kept(), head)

    def written(self) -> int:
        """About the tokens that came so far: one for each record; of a body that is no stream none."""
        self._begin_tail()
        return self._records() if self._status < 400 and self._is_stream() else 0

    def _is_object(self) -> bool:
        """Whether all that came is one chunk that begins a document, in words that name no events."""
        return self._only[:1] == b"{" and (self._dialect is _OPENAI or self._dialect is _LLAMACPP)

    def _begin_tail(self) -> None:
        if self._only:
            self._tail += self._only
            self._only = b""

    def _records(self) -> int:
        return self._counted_newlines() // _LINES.get(self._dialect, _EVENT_NEWLINES)

    def _counted_newlines(self) -> int:
        self._newlines += self._tail.count(b"\n", self._looked_at)
        self._looked_at = len(self._tail)
        return self._newlines

    def _cut(self) -> None:
        """Let go of what is before the tail; where that is nothing yet, the tail may grow."""
        if gone := self._tail_begins():
            if self._dialect in TERMINAL:
                self._watch_events(gone + _EVENT_BYTES)
            if not self._gone:
                is_told = self._dialect is _ANTHROPIC
                self._head = self._beginning(HEAD_BYTES if is_told else START_BYTES)
            self._counted_newlines()
            self._gone += gone
            self._tail = self._tail[gone:]  # which gives memory back, other than `del`
            self._looked_at -= gone
        self._room = _room(len(self._tail))

    def _watch_events(self, size: int) -> None:
        """Look for events in the first ``size`` bytes of what is there."""
        text = bytes(self._tail[:size])
        if names := _EVENT.findall(text if self._gone else b"\n" + text):
            self._event = names[-1]
            self._has_failed = self._has_failed or not FAILED.isdisjoint(names)

    def _beginning(self, size: int) -> bytes:
        return self._head[:size] if self._gone else bytes(self._tail[:size])

    def _tail_begins(self) -> int:
        """Where in what is there the tail begins: before two records, if they are no longer than a tail."""
        first = max(len(self._tail) - TAIL_BYTES, 0)
        if self._dialect not in SHORT or not self._is_stream():
            return first
        begins = len(self._tail) - SHORT_TAIL_BYTES
        for _ in range(_LAST_LINES):
            begins = self._tail.rfind(b"\n", 0, max(begins, 0))
        return max(first, begins + 1)

    def _kept(self) -> bytes:
        begins = self._tail_begins()
        return bytes(self._tail[begins:]) if begins else bytes(self._tail)

    def _is_stream(self) -> bool:
        """Whether the body is one of records: as its first bytes show, else as it was asked for."""
        if self._shown is not None:
            return self._shown
        start = self._beginning(START_BYTES)
        if start[:1] != b"{":
            start = start.lstrip()
        is_json = self._dialect is not _OLLAMA and start[:1] in (b"{", b"[")
        shown = (self._is_asked_to_stream and not is_json) or _is_server_sent(start)
        if self.size_bytes >= START_BYTES:
            self._shown = shown
        return shown

    def _is_terminated(self, last: bytes) -> bool:
        if not self._is_stream():
            return self._is_closed(last)
        if self._dialect is _OLLAMA:
            return _ends_ollama(last)
        if last in _DONE:
            return self._event in TERMINAL.get(self._dialect, (self._event,))
        if self._dialect is _LLAMACPP:
            stops = _LLAMA_STOP.findall(last)[-1:]
            is_last = stops == [b"true"] or _LLAMA_STOP_TYPE in last
        else:
            is_last = self._event in TERMINAL.get(self._dialect, ())
        return is_last and last.endswith(b"}") and self._tail.endswith(b"\n")

    def _is_closed(self, last: bytes) -> bool:
        """Whether a body that is one document is whole. Text (a transcription) has no end of its own."""
        start = self._beginning(START_BYTES)
        if start[:1] != b"{":
            start = start.lstrip()
        start = start[:1]
        return last.endswith(b"}" if start == b"{" else b"]" if start == b"[" else b"")

    def _last_records(self) -> list[bytes]:
        """The last two records of a stream (an error may stand before the terminal one), of Ollama's one."""
        if self._dialect is _OLLAMA:
            return [self._end()]
        lines = self._end().rsplit(b"\n", _LAST_LINES)[-_LAST_LINES:]
        return [line for line in lines if line.strip()][-2:]

    def _end(self) -> bytes:
        """The last record of Ollama's streams, END_LINES lines or more of others; no blanks at the end."""
        lines = 1 if self._dialect is _OLLAMA else END_LINES
        end = bytes(self._tail[-END_BYTES:]).rstrip()
        if len(end.rsplit(b"\n", lines)) <= lines:
            end = self._kept().rstrip()
        return end.rpartition(b"\n")[2] if self._dialect is _OLLAMA else end

    def _counted_tokens(self) -> int | None:
        """About the tokens of a stream, one for each event that can hold one; None if there are none."""
        events = self._counted_newlines() // _EVENT_NEWLINES
        return max(events - _EVENTS_WITHOUT_TOKEN, 0) or None


def _room(kept: int) -> int:
    """How long a tail may become before it is cut: not for each chunk."""
    return kept + max(kept // 2, ROOM_BYTES)


def _is_server_sent(start: bytes) -> bool:
    return start[:1] not in (b"{", b"[") and start.startswith(_SERVER_SENT)


def _is_error(record: bytes) -> bool:
    """Whether a record is an error; most begin with a key that is shorter or another word."""
    if record[:2] == b'{"' and record[2:7] != b"error":
        return False
    return _ERROR_LINE.match(record) is not None


def _ends_ollama(line: bytes) -> bool:
    """Whether a line is the last record; ``done`` stands behind what a model wrote.

    The beginning of a line that holds a long ``context`` is lost, but only that record tells a total.
    """
    if not line.endswith(b"}"):
        return False
    if not line.startswith(b"{"):
        return _OLLAMA_TOTAL.search(line) is not None
    return _OLLAMA_DONE.findall(line)[-1:] == [b"true"]
