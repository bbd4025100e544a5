"""No word of a prompt, a reply, a key or a header is kept or told by daemons, whatever they are sent."""

import asyncio
import base64
import contextlib
import importlib.util
import itertools
import json
import signal
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pairproxy.api.client import DAEMON_FILE
from pairproxy.core.dialects import reading
from pairproxy.core.models import RequestId
from pairproxy.history.reading import Past
from pairproxy.history.store import FILE
from pairproxy.security import tls
from pairproxy.security.identity import load_or_create
from tests.support import engine_scripts as scripts
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.engine_thread import in_thread
from tests.support.fake_engine import EngineConnection, ParsedRequest, Script
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async
from tests.support.telling import told_by
from tests.test_tracing import collector

CANARY = f"CANARY{uuid.uuid4().hex}"
WORD = CANARY.encode()
NAMED = f"NAMED{uuid.uuid4().hex}"
"""A model that a client asks for and nobody has: its own node may show it, and write it nowhere."""

LONG = {"model": "m:1", "messages": [{"role": "user", "content": CANARY * 40}], "stream": False}
"""A prompt that is long enough to be hashed: who has its hash can try texts against it."""

DATA = Path(__file__).parent.parent / "data"
ROWS = [
    row
    for name in ("bad_inputs_ae.json", "bad_inputs_bcf.json", "bad_inputs_d.json")
    for row in json.loads((DATA / name).read_text())["cases"]
]
SECRETS = f"Authorization: Bearer {CANARY}", f"Cookie: key={CANARY}", f"X-{CANARY}: {CANARY}"
AT_ONCE = 8  # requests; what waits for a deadline waits beside the others
ROW_S = 3.0  # for an answer to a row that may be none
ERROR = {"error": {"message": f"no {CANARY} here", "type": CANARY}}
NDJSON, SSE = "application/x-ndjson", "text/event-stream"
LINE = json.dumps({"message": {"content": CANARY}}).encode() + b"\n"
EVENT = b"data: " + json.dumps({"choices": [{"delta": {"content": CANARY}}]}).encode() + b"\n\n"
REPLIES: dict[str, Script] = {
    "whole": scripts.ollama_chat([LINE, {"done": True}]),
    "whole events": scripts.openai_chat([{"choices": [{"delta": {"content": CANARY}}]}]),
    "cut": scripts.raw(scripts.chunked_head(NDJSON), scripts.chunk(LINE), then="close"),
    "cut events": scripts.raw(scripts.chunked_head(SSE), scripts.chunk(EVENT), then="reset"),
    "cut in a line": scripts.raw(scripts.chunked_head(NDJSON), scripts.chunk(LINE[:-9]), then="close"),
    "a bad chunk": scripts.raw(scripts.chunked_head(NDJSON), scripts.chunk(LINE), WORD, then="close"),
    "garbage": scripts.raw(WORD + b"\r\n\r\n", then="close"),
    "a bad header": scripts.raw(b"HTTP/1.1 200 OK\r\n" + WORD + b"\r\n\r\n", then="close"),
    "a bad status": scripts.raw(b"HTTP/1.1 " + WORD + b" OK\r\n\r\n", then="close"),
    "a bad length": scripts.raw(b"HTTP/1.1 200 OK\r\nContent-Length: " + WORD + b"\r\n\r\n", then="close"),
    "a redirect": scripts.raw(scripts.head(302, ("Location", f"/{CANARY}"), ("Content-Length", "0"))),
    "a page": scripts.raw(scripts.head(200, ("Content-Type", "text/html"), ("Content-Length", "38")) + WORD),
    "an upgrade": scripts.raw(scripts.head(101, ("Upgrade", CANARY)), then="close"),
    "an error in 200": scripts.raw(scripts.chunked_head(NDJSON), scripts.chunk(json.dumps(ERROR).encode())),
    "a busy one": scripts.raw(
        scripts.head(503, ("Retry-After", "1"), ("Content-Length", "38"), ("X-Why", CANARY)) + WORD
    ),
    **{str(status): scripts.json_reply(ERROR, status) for status in (400, 401, 404, 500)},
}


def bodies(model: str, *, is_streaming: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Requests with the word wherever a person may put one: (path, body)."""
    image = base64.b64encode(WORD).decode()
    call = {"function": {"name": "f", "arguments": {"a": CANARY}}}
    messages = [
        {"role": "system", "content": CANARY},
        {"role": "user", "content": CANARY, "images": [image]},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": CANARY},
    ]
    tools = [{"type": "function", "function": {"name": "f", "description": CANARY, "parameters": {}}}]
    yield "/api/chat", {"model": model, "messages": messages, "tools": tools, "stream": is_streaming}
    yield "/api/generate", {"model": model, "prompt": CANARY, "system": CANARY, "stream": is_streaming}
    plain = [{"role": "user", "content": [{"type": "text", "text": CANARY}]}]
    yield "/v1/chat/completions", {
        "model": model, "messages": plain, "stream": is_streaming, "user": CANARY, "stop": [CANARY]
    }  # fmt: skip


def asked(path: str, body: dict[str, Any], *headers: str) -> bytes:
    """One of them, with the word in its query and headers."""
    kind = "Content-Type: application/json"
    return request(f"POST {path}?q={CANARY} HTTP/1.1", json.dumps(body).encode(), kind, *SECRETS, *headers)


def sent_by(row: dict[str, Any]) -> bytes:
    """The bytes of a row, with the word in its target, its headers and, where there are any, its messages."""
    data = b"".join(
        step["t"].encode("latin-1") if "t" in step else zlib.decompress(base64.b64decode(step["z"]))
        for step in row["steps"]
        if "sleep" not in step
    )
    secrets = "".join(f"{header}\r\n" for header in SECRETS).encode()
    data = data.replace(b" HTTP/1.1\r\n", b"?q=" + WORD + b" HTTP/1.1\r\n" + secrets, 1)
    messages = b'"messages":[{"role":"user","content":"%b"}]' % WORD
    if b"Content-Length: 44\r\n" in data and b'"messages":[]' in data:
        more = len(messages) - len(b'"messages":[]')
        data = data.replace(b"Content-Length: 44\r\n", b"Content-Length: %d\r\n" % (44 + more))
        return data.replace(b'"messages":[]', messages)
    return data.replace(b'{"a":', b'{"%b":' % WORD)


class Bad:
    """An engine that answers each question in another bad way, and its listings well."""

    def __init__(self, model: str) -> None:
        self.answered: set[str] = set()
        self._turns = itertools.cycle(REPLIES.items())
        self._ollama = scripts.ollama({model: "a" * 64}, chat=self._next, loaded=[model])

    async def __call__(self, incoming: ParsedRequest, connection: EngineConnection) -> None:
        """Answer one request; what is neither a listing nor a question is told no."""
        await self._ollama(incoming, connection)

    async def _next(self, incoming: ParsedRequest, connection: EngineConnection) -> None:
        if WORD not in incoming.body:  # the daemon measures a new engine
            await scripts.json_reply({"done": True})(incoming, connection)
            return
        name, script = next(self._turns)
        self.answered.add(name)
        await script(incoming, connection)


@pytest.mark.slow
@pytest.mark.breaks_off("engines die in the middle of their replies")
def test_nothing_is_kept_or_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row of the bad inputs and every bad reply, here and at a peer, at log level debug: no hit."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    here, there = Bad("m:1"), Bad("there:1")
    limits = {"body_bytes": 2**20, "body_deadline_s": 1.0, "body_floor_bytes_per_s": 10**12}
    nodes = Daemons(tmp_path / "nodes")
    with (
        in_thread(here) as one,
        in_thread(there) as other,
        collector() as (address, traces),
        nodes as daemons,
    ):
        for name, engine, form in (("A", one, "text"), ("B", other, "json")):
            log, tracing = {"level": "debug", "format": form}, {"endpoint": address if has_traces() else ""}
            text = settings("ollama", slots=4, log=log, limits=limits, tracing=tracing)
            daemons.home(name, text + f'url = "{engine.url}"\n')
        daemons.pair("A", "B")
        a, b = daemons.start("A", "B")
        daemons.until_connected()
        run_async(ask_everything(a, b), timeout=120)
        assert here.answered == there.answered == set(REPLIES)
        for node in (a, b):
            assert psutil.Process(node.pid).rlimit(psutil.RLIMIT_CORE) == (0, 0)
            assert_silent(node, temporary)
        for node in (a, b):  # who pipelined more than is read is not seen to leave: a second word ends that
            node.send(signal.SIGTERM)
            until(lambda node=node: "stopping" in node.log, "it stops")  # type: ignore[misc]
    assert bool(traces) is has_traces()
    assert not [body for _, body in traces if WORD in body or NAMED.encode() in body]


def has_traces() -> bool:
    """Whether the extra is installed: without it no spans are sent."""
    return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None


def hashes() -> list[str]:
    """Those of the long prompt, as anybody may write them."""
    body = json.dumps(LONG).encode()
    prefix = reading.read(RequestId("r"), "/api/chat", body, kind="ollama").prefix
    assert prefix
    return [text for one in prefix for text in (str(one), f"{one:x}", f"{one:X}")]


async def ask_everything(a: Node, b: Node) -> None:
    """All rows and all questions at A, and B's questions at A's peer port."""
    places = asyncio.Semaphore(AT_ONCE)

    async def ask(port: int, data: bytes, **options: Any) -> None:
        async with places:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                async with await RawClient.open(port, **options) as client, asyncio.timeout(ROW_S):
                    await client.send(data)
                    await client.reply()

    questions = [
        asked(path, body)
        for model in ("m:1", "there:1", NAMED)
        for _ in range(len(REPLIES) // 3)
        for is_streaming in (True, False)
        for path, body in bodies(model, is_streaming=is_streaming)
    ]
    questions.append(asked("/api/chat", LONG, "traceparent: 00-" + "a" * 32 + "-" + "b" * 16 + "-01"))
    context = tls.client_context(load_or_create(b.home), load_or_create(a.home).certificate)
    port = a.file.peer_port or 0
    as_peer = [
        asked(path, body, f"X-Pairproxy-Request: {number}", "X-Pairproxy-Attempt: 1")
        for number, (path, body) in enumerate(bodies("m:1", is_streaming=True))
    ]
    as_peer += [
        request(f"POST /api/{word}/{CANARY} HTTP/1.1", WORD, *SECRETS) for word in ("pull", "push", "x")
    ]
    as_peer += [sent_by(row) for row in ROWS]
    await asyncio.gather(
        *(ask(a.port, sent_by(row)) for row in ROWS),
        *(ask(a.port, data) for data in questions),
        *(ask(port, data, ssl=context) for data in as_peer),
        *(ask(a.file.admin_port, sent_by(row)) for row in ROWS),
    )


def assert_silent(node: Node, temporary: Path) -> None:
    """What a node wrote, keeps and tells holds no word of it."""
    until(lambda: Past(node.home / FILE).count(0.0) > len(REPLIES), "history is written")
    if node.name == "A":
        until(
            lambda: any(one.summary.efficiency for one in Past(node.home / FILE).runs(0.0, 99)), "a report is"
        )
    token, secrets = node.file.token, [CANARY, *hashes()]
    assert token
    own = (
        "/status",
        "/report",
        "/requests",
        "/events",
        "svg",
        "html",
    )  # a node may show its own clients' words
    for what, text in told_by(node):
        found = [secret for secret in [*secrets, token] if secret in text]
        assert not found, what
        assert NAMED not in text or what.startswith(own), what
        assert what != "/metrics" or "pairproxy_requests_total{" in text
    places = [node.log_file, *node.home.rglob("*"), *temporary.rglob("*")]
    for path in [path for path in places if path.is_file()]:
        data = path.read_bytes()
        for secret in secrets:
            assert secret.encode() not in data, path
        assert NAMED.encode() not in data, path
        assert token.encode() not in data or path.name == DAEMON_FILE, path
    assert " DEBUG " in node.log or '"level": "debug"' in node.log
    assert "request ended" in node.log
    assert list(temporary.iterdir()) == []
