"""The order of calls that well-known programs make, answered as their engine answers them directly."""

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.clients.scenes import Scene
from tests.support.engine_scripts import LAST_CHUNK, chunk
from tests.support.fake_lmstudio import MODEL as STUDIO_MODEL
from tests.support.fake_ollama import packed
from tests.support.fake_ollama_reply import MODEL as FAKE_MODEL
from tests.support.raw_client import RawClient, RawReply, request, without_hop_by_hop
from tests.support.running import run_async

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
HELLO = [{"role": "user", "content": "Name three rivers of Europe."}]
BLOB = b"weights " * 1000
UNKNOWN = "nobody:1b"
CHAT = {"model": FAKE_MODEL, "messages": HELLO}
NAMED = {"model": FAKE_MODEL}


@dataclass(frozen=True)
class Call:
    """One request of a sequence; ``status`` is what the engine answers."""

    line: str
    body: Any = None
    headers: tuple[str, ...] = ()
    status: int = 200
    is_chunked: bool = False

    def raw(self, headers: tuple[str, ...]) -> bytes:
        body = self.body if isinstance(self.body, bytes | None) else json.dumps(self.body).encode()
        extra = (*headers, *self.headers)
        if self.is_chunked and body is not None:
            framed = b"".join(chunk(body[at : at + 4096]) for at in range(0, len(body), 4096)) + LAST_CHUNK
            return request(f"{self.line} HTTP/1.1", framed, "Transfer-Encoding: chunked", *extra)
        return request(f"{self.line} HTTP/1.1", body, *extra)


@dataclass(frozen=True)
class Sequence:
    """What a program does, on one connection, with the headers that it sends each time."""

    name: str
    headers: tuple[str, ...]
    calls: list[Call] = field(default_factory=list)


GO = ("User-Agent: ollama/0.33.0 (amd64 linux) Go/go1.26.1", "Accept: application/x-ndjson")
JSON = "Content-Type: application/json"
SHOWN = {"system": "", "template": "", "verbose": False, "options": None, "name": ""}

OLLAMA_RUN = Sequence(
    "ollama run",
    (*GO, JSON),
    [
        Call("HEAD /"),
        Call("POST /api/show", {"model": UNKNOWN, **SHOWN}, status=404),
        Call("POST /api/pull", {"model": UNKNOWN, "name": UNKNOWN}),
        Call("POST /api/show", {"model": FAKE_MODEL, **SHOWN}),
        Call("POST /api/generate", {"model": FAKE_MODEL, "prompt": ""}),
        Call("POST /api/chat", {**CHAT, "format": "", "options": {}}),
        Call("POST /api/chat", {**CHAT, "messages": [*HELLO, *HELLO], "options": {}}),
        Call("POST /api/generate", {"model": FAKE_MODEL, "prompt": "Why?", "stream": True}),
        Call("POST /api/embed", {"model": FAKE_MODEL, "input": "a river"}),
    ],
)
OLLAMA_COMMANDS = Sequence(
    "ollama's other commands",
    (*GO, JSON),
    [
        Call("HEAD /"),
        Call("GET /api/version"),
        Call("GET /api/tags"),
        Call("GET /api/ps"),
        Call("POST /api/me", {}, status=401),
        Call(f"POST /api/blobs/sha256:{hashlib.sha256(BLOB).hexdigest()}", BLOB, status=404, is_chunked=True),
        Call(f"POST /api/blobs/sha256-{hashlib.sha256(BLOB).hexdigest()}", BLOB, status=201, is_chunked=True),
        Call("POST /api/create", {"model": "mine", "files": {"a.gguf": "sha256:0"}}),
        Call("POST /api/copy", {"source": FAKE_MODEL, "destination": "mine"}),
        Call("POST /api/generate", {"model": FAKE_MODEL, "prompt": "", "keep_alive": "0s"}),
        Call("DELETE /api/delete", {"name": "mine"}),
    ],
)
COPILOT = Sequence(
    "Copilot",
    ("User-Agent: GitHubCopilotChat/0.35.0", "Accept: */*"),
    [
        Call("GET /api/version"),
        Call("GET /api/tags"),
        Call("POST /api/show", NAMED, (JSON,)),
        Call("POST /v1/chat/completions", {**CHAT, "stream": True, "tools": [TOOL]}, (JSON,)),
        Call("POST /v1/chat/completions", {**CHAT, "stream": True, "n": 1}, (JSON,)),
    ],
)
CODEX = Sequence(
    "Codex",
    ("User-Agent: codex_cli_rs/0.60.0", "Accept: text/event-stream", JSON),
    [
        Call("GET /v1/models"),
        Call("GET /api/tags"),
        Call("POST /api/pull", {"model": UNKNOWN, "stream": True}),
        Call("POST /v1/responses", {**NAMED, "input": "Name three rivers.", "stream": True}),
        Call(
            "POST /v1/responses",
            packed(json.dumps({**NAMED, "input": "And four?", "stream": True}).encode()),
            ("Content-Encoding: zstd",),
        ),
    ],
)
HOME_ASSISTANT = Sequence(
    "Home Assistant",
    ("User-Agent: ollama-python/0.6.3 (x86_64 linux) Python/3.13.5", "Accept: application/json"),
    [
        Call("GET /api/tags"),
        Call(
            "POST /api/chat",
            {**CHAT, "stream": True, "tools": [TOOL], "keep_alive": "-1s", "options": {"num_ctx": 8192}},
            (JSON,),
        ),
        Call(
            "POST /api/chat",
            {**CHAT, "stream": True, "tools": [], "keep_alive": "-1s", "options": {"num_ctx": 8192}},
            (JSON,),
        ),
    ],
)
CLAUDE_CODE = Sequence(
    "Claude Code",
    (
        "User-Agent: claude-cli/2.1.0 (external, cli)",
        "anthropic-version: 2023-06-01",
        "anthropic-beta: interleaved-thinking-2025-05-14",
        "x-api-key: ollama",
        "Authorization: Bearer ollama",
        JSON,
    ),
    [
        Call("GET /v1/models"),
        Call("POST /v1/messages/count_tokens?beta=true", CHAT, status=404),
        Call("POST /v1/messages?beta=true", {**CHAT, "max_tokens": 1}),
        Call("POST /v1/messages?beta=true", {**CHAT, "max_tokens": 32000, "stream": True}),
        Call(
            "POST /v1/messages?beta=true", {"model": UNKNOWN, "max_tokens": 9, "messages": HELLO}, status=404
        ),
        Call("POST /v1/v1/messages", CHAT, status=404),
    ],
)
OPEN_WEBUI = Sequence(
    "Open WebUI",
    ("User-Agent: Python/3.11 aiohttp/3.14.5", "Accept: */*", "Accept-Encoding: gzip, deflate"),
    [
        Call("GET /api/version"),
        Call("GET /api/tags"),
        Call("GET /api/ps"),
        Call(
            "POST /api/chat", {**CHAT, "stream": True, "options": {}}, (JSON, "X-OpenWebUI-User-Name: anna")
        ),
        Call("POST /api/chat", {**CHAT, "stream": False}, (JSON,)),
        Call("GET /v1/models", None, ("Authorization: Bearer sk-none",)),
    ],
)
ON_OLLAMA = [OLLAMA_RUN, OLLAMA_COMMANDS, COPILOT, CODEX, HOME_ASSISTANT, CLAUDE_CODE, OPEN_WEBUI]

STUDIO_CHAT = {"model": STUDIO_MODEL, "messages": HELLO}
ZED = Sequence(
    "Zed",
    ("User-Agent: Zed/0.210.0", "Accept: */*"),
    [
        Call("GET /api/v0/models"),
        Call("POST /v1/chat/completions", {**STUDIO_CHAT, "stream": True, "stop": []}, (JSON,)),
        Call("POST /v1/chat/completions", {**STUDIO_CHAT, "stream": True, "tools": [TOOL]}, (JSON,)),
    ],
)
CODEX_ON_STUDIO = Sequence(
    "Codex with LM Studio",
    ("User-Agent: codex_cli_rs/0.60.0", JSON),
    [
        Call("GET /v1/models"),
        Call("POST /v1/responses", {"model": STUDIO_MODEL, "input": "", "max_output_tokens": 1}),
        Call("POST /v1/responses", {"model": STUDIO_MODEL, "input": "Name three rivers.", "stream": True}),
    ],
)
ASKED_FOR_OLLAMA = Sequence(
    "a program that takes LM Studio for something else",
    ("Accept: */*",),
    [
        Call("GET /api/version"),
        Call("OPTIONS /v1/completions", None, ("Access-Control-Request-Method: POST",)),
        Call("POST /chat/completions", STUDIO_CHAT, (JSON,)),
        Call("GET /lmstudio-greeting"),
    ],
)
ON_STUDIO = [ZED, CODEX_ON_STUDIO, ASKED_FOR_OLLAMA]


def steady(reply: RawReply) -> tuple[Any, ...]:
    """All of a reply that must be the same each time."""
    headers = sorted(without_hop_by_hop(reply.headers))
    return reply.status_line, headers, reply.chunks, reply.is_whole


async def play(port: int, sequence: Sequence) -> list[tuple[Any, ...]]:
    """Make the calls one after another on one connection."""
    async with await RawClient.open(port) as client:
        replies = []
        for call in sequence.calls:
            is_head = call.line.startswith("HEAD")
            replies.append(await client.ask(call.raw(sequence.headers), is_head=is_head))
    assert [reply.status for reply in replies] == [call.status for call in sequence.calls], sequence.name
    return [steady(reply) for reply in replies]


def compare(scene: Scene, engine_port: int, sequence: Sequence) -> None:
    """Play twice: whoever answers, it is what the engine of this port says."""
    directly = run_async(play(engine_port, sequence))
    assert run_async(play(scene.nodes[0].port, sequence)) == directly


@pytest.mark.parametrize("sequence", ON_OLLAMA, ids=lambda sequence: sequence.name)
def test_programs_for_ollama(sequence: Sequence, fake: Scene) -> None:
    """Status, headers, chunks and bodies are those of the engine, call by call."""
    compare(fake, fake.engines[0].port, sequence)


@pytest.mark.parametrize("sequence", ON_STUDIO, ids=lambda sequence: sequence.name)
def test_programs_for_lm_studio(sequence: Sequence, studios: Scene) -> None:
    """LM Studio's answers too, also its 200 to what it does not know."""
    compare(studios, studios.studios[0].port, sequence)


def test_both_nodes_answered(fake: Scene) -> None:
    """What was asked above was not all served by the engine of the port."""
    asyncio.run(play(fake.nodes[0].port, COPILOT))
    used = {record.node for record in fake.nodes[0].report().records}
    assert used == {node.id for node in fake.nodes}
    paths = {one.path for one in fake.engines[1].requests}
    assert paths & {"/api/chat", "/v1/chat/completions"}
    assert not paths & {"/api/pull", "/api/create", "/api/copy", "/api/delete", "/api/me"}
    assert not any(path.startswith("/api/blobs/") for path in paths)
