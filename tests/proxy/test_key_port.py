"""The port for clients with keys, over real connections."""

from pathlib import Path
from typing import Any

import pytest

from pairproxy.core.documents import CatalogueEntry
from pairproxy.core.models import ModelName, Replica
from tests.proxy.test_canary import Everything, everything
from tests.support import engine_scripts as scripts
from tests.support.keyed import AUTHORITY, Keyed, keyed
from tests.support.raw_client import RawReply, request
from tests.support.running import run_async

__all__ = ["everything"]

CHAT = "POST /api/chat HTTP/1.1"
DONE = scripts.ollama_chat([{"message": {"content": "hi"}}, {"done": True}])
MANAGEMENT = [
    "POST /api/pull", "POST /api/push", "POST /api/create", "POST /api/copy", "DELETE /api/delete",
    "HEAD /api/blobs/sha256:1", "POST /api/blobs/sha256:1", "POST /api/me", "POST /api/v1/models/load",
    "POST /models/unload", "GET /slots", "POST /props", "PUT /v1/files", "OPTIONS /api/chat",
    "GET //api/tags", "GET /api/../api/tags", "GET /v1/models/..", "GET /metrics", "GET /status",
]  # fmt: skip


def bearer(key: str) -> str:
    return f"Authorization: Bearer {key}"


async def ask(
    one: Keyed, line: str, key: str | None = None, body: bytes | None = None, *more: str
) -> RawReply:
    """One request on a connection of its own."""
    fields = (*(() if key is None else (bearer(key),)), *more)
    async with await one.client() as client:
        return await client.ask(
            request(line, body, *fields, host="anything.example"), is_head=line.startswith("HEAD")
        )


def test_a_key_opens_inference_and_goes_no_further(tmp_path: Path, everything: Everything) -> None:
    """The engine gets the request with its own Host and no key; the request is told by the key's name."""

    async def main() -> None:
        async with keyed(DONE, tmp_path) as one:
            key, _ = one.keys.add("ci")
            for field in (bearer(key), f"x-api-key: {key}", f"API-Key: {key}"):
                async with await one.client() as client:
                    reply = await client.ask(
                        request(CHAT, b'{"model":"m:1","messages":[]}', field, "Cookie: a=b")
                    )
                assert (reply.status, reply.is_whole) == (200, True)
            for got in one.engine.requests:
                assert key.encode() not in got.raw
                assert b"cookie" not in got.raw.lower()
                assert got.header("Host") == AUTHORITY.encode()
            records = await one.node.recorded(3)
            assert {record.client for record in records} == {"key:ci"}
            assert [line for line in everything.lines if key in line] == []

    run_async(main())


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/api/chat", lambda told: told["error"]),
        ("/v1/chat/completions", lambda told: told["error"]["message"]),
        ("/v1/messages", lambda told: told["error"]["message"]),
        ("/api/v1/chat", lambda told: told["error"]["message"]),
        ("/v1/models", lambda told: told["error"]["message"]),
    ],
)
def test_without_a_key_nothing_is_answered(
    path: str, where: Any, tmp_path: Path, everything: Everything
) -> None:
    """401 in the words of the path, closed, the body not read, and nothing of a wrong key anywhere."""

    async def main() -> None:
        async with keyed(DONE, tmp_path) as one:
            one.keys.add("ci")
            method = "GET" if path == "/v1/models" else "POST"
            for key in (None, "ppk_canary", "sk-canary"):
                reply = await ask(one, f"{method} {path} HTTP/1.1", key, b"{}" if method == "POST" else None)
                assert (reply.status, reply.header("WWW-Authenticate")) == (401, b"Bearer")
                assert reply.header("Connection") == b"close"
                assert "key" in where(reply.json())
                assert b"canary" not in reply.body
            assert (one.engine.requests, one.node.records) == ([], ())
            assert [line for line in everything.lines if "canary" in line] == []

    run_async(main())


@pytest.mark.parametrize("line", MANAGEMENT)
def test_a_key_changes_nothing_here(line: str, tmp_path: Path) -> None:
    """What manages models, and what belongs to this machine alone, is refused with a sentence."""

    async def main() -> None:
        async with keyed(DONE, tmp_path) as one:
            key, _ = one.keys.add("ci")
            reply = await ask(one, f"{line} HTTP/1.1", key)
            assert reply.status == 403
            assert line.startswith("HEAD") or b"A key is for inference" in reply.body
            assert one.engine.requests == []

    run_async(main())


@pytest.mark.parametrize(
    "line",
    ["GET /api/tags", "HEAD /api/tags", "GET /v1/models", "HEAD /", "GET /", "GET /api/version",
     "GET /api/ps", "POST /api/show", "GET /v1/models/m:1"],
)  # fmt: skip
def test_a_key_may_ask_what_there_is(line: str, tmp_path: Path) -> None:
    """As programs do when they start."""

    async def main() -> None:
        async with keyed(scripts.json_reply({"models": [], "data": []}), tmp_path) as one:
            key, _ = one.keys.add("ci")
            body = b'{"model":"m:1"}' if line.startswith("POST") else None
            reply = await ask(one, f"{line} HTTP/1.1", key, body)
            assert reply.status == 200
            assert [got.method for got in one.engine.requests] == [line.partition(" ")[0]]

    run_async(main())


@pytest.mark.parametrize("line", ["GET /v1/models/m:1", "HEAD /health", "GET /api/tags"])
def test_a_question_brings_no_body(line: str, tmp_path: Path) -> None:
    """An engine that does not read it (cpp-httplib) may take it for a request that nobody judged."""

    async def main() -> None:
        async with keyed(DONE, tmp_path) as one:
            key, _ = one.keys.add("ci")
            hidden = request("DELETE /api/delete HTTP/1.1", b"{}")
            assert (await ask(one, f"{line} HTTP/1.1", key, hidden)).status == 400
            assert one.engine.requests == []

    run_async(main())


@pytest.mark.parametrize("field", ["Origin: https://localhost", "Origin: null", "Sec-Fetch-Site: cross-site"])
def test_web_pages_get_nothing_whatever_they_show(field: str, tmp_path: Path) -> None:
    """And no word that lets them read the answer."""

    async def main() -> None:
        async with keyed(DONE, tmp_path) as one:
            key, _ = one.keys.add("ci")
            reply = await ask(one, CHAT, key, b'{"model":"m:1"}', field)
            assert (reply.status, one.engine.requests) == (403, [])
            assert not [name for name, _ in reply.headers if name.lower().startswith(b"access-control")]

    run_async(main())


def test_a_web_socket_is_no_inference(tmp_path: Path) -> None:
    """LM Studio's is for managing it."""

    async def main() -> None:
        async with keyed(DONE, tmp_path) as one:
            key, _ = one.keys.add("ci")
            fields = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
            reply = await ask(one, "GET /llm HTTP/1.1", key, None, *fields)
            assert (reply.status, one.engine.requests) == (403, [])

    run_async(main())


def test_a_key_for_some_models_sees_and_uses_those_only(tmp_path: Path) -> None:
    """Others do not exist for it: not in a list, not by name, not for inference, not in two spellings."""
    models = ("qwen:1", "secret:1")
    texts = {name: f'{{"name":"{name}","model":"{name}"}}' for name in models}
    entries = tuple(CatalogueEntry(ModelName(name), tags=text) for name, text in texts.items())
    replicas = tuple(Replica(ModelName(name), f"sha256:{name}") for name in models)

    async def main() -> None:
        async with keyed(DONE, tmp_path, catalogue=entries, models=replicas) as one:
            key, _ = one.keys.add("ci", ("qwen*",))
            listed = await ask(one, "GET /api/tags HTTP/1.1", key)
            assert [entry["name"] for entry in listed.json()["models"]] == ["qwen:1"]
            assert (await ask(one, "GET /v1/models/secret:1 HTTP/1.1", key)).status == 404
            assert (await ask(one, "GET /v1/models/secret%3a1 HTTP/1.1", key)).status == 404
            for body in (
                b'{"model":"secret:1"}', b'{"model":"qwen:1","MODEL":"secret:1"}',
                b'{"name":"secret:1"}', b"{",
            ):  # fmt: skip
                assert (await ask(one, "POST /api/show HTTP/1.1", key, body)).status == 404
                assert (await ask(one, CHAT, key, body)).status == 404
            assert (await ask(one, "POST /v1/messages/count_tokens HTTP/1.1", key, b"{}")).status == 403
            assert one.engine.requests == []
            shown = b'{"model":"qwen:1"}'
            assert (await ask(one, "POST /api/show HTTP/1.1", key, shown)).status == 200
            assert (await ask(one, CHAT, key, b'{"model":"qwen:1","messages":[]}')).status == 200
            assert [got.path for got in one.engine.requests] == ["/api/show", "/api/chat"]
            assert one.engine.requests[0].body == shown

    run_async(main())


def test_a_key_does_not_unload_models_of_others(tmp_path: Path) -> None:
    """Ollama unloads on an empty request that keeps it for no time."""

    async def main() -> None:
        async with keyed(DONE, tmp_path) as one:
            key, _ = one.keys.add("ci")
            reply = await ask(one, "POST /api/generate HTTP/1.1", key, b'{"model":"m:1","keep_alive":0}')
            assert (reply.status, one.engine.requests) == (403, [])

    run_async(main())


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("path", ["/api/generate", "/api/chat", "/api/embed"])
@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b'{"model":"m:1","keep_alive":0,"Keep_Alive":0}', ()),
        (b'{"model":"m:1","keep_alive":5,"keep_alive":0}', ()),
        (b'{"model":"m:1","\\u006beep_alive":0}', ()),
        (b'{"model":"m:1","keep_alive":0}{}', ()),
        (b"\x28\xb5\x2f\xfd", ("Content-Encoding: unknown",)),
    ],
)
def test_nor_by_what_only_the_engine_can_read(
    version: str, path: str, body: bytes, fields: tuple[str, ...], tmp_path: Path
) -> None:
    """What could be read in two ways is not handed on to see which one the engine takes."""

    async def main() -> None:
        async with keyed(DONE, tmp_path) as one:
            key, _ = one.keys.add("ci")
            reply = await ask(one, f"POST {path} HTTP/{version}", key, body, *fields)
            assert (reply.status, one.engine.requests) == (400, [])

    run_async(main())
