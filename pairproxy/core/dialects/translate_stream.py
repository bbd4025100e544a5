"""An OpenAI stream (server-sent events, split anywhere) as Ollama's lines of JSON."""

import json
from typing import Any

from pairproxy.core.dialects.translate_json import write_json
from pairproxy.core.dialects.translate_reply import (
    MALFORMED,
    content_record,
    error_text,
    final_fields,
    whole_message,
)
from pairproxy.core.dialects.translate_request import Call

EVENT_LIMIT_BYTES = 16 * 1024 * 1024  # one event; a tool call that writes a whole file fits many times
_BROKEN = "the engine ended its reply before it was complete; send the request again"
_UNREADABLE = "the engine sent something that is not an OpenAI stream; look at its log"


class ReplyStream:
    """Translates one streamed reply. Feed it what arrives; it answers with whole lines.

    Every line ends with a newline and is one JSON object: a piece of the reply, the final record, or an
    error. After the last two the stream ``is_done`` and says nothing more; ``failure`` is the error's text.
    """

    def __init__(self, call: Call) -> None:
        self.is_done = False
        self.failure: str | None = None
        self._call = call
        self._pending = bytearray()
        self._searched = 0  # bytes of _pending known to hold no newline
        self._finish_reason: str | None = None
        self._timings: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._tool_calls: dict[int, dict[str, Any]] = {}

    def feed(self, data: bytes, created_at: str, elapsed_s: float) -> list[bytes]:
        """Take bytes of the stream. ``created_at`` is RFC 3339 now, ``elapsed_s`` since the request came."""
        self._pending += data
        lines: list[bytes] = []
        while not self.is_done:
            end = self._pending.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._pending)
                break
            line = bytes(self._pending[:end]).rstrip(b"\r")
            del self._pending[: end + 1]
            self._searched = 0
            lines += self._line(line, created_at, elapsed_s)
        if not self.is_done and len(self._pending) > EVENT_LIMIT_BYTES:
            lines += self._fail(_UNREADABLE)
        return lines

    def close(self, created_at: str, elapsed_s: float) -> list[bytes]:
        """The engine's stream has ended: the lines that are still owed."""
        if self.is_done:
            return []
        if self._finish_reason is None:
            return self._fail(_BROKEN)
        try:
            return self._finish(created_at, elapsed_s)
        except MALFORMED:
            return self._fail(_UNREADABLE)

    def _line(self, line: bytes, created_at: str, elapsed_s: float) -> list[bytes]:
        name, _, payload = line.partition(b":")
        if name not in (b"data", b"error"):
            return []  # blank lines, comments that keep the connection open, event names
        payload = payload.strip()
        if payload == b"[DONE]":
            return self.close(created_at, elapsed_s)
        try:
            event = json.loads(payload)
            if name == b"error":
                event = {"error": event}
            return self._event(event, created_at)
        except MALFORMED:
            return self._fail(_UNREADABLE)

    def _event(self, event: dict[str, Any], created_at: str) -> list[bytes]:
        if "error" in event:
            return self._fail(error_text(event) or _BROKEN)
        self._timings = event.get("timings") or self._timings
        self._usage = event.get("usage") or self._usage
        lines: list[bytes] = []
        for choice in event["choices"][:1]:
            delta = choice.get("delta") or {"content": choice.get("text")}
            for fragment in delta.pop("tool_calls", None) or ():
                self._gather(fragment)
            message = whole_message(delta)
            if message["content"] or "thinking" in message:
                record = content_record(self._call, created_at, message, choice.get("logprobs"))
                lines.append(write_json(record) + b"\n")
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
        return lines

    def _gather(self, fragment: dict[str, Any]) -> None:
        """Join the pieces of a tool call: Ollama sends each call whole."""
        empty: dict[str, Any] = {"id": None, "function": {"name": "", "arguments": ""}}
        call = self._tool_calls.setdefault(int(fragment.get("index", 0)), empty)
        call["id"] = fragment.get("id") or call["id"]
        function = fragment.get("function") or {}
        for key in ("name", "arguments"):
            call["function"][key] += function.get(key) or ""

    def _finish(self, created_at: str, elapsed_s: float) -> list[bytes]:
        self.is_done = True
        lines = []
        if self._tool_calls:
            calls = [self._tool_calls[index] for index in sorted(self._tool_calls)]
            message = whole_message({"tool_calls": calls})
            lines.append(write_json(content_record(self._call, created_at, message)) + b"\n")
        record = content_record(self._call, created_at, {"content": ""})
        fields = final_fields(self._finish_reason, self._timings, self._usage, elapsed_s)
        return [*lines, write_json({**record, **fields}) + b"\n"]

    def _fail(self, sentence: str) -> list[bytes]:
        self.is_done = True
        self.failure = sentence
        return [write_json({"error": sentence}) + b"\n"]
