"""Ready-made scripts for the fake engine: what real engines send, and raw bytes for what they should not."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from tests.support.fake_engine import EngineConnection, ParsedRequest, Script


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def head(status: int = 200, *headers: tuple[str, str]) -> bytes:
    """A reply head."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {status} {'OK' if status == 200 else 'No'}\r\n{lines}\r\n".encode()


def chunked_head(content_type: str = "application/x-ndjson") -> bytes:
    """The head of a streamed reply."""
    return head(200, ("Content-Type", content_type), ("Transfer-Encoding", "chunked"))


def raw(*pieces: bytes, gap_s: float = 0.0, then: str = "keep") -> Script:
    """Send the pieces with a gap after each, then ``keep``, ``close``, ``reset`` or ``hang``."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        for piece in pieces:
            await connection.send(piece, gap_s=gap_s)
        if then == "close":
            connection.close()
        elif then == "reset":
            connection.reset()
        elif then == "hang":
            await connection.peer_left(600)

    return script


ENDLESS_BLOCK = chunk(b"x" * 8192)


def endless() -> Script:
    """One line that never ends, as fast as the reader takes it."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        await connection.send(chunked_head())
        while True:
            await connection.send(ENDLESS_BLOCK)

    return script


def json_bytes(document: Any, status: int = 200) -> bytes:
    """A whole JSON reply with Content-Length, as Ollama writes it."""
    body = json.dumps(document, separators=(",", ":")).encode()
    kind = ("Content-Type", "application/json; charset=utf-8")
    return head(status, kind, ("Content-Length", str(len(body)))) + body


def json_reply(document: Any, status: int = 200) -> Script:
    """Answer every request with this document."""
    return raw(json_bytes(document, status))


def in_chunks(
    parts: Iterable[bytes], *, gap_s: float = 0.0, content_type: str, delay_s: float = 0.0
) -> Script:
    """Each part one chunk, ``gap_s`` apart; the head leaves with the first, after ``delay_s``."""
    chunks = [chunk(part) for part in parts]

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        if delay_s:
            await asyncio.sleep(delay_s)
        first = chunked_head(content_type)
        for one in chunks:
            await connection.send(first + one, gap_s=gap_s)
            first = b""
        await connection.send(first + LAST_CHUNK)

    return script


def ollama_chat(lines: Iterable[Any], gap_s: float = 0.0, delay_s: float = 0.0) -> Script:
    """NDJSON: each line one chunk; a dict is written as JSON, bytes go as they are."""
    parts = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
    return in_chunks(parts, gap_s=gap_s, content_type="application/x-ndjson", delay_s=delay_s)


def openai_chat(events: Iterable[Any], gap_s: float = 0.0, delay_s: float = 0.0) -> Script:
    """SSE: each event one chunk, ``[DONE]`` at the end."""
    texts = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in events]
    parts = [b"data: " + text + b"\n\n" for text in texts]
    return in_chunks(
        [*parts, b"data: [DONE]\n\n"], gap_s=gap_s, content_type="text/event-stream", delay_s=delay_s
    )


def routes(table: Mapping[str, Script], otherwise: Script | None = None) -> Script:
    """Choose a script by path; ``otherwise`` defaults to Ollama's plain 404."""
    plain = ("Content-Type", "text/plain")
    missing = otherwise or raw(head(404, plain, ("Content-Length", "18")) + b"404 page not found")

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        await table.get(request.path, missing)(request, connection)

    return script


def ollama(
    models: Mapping[str, str],
    *,
    chat: Script,
    v1: Script | None = None,
    version: str = "0.33.0",
    loaded: Iterable[str] = (),
) -> Script:
    """An Ollama with models name -> digest; ``chat`` answers /api/chat and /api/generate, ``v1`` /v1 chat."""
    entries = [{"name": name, "model": name, "digest": digest, "size": 1} for name, digest in models.items()]
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "library"} for name in models]
    in_memory = [one | {"context_length": 4096} for one in entries if one["name"] in set(loaded)]
    plain = ("Content-Type", "text/plain; charset=utf-8")
    return routes(
        {
            "/": raw(head(200, plain, ("Content-Length", "17")) + b"Ollama is running"),
            "/api/version": json_reply({"version": version}),
            "/api/tags": json_reply({"models": entries}),
            "/api/ps": json_reply({"models": in_memory}),
            "/api/show": _show(models),
            "/v1/models": json_reply({"object": "list", "data": listed}),
            "/api/chat": chat,
            "/api/generate": chat,
            "/v1/chat/completions": v1 or chat,
        }
    )


def _show(models: Mapping[str, str]) -> Script:
    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        asked = request.json()
        name = asked.get("model") or asked.get("name")
        if name not in models:
            await connection.send(json_bytes({"error": f"model '{name}' not found"}, 404))
            return
        weights = models[name].rpartition(":")[2]
        shown = {"modelfile": f"FROM /models/blobs/sha256-{weights}", "details": {}, "model_info": {}}
        await connection.send(json_bytes(shown | {"capabilities": ["completion"]}))

    return script


async def pieces_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    """A body as an iterator, ``size`` bytes at a time."""
    for start in range(0, len(data), size):
        yield data[start : start + size]
