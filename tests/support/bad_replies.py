"""What a reply must not be: the rows J01-J30 of the design, as scripts; and a node one of whose places fails.

A row that no client may ever notice stands in ELSEWHERE (another place answers) with the name of the error
that the record has of it.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

from pairproxy.core.models import Rates
from pairproxy.security import tls
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script
from tests.support.node import REPLICA, Node, identity
from tests.support.raw_client import RawClient, RawReply, request

CHAT, V1 = "/api/chat", "/v1/chat/completions"
PATHS = (CHAT, V1)
SIDES = ("engine", "peer")
CANARY = "CANARY-77fe"
BEN = identity("ben")
FASTER, SLOWER = Rates(prefill=1e9, decode=1e9, beta=0.0), Rates(prefill=1e3, decode=1e1, beta=0.0)

WORDS = {CHAT: b'{"message":{"content":"word"},"done":false}\n', V1: b'data: {"choices":[]}\n\n'}
LASTS = {CHAT: b'{"done":true}\n', V1: b"data: [DONE]\n\n"}
KINDS = {CHAT: "application/x-ndjson", V1: "text/event-stream"}
WHOLE = {path: b'{"from":"there"}\n' + LASTS[path] if path == CHAT else LASTS[path] for path in PATHS}
GOOD = scripts.routes({path: scripts.in_chunks([WHOLE[path]], content_type=KINDS[path]) for path in PATHS})
"""A whole streamed reply in the dialect of the path."""

JSON = ("Content-Type", "application/json")
CHUNKED = ("Transfer-Encoding", "chunked")
_IN_CHUNKS, _NDJSON = scripts.chunked_head(), ("Content-Type", "application/x-ndjson")


def line(text: str, rest: bytes = b"Content-Length: 0\r\n\r\n") -> bytes:
    """A reply that begins with this status line."""
    return f"HTTP/1.1 {text}\r\n".encode() + rest


def length(size: str, *headers: tuple[str, str], body: bytes = b"", status: int = 200) -> bytes:
    """A reply with this Content-Length, whatever its body is."""
    return scripts.head(status, JSON, *headers, ("Content-Length", size)) + body


def _raw(*pieces: bytes, then: str = "close") -> Script:
    return scripts.raw(*pieces, then=then)


ELSEWHERE: dict[str, tuple[Script, str]] = {
    "F4 J01 close": (_raw(), "BrokenReply"),
    "F4 J01 reset": (_raw(then="reset"), "BrokenReply"),
    "F15 J02 bytes": (_raw(b"\x00\x01" + CANARY.encode(), then="hang"), "BrokenReply"),
    "F15 J02 text": (_raw(b"hello world " + CANARY.encode()), "BrokenReply"),
    "F4 J03": (_raw(b"HTTP/1.1 200 OK\r\n"), "BrokenReply"),
    "F5 J04 length": (_raw(length("10")), "BrokenReply"),
    "F5 J04 chunked": (_raw(_IN_CHUNKS), "BrokenReply"),
    "F5 J04 reset": (_raw(_IN_CHUNKS, then="reset"), "BrokenReply"),
    "F15 J06 size": (_raw(_IN_CHUNKS, b"zz\r\n"), "BrokenReply"),
    "F15 J06 17 digits": (_raw(_IN_CHUNKS + b"00000000000000001\r\nx\r\n"), "BrokenReply"),
    "F15 J09 both": (_raw(scripts.head(200, JSON, CHUNKED, ("Content-Length", "5"))), "BrokenReply"),
    "F15 J09 two": (_raw(length("5", ("Content-Length", "6"), body=b"12345")), "BrokenReply"),
    "F15 J09 negative": (_raw(length("-1")), "BrokenReply"),
    "F15 J10 999": (_raw(line("999 X")), "BrokenReply"),
    "F15 J10 099": (_raw(line("099 X")), "BrokenReply"),
    "F15 J11": (_raw(line("20 OK")), "BrokenReply"),
    "F15 J12": (_raw(b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"), "BrokenReply"),
    "F15 J14": (_raw(line("101 X", b"Upgrade: x\r\n\r\n"), then="hang"), "BrokenReply"),
    "J15 204": (_raw(scripts.head(204) + b"body"), "BrokenReply"),
    "J15 304": (_raw(length("4", body=b"body", status=304)), "BrokenReply"),
    "F15 J17 NUL": (_raw(length("0", ("X", f"a\0{CANARY}"))), "BrokenReply"),
    "F15 J17 CR": (_raw(line("200 OK", b"X: a\rb\r\n\r\n")), "BrokenReply"),
    "F15 J17 reason": (_raw(line("200 O\rK")), "BrokenReply"),
    "J19 20 KiB": (_raw(length("0", ("X", "y" * 70_000))), "BrokenReply"),
    "J19 many": (_raw(line("200 OK", b"X: y\r\n" * 1000 + b"\r\n")), "BrokenReply"),
    "J19 endless": (_raw(line("200 OK", b"X: " + b"y" * 70_000), then="hang"), "BrokenReply"),
    "F11 503": (scripts.json_reply({"error": "busy"}, 503), "UpstreamBusy"),
    "F11 429": (scripts.json_reply({"error": "busy"}, 429), "UpstreamBusy"),
    "F12": (scripts.json_reply({"error": "model not found"}, 404), "BrokenReply"),
    "a gateway": (scripts.json_reply({"error": "no runner"}, 502), "BrokenReply"),
}  # fmt: skip
"""What either an engine of this node or a peer may do."""


def _refused(why: str, status: int) -> Script:
    return _raw(length("2", ("X-Pairproxy-Refused", why), body=b"{}", status=status))


HTML = scripts.head(200, ("Content-Type", "text/html"), ("Content-Length", "3")) + b"<p>"
OF_PEERS: dict[str, tuple[Script, str]] = {
    "F15 J16": (_raw(length("0", ("Location", "http://169.254.169.254/"), status=302)), "BrokenReply"),
    "J21": (_raw(length("3", ("Content-Encoding", "gzip"), body=b"\x1f\x8b\x08")), "BrokenReply"),
    "F14 J25": (_raw(HTML), "BrokenReply"),
    "its engine is full": (_refused("UpstreamBusy", 503), "UpstreamBusy"),
    "its port is full": (_refused("QueueFull", 503), "UpstreamBusy"),
}  # fmt: skip
"""What passes unchanged from an engine of this node, and never from a peer."""


def body_of(path: str, *, is_streaming: bool = True) -> bytes:
    """A request in the dialect of a path; without a message it would only ask Ollama to load the model."""
    stream = b"true" if is_streaming else b"false"
    return b'{"model":"m:1","messages":[{"role":"user","content":"hi"}],"stream":%b}' % stream


def peers_tls() -> ssl.SSLContext:
    """What ben's port proves."""
    return tls.server_context(BEN, [identity("anna").certificate])


@contextlib.asynccontextmanager
async def failing(
    side: str, script: Script, other: Script = GOOD, **options: Any
) -> AsyncIterator[tuple[Node, FakeEngine, FakeEngine]]:
    """A node whose engine or peer, the one that is chosen first, has this script: (node, that, the other)."""
    here, there = (script, other) if side == "engine" else (other, script)
    async with (
        FakeEngine(here) as engine,
        FakeEngine(there, tls=peers_tls()) as peer,
        Node(engine, **options) as node,
    ):
        node.reach(BEN, peer.port)
        node.hear_of(BEN, rates=SLOWER if side == "engine" else FASTER)
        yield (node, engine, peer) if side == "engine" else (node, peer, engine)


@contextlib.asynccontextmanager
async def alone(side: str, script: Script, **options: Any) -> AsyncIterator[tuple[Node, FakeEngine]]:
    """A node for whose model there is one place only, with this script: (node, that place)."""
    models = (REPLICA,) if side == "engine" else ()
    async with (
        FakeEngine(script if side == "engine" else GOOD) as engine,
        FakeEngine(script, tls=peers_tls()) as peer,
        Node(engine, models=models, **options) as node,
    ):
        if side == "peer":
            node.reach(BEN, peer.port)
            node.hear_of(BEN)
        yield node, engine if side == "engine" else peer


def gated(first: bytes, go_on: Any, then: str) -> Script:
    """Send the first bytes, wait for an event, then ``close``, ``reset`` or go on with the rest."""

    async def script(_: ParsedRequest, connection: EngineConnection) -> None:
        await connection.send(first)
        await go_on.wait()
        if then == "close":
            connection.close()
        else:
            connection.reset()

    return script


async def ask(node: Node, path: str = CHAT, *, is_streaming: bool = True) -> RawReply:
    """One request on a connection of its own."""
    async with await RawClient.open(node.port) as client:
        return await client.ask(request(f"POST {path} HTTP/1.1", body_of(path, is_streaming=is_streaming)))


def assert_error(reply: RawReply, path: str, status: int) -> None:
    """An error of ours in the caller's dialect, without a word of what was received."""
    assert reply.status == status
    assert CANARY.encode() not in reply.body
    error = reply.json()["error"]
    assert isinstance(error, str) if path == CHAT else set(error) == {"message", "type", "param", "code"}


def begun(path: str, words: int = 2) -> bytes:
    """The head of a stream and so many records of it."""
    return scripts.chunked_head(KINDS[path]) + scripts.chunk(WORDS[path]) * words
