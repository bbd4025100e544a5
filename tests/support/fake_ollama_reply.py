"""What a fake Ollama says to one body, in the form of the path that was called.

Text is made from the body, so two engines answer alike, and a changed byte changes the reply. A request for
anything long ("Count from ...") gets parts that can be told apart, and many of them.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Iterable
from typing import Any

from tests.support.fake_ollama_events import MessageEvents, response_events

MODEL = "fake:1b"
SINCE = "2026-08-21T10:00:00.123456789Z"
WORDS = ("river", "stone", "tree", "cloud", "road", "bridge", "field", "hill")
WORDS_OF_A_REPLY = 8
LONG_WORDS = 500
COUNTS = {"prompt_eval_count": 7, "eval_count": WORDS_OF_A_REPLY}
DURATIONS = {"total_duration": 9, "load_duration": 1, "prompt_eval_duration": 3, "eval_duration": 5}
CALL = {"city": "Berlin"}


class Reply:
    """What this engine says to one body, in the form of the path that was called."""

    def __init__(self, path: str, body: dict[str, Any], raw: bytes, model: str = MODEL) -> None:
        self._path, self._body, self._model = path, body, model
        self.is_long = b"Count from" in raw
        embeds = path in ("/api/embed", "/api/embeddings", "/v1/embeddings")
        default = path in ("/api/chat", "/api/generate")
        self._done_reason = _loading(path, body)
        self.is_streaming = bool(body.get("stream", default)) and not embeds and not self._done_reason
        self.content_type = "application/x-ndjson" if path.startswith("/api/") else "text/event-stream"
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
        count = LONG_WORDS if self.is_long else WORDS_OF_A_REPLY
        self._words = [f" {WORDS[digest[index % 32] % 8]}" for index in range(count)]
        if self.is_long:  # streamed or not, whatever else the body says: parts that can be told apart
            self._words = [f" {index}" for index in range(count)]

    @property
    def _text(self) -> str:
        return "".join(self._words)

    @property
    def _calls_tool(self) -> bool:
        return bool(self._body.get("tools")) and not self.is_long

    def whole(self) -> Any:
        """The one document of a reply that does not stream."""
        if self._done_reason:
            is_chat = self._path == "/api/chat"
            said = {"message": {"role": "assistant", "content": ""}} if is_chat else {"response": ""}
            return self._record(**said, done=True, done_reason=self._done_reason)
        match self._path:
            case "/api/chat":
                return self._record(message=self._message(), done=True, done_reason="stop", **self._end())
            case "/api/generate":
                return self._record(response=self._text, done=True, done_reason="stop", **self._end())
            case "/api/embed":
                vectors = self._vectors("input")
                return {
                    "model": self._model,
                    "embeddings": vectors,
                    "total_duration": 9,
                    "prompt_eval_count": 4,
                }
            case "/api/embeddings":
                return {"embedding": self._vectors("prompt")[0]}
            case "/v1/embeddings":
                return self._openai_vectors()
            case "/v1/responses":
                return list(response_events(self._model, self._words))[-1]["response"]
            case "/v1/messages":
                return MessageEvents(self._model, self._words, CALL if self._calls_tool else None).whole()
            case "/v1/completions":
                choice = {"text": self._text, "index": 0, "finish_reason": "stop"}
                return self._openai("text_completion", choice) | {"usage": self._usage()}
        finish = "tool_calls" if self._calls_tool else "stop"
        choice = {"index": 0, "message": self._openai_message(), "finish_reason": finish}
        return self._openai("chat.completion", choice) | {"usage": self._usage()}

    def parts(self) -> Iterable[bytes]:
        """The pieces of a stream, each written by itself."""
        match self._path:
            case "/api/chat" | "/api/generate":
                return json_lines(self._ollama_records())
            case "/v1/responses":
                return event_lines(response_events(self._model, self._words), is_named=True)
            case "/v1/messages":
                call = CALL if self._calls_tool else None
                return event_lines(MessageEvents(self._model, self._words, call).stream(), is_named=True)
        return event_lines(self._openai_records(), is_named=False)

    def _record(self, **fields: Any) -> dict[str, Any]:
        return {"model": self._model, "created_at": SINCE, **fields}

    def _end(self) -> dict[str, int]:
        return {**DURATIONS, **COUNTS}

    def _message(self) -> dict[str, Any]:
        if self._calls_tool:
            call = {"function": {"index": 0, "name": "weather", "arguments": CALL}}
            return {"role": "assistant", "content": "", "tool_calls": [call]}
        return {"role": "assistant", "content": self._text}

    def _ollama_records(self) -> Iterable[dict[str, Any]]:
        is_chat = self._path == "/api/chat"
        if is_chat and self._calls_tool:
            yield self._record(message=self._message(), done=False)
        else:
            for word in self._words:
                said = {"message": {"role": "assistant", "content": word}} if is_chat else {"response": word}
                yield self._record(**said, done=False)
        said = {"message": {"role": "assistant", "content": ""}} if is_chat else {"response": ""}
        yield self._record(**said, done=True, done_reason="stop", **self._end())

    def _openai(self, kind: str, *choices: Any) -> dict[str, Any]:
        start = {"id": "chatcmpl-7", "object": kind, "created": 1787306400, "model": self._model}
        return start | {"system_fingerprint": "fp_ollama", "choices": list(choices)}

    def _usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": 7,
            "completion_tokens": len(self._words),
            "total_tokens": 7 + len(self._words),
        }

    def _openai_message(self) -> dict[str, Any]:
        if not self._calls_tool:
            return {"role": "assistant", "content": self._text}
        function = {"name": "weather", "arguments": json.dumps(CALL)}
        call = {"id": "call_1", "index": 0, "type": "function", "function": function}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    def _openai_records(self) -> Iterable[dict[str, Any]]:
        is_chat = self._path == "/v1/chat/completions"
        kind = "chat.completion.chunk" if is_chat else "text_completion"
        texts = [self._openai_message()] if self._calls_tool else [
            {"role": "assistant", "content": word} for word in self._words
        ]  # fmt: skip
        for delta in texts:
            said = {"delta": delta} if is_chat else {"text": delta["content"]}
            yield self._openai(kind, {"index": 0, **said, "finish_reason": None})
        finish = "tool_calls" if self._calls_tool else "stop"
        said = {"delta": {"role": "assistant", "content": ""}} if is_chat else {"text": ""}
        yield self._openai(kind, {"index": 0, **said, "finish_reason": finish})
        if (self._body.get("stream_options") or {}).get("include_usage"):
            yield self._openai(kind) | {"usage": self._usage()}

    def _vectors(self, key: str) -> list[list[float]]:
        texts = self._body.get(key)
        return [_vector(str(text)) for text in (texts if isinstance(texts, list) else [texts])]

    def _openai_vectors(self) -> dict[str, Any]:
        is_packed = self._body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "embedding": _packed(vector) if is_packed else vector, "index": index}
            for index, vector in enumerate(self._vectors("input"))
        ]
        usage = {"prompt_tokens": 4, "total_tokens": 4}
        return {"object": "list", "data": data, "model": self._model, "usage": usage}


def _loading(path: str, body: dict[str, Any]) -> str | None:
    """``load`` or ``unload`` for a body that asks Ollama for no text, else None."""
    asked = {"/api/chat": "messages", "/api/generate": "prompt"}.get(path)
    if asked is None or body.get(asked):
        return None
    return "unload" if body.get("keep_alive") in (0, "0s", "0") else "load"


def _vector(text: str) -> list[float]:
    return [byte / 256 for byte in hashlib.sha256(text.encode()).digest()[:8]]


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def json_lines(records: Iterable[Any]) -> Iterable[bytes]:
    """NDJSON."""
    return (json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def event_lines(records: Iterable[Any], *, is_named: bool) -> Iterable[bytes]:
    """Server-sent events: named by their type, or nameless with [DONE] at the end."""
    for record in records:
        name = f"event: {record['type']}\n".encode() if is_named else b""
        yield name + b"data: " + json.dumps(record, separators=(",", ":")).encode() + b"\n\n"
    if not is_named:
        yield b"data: [DONE]\n\n"
