"""A fake engine with the whole surface of an Ollama; bytes as the real one's source has them."""

import asyncio
import hashlib
import json
import struct
from collections.abc import Iterable
from typing import Any

from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, head, json_bytes
from tests.support.fake_engine import EngineConnection, ParsedRequest, Script
from tests.support.fake_ollama_reply import MODEL, SINCE, Reply, json_lines

LONG_GAP_S = 0.02  # ten seconds in all: nobody leaves after its end
GAP_S = 0.002  # chunks of a short reply are separate writes all the same
DIGEST = hashlib.sha256(b"fake").hexdigest()
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
DONE = frozenset({"/api/copy", "/api/delete"})  # 200 and nothing more
STREAMED = {
    "/api/pull": "pulling manifest",
    "/api/create": "writing manifest",
    "/api/push": "pushing manifest",
}


def ollama_surface() -> Script:
    """Answer as Ollama does; a script for FakeEngine."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        key = ("GET" if request.method == "HEAD" else request.method, request.path)
        if key == ("GET", "/"):
            await connection.send(_text(200, "Ollama is running", request.method))
        elif key in CATALOGUE:
            reply = json_bytes(CATALOGUE[key])
            await connection.send(reply if request.method == "GET" else reply[: reply.index(b"\r\n\r\n") + 4])
        elif request.path in INFERENCE:
            await _infer(request, connection)
        elif request.path in STREAMED:
            told = [{"status": STREAMED[request.path]}, {"status": "success"}]
            await _stream(connection, json_lines(told))
        elif request.path in DONE:
            await connection.send(head(200, ("Content-Length", "0")))
        elif request.path.startswith("/api/blobs/"):
            is_new = hashlib.sha256(request.body).hexdigest() == request.path.rpartition("-")[2]
            await connection.send(head(201 if is_new else 404, ("Content-Length", "0")))
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
        raw = unpacked(request.body) if request.header("Content-Encoding") == b"zstd" else request.body
        body = json.loads(raw)
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
    reply = Reply(request.path, body, raw)
    if not reply.is_streaming:
        await connection.send(json_bytes(reply.whole()))
        return
    gap_s = LONG_GAP_S if reply.is_long else GAP_S
    await _stream(connection, reply.parts(), gap_s, reply.content_type)


def packed(data: bytes) -> bytes:
    """A zstd frame that holds ``data`` in one raw block: valid everywhere, and made without the library."""
    return (
        b"\x28\xb5\x2f\xfd\xa0"
        + struct.pack("<I", len(data))
        + (len(data) << 3 | 1).to_bytes(3, "little")
        + data
    )


def unpacked(frame: bytes) -> bytes:
    """What packed() packed."""
    return frame[12:]


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
