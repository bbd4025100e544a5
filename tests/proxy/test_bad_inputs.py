"""Requests as web pages, scanners and broken clients send them: rows A and E, and the rules behind them."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from pairproxy.config import Limits
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest
from tests.support.node import Node, identity
from tests.support.ollama_origins import Guarded
from tests.support.raw_client import BODY, RawClient, request
from tests.support.running import run_async

ROWS = json.loads((Path(__file__).parent.parent / "data" / "bad_inputs_ae.json").read_text())["cases"]
LIMITS = Limits(header_bytes=8190)  # of the run that the rows come from
CORS = ("Access-Control-Allow-Origin", "http://localhost:3000")


async def engine(incoming: ParsedRequest, connection: EngineConnection) -> None:
    """Answer as Ollama does."""
    if incoming.method == "OPTIONS":
        await connection.send(scripts.head(204, CORS, ("Vary", "Origin")))
    elif incoming.method == "DELETE":
        await connection.send(scripts.head(405, ("Content-Length", "0")))
    else:
        chat = scripts.json_reply({"done": True})
        await scripts.ollama({"m:1": "sha256:x"}, chat=chat)(incoming, connection)


def sent_by(row: dict[str, Any]) -> bytes:
    """The bytes of a row."""
    return b"".join(
        step["t"].encode("latin-1") if "t" in step else zlib.decompress(base64.b64decode(step["z"]))
        for step in row["steps"]
    )


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['id']} {row['name']}" for row in ROWS])
def test_each_row_has_its_outcome(row: dict[str, Any]) -> None:
    """Refused here or by the engine of this port, or relayed to that engine and to nobody else."""

    async def main() -> None:
        ollama = Guarded(engine)
        async with FakeEngine(ollama) as here, Node(here, limits=LIMITS) as node:
            node.reach(identity("ben"), 1)
            node.hear_of(identity("ben"))
            async with await RawClient.open(node.port) as client:
                reply = await client.ask(sent_by(row))
                assert reply.status in row["status"]
                is_served = row["transparent"] == "relay" or reply.status in (200, 204)
                assert len(here.requests) - len(ollama.refused) == is_served
                if is_served:
                    target = sent_by(row).split(b" ")[1].decode("latin-1")
                    assert here.requests[0].target == target
                    assert (await client.ask(request("GET /api/tags HTTP/1.1", None))).status == 200
                    assert row["transparent"] == "same" or node.records == ()
                    return
                if not ollama.refused:
                    assert await client.end() == b""
                if reply.status == 403:
                    assert reply.body == b""
                elif row["body"] == "json":
                    assert reply.json()["error"]
                assert not [name for name, _ in reply.headers if name.lower().startswith(b"access-control")]

    run_async(main())


CHAT, V1, TAGS = "POST /api/chat HTTP/1.1", "POST /v1/chat/completions HTTP/1.1", "GET /api/tags HTTP/1.1"
CHUNKED = scripts.chunk(BODY) + scripts.LAST_CHUNK
MORE: dict[str, tuple[bytes, int]] = {
    "two Hosts": (request(TAGS, None, "Host: localhost"), 400),
    "another Host": (request(TAGS, None, host="evil.example"), 403),
    "another address": (request(TAGS, None, host="192.168.1.7:11434"), 403),
    "a page's request without Origin": (request(TAGS, None, "Sec-Fetch-Site: cross-site"), 403),
    "a form as text": (request(CHAT, BODY, "Content-Type: text/plain", "Origin: https://evil.example"), 403),
    "the suffix of a name": (request(CHAT, BODY, "Origin: http://localhost.evil.example"), 403),
    "a path that is none": (request("GET api/tags HTTP/1.1", None), 400),
    "a method that is none": (request("BREW /api/chat HTTP/1.1", None), 400),
    "a body in another coding": (request(CHAT, CHUNKED, "Transfer-Encoding: gzip, chunked"), 501),
    "an empty coding": (request(CHAT, CHUNKED, "Transfer-Encoding: , chunked"), 501),
    "a coding in HTTP/1.0": (request("POST /api/chat HTTP/1.0", CHUNKED, "Transfer-Encoding: chunked"), 400),
    "a length and a coding": (
        request(CHAT, CHUNKED, "Transfer-Encoding: chunked", f"Content-Length: {len(CHUNKED)}"), 400
    ),
    "two lengths": (request(CHAT, BODY, "Content-Length: 29", "Content-Length: 30"), 400),
    "a broken chunk": (request(CHAT, b"zz\r\n", "Transfer-Encoding: chunked"), 400),
    "an upload with a broken chunk": (
        request("POST /api/blobs/x HTTP/1.1", b"zz\r\n", "Transfer-Encoding: chunked"), 400
    ),
    "another expectation": (request(CHAT, BODY, "Expect: 200-ok"), 417),
    "an upload with another expectation": (request("POST /x HTTP/1.1", BODY, "Expect: 200-ok"), 417),
    "too large a body": (request(CHAT, None, f"Content-Length: {2**63}"), 413),
    "a header too long": (request(TAGS, None, "X-Long: " + "x" * 9000), 400),
    "too many headers": (request(TAGS, None, *(f"X-{number}: 1" for number in range(200))), 400),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "expected"), MORE.values(), ids=MORE.keys())
def test_what_the_rows_stand_for(sent: bytes, expected: int) -> None:
    """The rule behind the rows: the engine does nothing of it; what we refused closes the connection."""

    async def main() -> None:
        ollama = Guarded(engine)
        async with FakeEngine(ollama) as here, Node(here, limits=LIMITS) as node:
            async with await RawClient.open(node.port) as client:
                reply = await client.ask(sent)
                assert reply.status == expected
                assert b"localhost" not in reply.body  # nothing of the request is quoted
                # who sends too much gets 2 s to see the answer while it still sends
                if expected != 413 and not ollama.refused:
                    assert await client.end() == b""
            assert [one.raw for one in here.requests if one.body and one not in ollama.refused] == []

    run_async(main())


GOOD: dict[str, bytes] = {
    "this machine's name": request(CHAT, host="TestHost:11434"),
    "its name on the local network": request(CHAT, host="testhost.local"),
    "a name with its dot": request(CHAT, host="localhost."),
    "another loopback address": request(CHAT, host="127.1.2.3:11434"),
    "a desktop app": request(CHAT, BODY, "Origin: app://obsidian.md"),
    "a page of this machine": request(
        CHAT, BODY, "Origin: http://127.0.0.1:5173", "Sec-Fetch-Site: cross-site"
    ),
    "typed by a person": request(CHAT, BODY, "Sec-Fetch-Site: none"),
    "the coding in capitals": request(CHAT, CHUNKED, "Transfer-Encoding: CHUNKED"),
}  # fmt: skip


@pytest.mark.parametrize("sent", GOOD.values(), ids=GOOD.keys())
def test_what_is_odd_but_right_is_served(sent: bytes) -> None:
    """No client of this machine is refused."""

    async def main() -> None:
        async with (
            FakeEngine(engine) as here,
            Node(here, limits=LIMITS) as node,
            await RawClient.open(node.port) as client,
        ):
            assert (await client.ask(sent)).status == 200

    run_async(main())
