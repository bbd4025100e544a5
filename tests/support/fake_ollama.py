"""A fake engine with the whole surface of an Ollama: its bytes are those that the real one's source writes.

Replies are made from the request's body, so two engines answer alike, and a changed byte changes the reply.
A request for anything long ("Count ...") gets a stream with time enough to leave.
"""

import asyncio
import base64
import hashlib
import json
import struct
from collections.abc import Iterable
from typing import Any

from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, head, json_bytes
from tests.support.fake_engine import EngineConnection, ParsedRequest, Script
from tests.support.fake_ollama_events import MessageEvents, response_events

MODEL = "fake:1b"
DIGEST = hashlib.sha256(b"fake").hexdigest()
SINCE = "2026-08-21T10:00:00.123456789Z"
WORDS = ("river", "stone", "tree", "cloud", "road", "bridge", "field", "hill")
WORDS_OF_A_REPLY = 8
LONG_WORDS = 500
LONG_GAP_S = 0.02  # ten seconds in all: nobody leaves after its end
GAP_S = 0.002  # chunks of a short reply are separate writes all the same
COUNTS = {"prompt_eval_count": 7, "eval_count": WORDS_OF_A_REPLY}
DURATIONS = {"total_duration": 9, "load_duration": 1, "prompt_eval_duration": 3, "eval_duration": 5}
DETAILS = {
    "parent_model": "",
    "format": "gguf",
    "family": "fake",
    "families": ["fake"],
    "parameter_size": "1B",
    "quantization_level": "Q4_K_M",
    "context_length": 32768,
    "embedding_length": 8,
}
CAPABILITIES = ["completion", "tools", "thinking", "embedding"]
TAGS = {"name": MODEL, "model": MODEL, "modified_at": SINCE, "size": 1234567, "digest": DIGEST}
PS = {"name": MODEL, "model": MODEL, "size": 1234567, "digest": DIGEST, "details": DETAILS}
SHOW = {
    "modelfile": f"FROM /models/blobs/sha256-{DIGEST}\n",
    "parameters": "temperature 0",
    "template": "{{ .Prompt }}",
    "details": DETAILS,
    "model_info": {"general.architecture": "fake", "fake.context_length": 32768},
    "capabilities": CAPABILITIES,
    "modified_at": SINCE,
}
V1_MODEL = {"id": MODEL, "object": "model", "created": 1787306400, "owned_by": "library"}
CALL = {"city": "Berlin"}

CATALOGUE: dict[tuple[str, str], Any] = {
    ("GET", "/api/version"): {"version": "0.33.0"},
    ("GET", "/api/status"): {"cloud": {"disabled": False, "source": "none"}},
    ("GET", "/api/tags"): {"models": [TAGS | {"details": DETAILS, "capabilities": CAPABILITIES}]},
    ("GET", "/api/ps"): {"models": [PS | {"expires_at": SINCE, "size_vram": 1, "context_length": 32768}]},
    ("GET", "/v1/models"): {"object": "list", "data": [V1_MODEL]},
    ("GET", f"/v1/models/{MODEL}"): V1_MODEL,
}
INFERENCE = frozenset({
    "/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/show", "/v1/chat/completions",
    "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages",
})  # fmt: skip


def ollama_surface() -> Script:
    """Answer as Ollama does; a script for FakeEngine."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        key = ("GET" if request.method == "HEAD" else request.method, request.path)
        if key == ("GET", "/"):
            await connection.send(_text(200, "Ollama is running", request.method))
        elif key in CATALOGUE:
            await connection.send(json_bytes(CATALOGUE[key]))
        elif request.path in INFERENCE:
            await _infer(request, connection)
        elif request.path == "/api/pull":
            await _stream(connection, _lines([{"status": "pulling manifest"}, {"status": "success"}]))
        elif request.path == "/api/me":
            await connection.send(json_bytes({"error": "unauthorized", "signin_url": "x"}, 401))
        else:
            await connection.send(_text(404, "404 page not found", request.method))

    return script


def _text(status: int, text: str, method: str) -> bytes:
    kind = ("Content-Type", "text/plain; charset=utf-8" if status == 200 else "text/plain")
    body = b"" if method == "HEAD" else text.encode()
    return head(status, kind, ("Content-Length", str(len(text)))) + body


async def _infer(request: ParsedRequest, connection: EngineConnection) -> None:
    try:
        body = request.json()
        model = body.get("model") or body.get("name")
    except (ValueError, AttributeError):
        await connection.send(_error(request.path, 400, "invalid JSON"))
        return
    if model != MODEL:
        await connection.send(_error(request.path, 404, f"model '{model}' not found"))
        return
    if request.path == "/api/show":
        await connection.send(json_bytes(SHOW))
        return
    reply = _Reply(request.path, body, request.body)
    if not reply.is_streaming:
        await connection.send(json_bytes(reply.whole()))
        return
    gap_s = LONG_GAP_S if reply.is_long else GAP_S
    await _stream(connection, reply.parts(), gap_s, reply.content_type)


async def _stream(
    connection: EngineConnection,
    parts: Iterable[bytes],
    gap_s: float = GAP_S,
    content_type: str = "application/x-ndjson",
) -> None:
    first = chunked_head(content_type)
    for part in parts:
        await connection.send(first + chunk(part))
        await asyncio.sleep(gap_s)
        first = b""
    await connection.send(LAST_CHUNK)


def _error(path: str, status: int, text: str) -> bytes:
    kind = {400: "invalid_request_error", 404: "not_found_error"}[status]
    if path == "/v1/messages":
        error = {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}
        return json_bytes(error, status)
    if path.startswith("/v1/"):
        return json_bytes({"error": {"message": text, "type": kind, "param": None, "code": None}}, status)
    return json_bytes({"error": text}, status)


def _lines(records: Iterable[Any]) -> Iterable[bytes]:
    return (json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def _events(records: Iterable[Any], *, is_named: bool) -> Iterable[bytes]:
    for record in records:
        name = f"event: {record['type']}\n".encode() if is_named else b""
        yield name + b"data: " + json.dumps(record, separators=(",", ":")).encode() + b"\n\n"
    if not is_named:
        yield b"data: [DONE]\n\n"


class _Reply:
    """What this engine says to one body, in the form of the path that was called."""

    def __init__(self, path: str, body: dict[str, Any], raw: bytes) -> None:
        self._path, self._body = path, body
        self.is_long = b"Count from" in raw
        embeds = path in ("/api/embed", "/api/embeddings", "/v1/embeddings")
        default = path in ("/api/chat", "/api/generate")
        self.is_streaming = bool(body.get("stream", default)) and not embeds
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
        match self._path:
            case "/api/chat":
                return self._record(message=self._message(), done=True, done_reason="stop", **self._end())
            case "/api/generate":
                return self._record(response=self._text, done=True, done_reason="stop", **self._end())
            case "/api/embed":
                vectors = self._vectors("input")
                return {"model": MODEL, "embeddings": vectors, "total_duration": 9, "prompt_eval_count": 4}
            case "/api/embeddings":
                return {"embedding": self._vectors("prompt")[0]}
            case "/v1/embeddings":
                return self._openai_vectors()
            case "/v1/responses":
                return list(response_events(MODEL, self._words))[-1]["response"]
            case "/v1/messages":
                return MessageEvents(MODEL, self._words, CALL if self._calls_tool else None).whole()
            case "/v1/completions":
                choice = {"text": self._text, "index": 0, "finish_reason": "stop"}
                return self._openai("text_completion", choice) | {"usage": self._usage()}
        finish = "tool_calls" if self._calls_tool else "stop"
        choice = {"index": 0, "message": self._openai_message(), "finish_reason": finish}
        return self._openai("chat.completion", choice) | {"usage": self._usage()}

    def parts(self) -> Iterable[bytes]:
        match self._path:
            case "/api/chat" | "/api/generate":
                return _lines(self._ollama_records())
            case "/v1/responses":
                return _events(response_events(MODEL, self._words), is_named=True)
            case "/v1/messages":
                call = CALL if self._calls_tool else None
                return _events(MessageEvents(MODEL, self._words, call).stream(), is_named=True)
        return _events(self._openai_records(), is_named=False)

    def _record(self, **fields: Any) -> dict[str, Any]:
        return {"model": MODEL, "created_at": SINCE, **fields}

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
        start = {"id": "chatcmpl-7", "object": kind, "created": 1787306400, "model": MODEL}
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
        return {"object": "list", "data": data, "model": MODEL, "usage": usage}


def _vector(text: str) -> list[float]:
    return [byte / 256 for byte in hashlib.sha256(text.encode()).digest()[:8]]


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
