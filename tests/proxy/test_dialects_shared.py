"""Every dialect through two nodes: the peer's engine gets the client's bytes, the ledger what it replied."""

import json
import sys
import zlib
from dataclasses import replace
from typing import Any

import pytest

from pairproxy.core.dialects import routes
from pairproxy.core.models import ModelName, Outcome, Replica, Usage
from tests.core.dialects.test_meter import DONE, EVENT, EVENT_END, EVENT_USAGE, OLLAMA_END, OLLAMA_PART
from tests.core.dialects.test_meter_streams import (
    ANTHROPIC,
    ANTHROPIC_END,
    LLAMA,
    LLAMA_END,
    RESPONSES,
    STUDIO,
    STUDIO_END,
    answered,
    named,
)
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import FakeEngine
from tests.support.node import Node
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MODELS = (Replica(ModelName("m:1"), "sha256:x"),)
ASKED = json.dumps({"model": "m:1", "stream": True, "store": False, "messages": [{}], "prompt": "x"}).encode()
PACKER = zlib.compressobj(wbits=31)
GZIP = PACKER.compress(ASKED) + PACKER.flush()
FORM = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm:1\r\n--b--\r\n'
SSE, NDJSON = "text/event-stream", "application/x-ndjson"
FULL = Usage(26, 16, 40)

STREAMS: dict[str, tuple[str, str, list[bytes], bytes, Usage]] = {
    # path: kind of engine, type, parts, terminal record, what the whole tells
    "/api/chat": ("ollama", NDJSON, [OLLAMA_PART] * 3, OLLAMA_END, Usage(26, None, 40, 0.25, 0.8, 1.5)),
    "/v1/chat/completions": ("openai", SSE, [EVENT, EVENT_END, EVENT_USAGE], DONE, Usage(26, 10, 40)),
    "/v1/responses": ("ollama", SSE, [RESPONSES], answered("response.completed"), FULL),
    "/v1/messages?beta=true": ("llamacpp", SSE, [ANTHROPIC], ANTHROPIC_END, FULL),
    "/api/v1/chat": ("lmstudio", SSE, [STUDIO], STUDIO_END, Usage(26, None, 40, 0.25, 0.8, 1.5)),
    "/completion": ("llamacpp", SSE, [LLAMA] * 3, LLAMA_END, Usage(26, 16, 40, 0.25, 0.8)),
}
BODIES: dict[str, tuple[str, str, bytes, tuple[str, ...]]] = {
    "zstd to an Ollama": ("ollama", "/v1/responses", zstd.compress(ASKED), ("Content-Encoding: zstd",)),
    "gzip to an LM Studio": ("lmstudio", "/v1/chat/completions", GZIP, ("Content-Encoding: gzip",)),
    "a form": (
        "openai", "/v1/audio/transcriptions", FORM, ("Content-Type: multipart/form-data; boundary=b",)
    ),
}  # fmt: skip


async def asked(kind: str, path: str, body: bytes, script: Any, *fields: str) -> tuple[Any, Any, Any, Any]:
    """Ask a node whose peer alone has the model: the reply, both engines' requests, the node's record."""
    async with (
        FakeEngine(script) as here,
        FakeEngine(script) as there,
        Node(here, models=(), engine_kind=kind, kind=kind) as node,
        Node(there, name="ben", models=MODELS, engine_kind=kind) as peer,
    ):
        await node.pair(peer)
        async with await RawClient.open(node.port) as client:
            reply = await client.ask(request(f"POST {path} HTTP/1.1", body, *fields))
        (record,) = await node.recorded()
        await peer.recorded(len(there.requests))
        return reply, here.requests, there.requests, record


@pytest.mark.parametrize("path", STREAMS)
def test_a_streams_end_and_counts_are_heard(path: str) -> None:
    """The client gets the engine's chunks, the ledger the usage: done with the terminal record only."""
    kind, content_type, parts, end, usage = STREAMS[path]

    async def main() -> None:
        for sent, outcome in (([*parts, end], Outcome.DONE), (parts, Outcome.TRUNCATED)):
            script = scripts.in_chunks(sent, content_type=content_type)
            reply, here, there, record = await asked(kind, path, ASKED, script)
            assert (reply.status, reply.chunks[: len(sent)]) == (200, sent)
            assert reply.is_whole == (outcome is Outcome.DONE)
            assert ([one.target for one in there], here) == ([path], [])
            assert record.dialect is routes.INFERENCE[record.path].dialect
            assert record.outcome is outcome
            if outcome is Outcome.DONE:
                assert replace(record.usage, prefill_s=None, decode_s=None) == replace(
                    usage, prefill_s=None, decode_s=None
                )

    run_async(main())


def test_an_error_event_is_the_engines_own() -> None:
    """It is relayed, and the request did not succeed."""

    async def main() -> None:
        parts = [ANTHROPIC, named("error", error={"type": "overloaded_error", "message": "x"})]
        script = scripts.in_chunks(parts, content_type=SSE)
        reply, _, _, record = await asked("llamacpp", "/v1/messages", ASKED, script)
        assert (reply.chunks, record.outcome) == (parts, Outcome.ERROR)

    run_async(main())


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_not_plain_json_goes_on_as_it_came(name: str) -> None:
    """With its coding and its type, to a peer of the same kind."""
    kind, path, body, fields = BODIES[name]

    async def main() -> None:
        script = scripts.json_reply({"text": "hello"})
        reply, here, there, record = await asked(kind, path, body, script, *fields)
        assert (reply.status, reply.body, here) == (200, b'{"text":"hello"}', [])
        assert [one.body for one in there] == [body]
        header, _, value = fields[0].partition(": ")
        assert there[0].header(header) == value.encode()
        assert record.outcome is Outcome.DONE

    run_async(main())


@pytest.mark.parametrize(
    ("kind", "coding", "body"),
    [("llamacpp", "zstd", zstd.compress(ASKED)), ("ollama", "gzip", GZIP), ("ollama", "br", ASKED)],
)
def test_a_coding_that_its_kind_does_not_read_stays_with_the_called_engine(
    kind: str, coding: str, body: bytes
) -> None:
    """Which says so itself."""

    async def main() -> None:
        script = scripts.json_reply({"error": "what is this?"}, 400)
        fields = f"Content-Encoding: {coding}"
        reply, here, there, _ = await asked(kind, "/v1/chat/completions", body, script, fields)
        assert (reply.status, there) == (400, [])
        assert [(one.body, one.header("Content-Encoding")) for one in here] == [(body, coding.encode())]

    run_async(main())
