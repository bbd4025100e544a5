"""Two engines that tell one story, and nodes before them: who is asked first breaks off in its middle."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from pairproxy.core.rules import Rules
from tests.core.dialects.test_splicing import ollama_chat, ollama_generate, openai_chat, openai_text
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest
from tests.support.node import Node
from tests.support.raw_client import RawClient, RawReply, request

WORDS = ["Once", " upon", " a", " time", " there", " was", " an", " end"]
BEFORE = 3  # words that the first node says
PROMPT = 20
CHAT = {"messages": [{"role": "user", "content": "Tell me"}]}
ASKED: dict[str, dict[str, Any]] = {
    "/api/chat": CHAT,
    "/api/generate": {"prompt": "Tell me"},
    "/v1/completions": {"prompt": "Tell me", "stream": True},
    "/v1/chat/completions": {**CHAT, "stream": True},
}
REPLIES = {
    "/api/chat": ollama_chat,
    "/api/generate": ollama_generate,
    "/v1/completions": openai_text,
    "/v1/chat/completions": openai_chat,
}


def said_before(asked: ParsedRequest) -> str:
    """What a request gives an engine as the beginning of its reply."""
    body = asked.json()
    last = body["messages"][-1] if "messages" in body else {"role": "", "content": ""}
    if last["role"] == "assistant":
        return str(last["content"])
    return str(body.get("prompt", "Tell me")).removeprefix("Tell me")


class Cluster:
    """Engines that write one story: the first ``breaks`` to be asked say BEFORE words and break off."""

    def __init__(self, then: str = "reset", breaks: int = 1) -> None:
        self.then = then
        self.breaks = breaks
        self.begun = asyncio.Event()
        self.asked: list[ParsedRequest] = []

    async def script(self, asked: ParsedRequest, connection: EngineConnection) -> None:
        """Tell the story, or what is left of it."""
        self.asked.append(asked)
        before = said_before(asked)
        count = next(number for number in range(len(WORDS)) if "".join(WORDS[:number]) == before)
        kind = "application/x-ndjson" if asked.path.startswith("/api") else "text/event-stream"
        whole = REPLIES[asked.path]("two" if before else "one", WORDS[count:], PROMPT + count)
        if count >= BEFORE * self.breaks or not self.then:
            await scripts.in_chunks([whole[:100], whole[100:]], content_type=kind)(asked, connection)
            return
        cut = whole.index(json.dumps(WORDS[count + BEFORE]).encode())  # within a record
        await scripts.raw(scripts.chunked_head(kind) + scripts.chunk(whole[:cut]))(asked, connection)
        await self._break(connection)

    async def _break(self, connection: EngineConnection) -> None:
        self.begun.set()
        if self.then == "hang":
            await connection.peer_left()
        elif self.then == "end":
            await connection.send(scripts.LAST_CHUNK)
        elif self.then == "close":
            connection.close()
        else:
            connection.reset()


@contextlib.asynccontextmanager
async def nodes(cluster: Cluster, *, is_on: bool = True, continues: bool = True) -> AsyncIterator[Any]:
    """Anna, who may use ben, as (anna, ben, her engine, his)."""
    rules = Rules(continuation=is_on)
    async with (
        FakeEngine(cluster.script) as hers,
        FakeEngine(cluster.script) as his,
        Node(his, name="ben", engine_kind="embedded", continues=continues) as ben,
        Node(hers, rules=rules, engine_kind="embedded", continues=continues) as anna,
    ):
        await anna.pair(ben)
        yield anna, ben, hers, his


def question(path: str, **fields: Any) -> bytes:
    """A request for the story."""
    return request(f"POST {path} HTTP/1.1", json.dumps({"model": "m:1", **ASKED[path], **fields}).encode())


async def ask(node: Node, path: str, **fields: Any) -> RawReply:
    """Ask on a connection of its own."""
    async with await RawClient.open(node.port) as client:
        return await client.ask(question(path, **fields))


def endings(body: bytes) -> int:
    """How many last records a stream has."""
    return body.count(b'"done": true') + body.count(b'"done":true') + body.count(b"[DONE]")
