"""Two nodes whose engines list different models, and what the port of the first answers."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from pairproxy.core.documents import CatalogueEntry
from pairproxy.core.models import ModelName, Replica
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import FakeEngine, Script
from tests.support.node import Node
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

# Spaces, number formats and escapes, so that reading and writing anew would show.
MINE = '{"name":"Mine:1" , "modified_at":"2025-06-01T12:00:00.123456789+02:00","size":1.50,"x":"\\u00e9"}'
OLD = '{"name":"old:1","modified_at":"2024-01-01T00:00:00Z","size": 7}'
NEW = '{"name":"new:1","modified_at":"2026-01-01T00:00:00Z"}'
COPY = '{"name":"mine:1","modified_at":"2026-06-01T00:00:00Z","size":9}'
JSON = ("Content-Type", "application/json; charset=utf-8")

BENS = (
    CatalogueEntry(ModelName("old:1"), tags=OLD, openai='{"id":"old:1","created":1}'),
    CatalogueEntry(ModelName("new:1"), tags=NEW, openai='{"id":"new:1","created":2}', ps='{"name":"new:1"}'),
    CatalogueEntry(ModelName("mine:1"), tags=COPY),
)


def reply(body: str | bytes, *headers: tuple[str, str], status: int = 200, is_chunked: bool = True) -> Script:
    """A reply with exactly this body, in chunks of odd sizes unless it shall be framed by its length."""
    content = body.encode() if isinstance(body, str) else body
    if not is_chunked:
        length = ("Content-Length", str(len(content)))
        return scripts.raw(scripts.head(status, JSON, *headers, length) + content)
    pieces = [scripts.chunk(content[:3]), scripts.chunk(content[3:]), scripts.LAST_CHUNK]
    framed = scripts.head(status, JSON, *headers, ("Transfer-Encoding", "chunked"))
    return scripts.raw(framed + b"".join(pieces))


def tags(*texts: str) -> str:
    """A reply to GET /api/tags with these entries."""
    return '{"models":[' + ",".join(texts) + "]}"


def replicas(entries: tuple[CatalogueEntry, ...]) -> tuple[Replica, ...]:
    """What a state document says of an engine that lists these."""
    return tuple(Replica(entry.model, "sha256:x") for entry in entries)


@contextlib.asynccontextmanager
async def nodes(
    hers: Script,
    bens: tuple[CatalogueEntry, ...] = BENS,
    *,
    kind: str = "paced",
    his: Script | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Node, FakeEngine, FakeEngine]]:
    """Anna with this engine, who may use ben, whose engine lists these: (anna, her engine, his engine)."""
    async with (
        FakeEngine(hers) as her_engine,
        FakeEngine(his or scripts.json_reply({})) as his_engine,
        Node(his_engine, name="ben", models=replicas(bens), catalogue=bens, engine_kind=kind) as ben,
        Node(her_engine, models=(), **options) as anna,
    ):
        await anna.pair(ben)
        yield anna, her_engine, his_engine


async def get(port: int, path: str, *headers: str, method: str = "GET") -> RawReply:
    """Ask a port for a path."""
    async with await RawClient.open(port) as client:
        asked = request(f"{method} {path} HTTP/1.1", None, *headers)
        return await client.ask(asked, is_head=method == "HEAD")


def scene(hers: Script, path: str, *headers: str, method: str = "GET", **options: Any) -> RawReply:
    """The reply of anna's port."""

    async def main() -> RawReply:
        async with nodes(hers, **options) as (anna, _, his):
            answer = await get(anna.port, path, *headers, method=method)
            assert his.requests == [], "a listing was asked of a peer"
            return answer

    return run_async(main())
