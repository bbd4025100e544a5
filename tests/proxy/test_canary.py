"""No word of a prompt, a reply, a key or a header comes into a log or into an error of ours."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

import pytest

from pairproxy.config import Limits
from pairproxy.core import queue
from pairproxy.core.rules import Rules
from tests.proxy.test_forward import BEN, FAILURES, beside_peer
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script, eventually
from tests.support.node import Node, node_before
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed

CANARY = "CANARY-5d1e"
CHAT = "POST /api/chat HTTP/1.1"
HEADERS = (f"Authorization: Bearer {CANARY}", f"Cookie: a={CANARY}", f"X-{CANARY}: {CANARY}")
BODY = f'{{"model":"m:1","messages":[{{"content":"{CANARY}"}}],"tools":["{CANARY}"]}}'.encode()
SENT = request(f"POST /api/chat?q={CANARY} HTTP/1.1", BODY, *HEADERS)
SPOKEN = f'{{"message":{{"content":"{CANARY}"}}}}\n'.encode()


class Everything(logging.Handler):
    """Keeps every record of every logger, as a formatter would write it."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


@pytest.fixture
def everything() -> Iterator[Everything]:
    """All loggers at DEBUG, also those that hand nothing on."""
    kept = Everything()
    loggers = [logging.getLogger(name) for name in ("", *logging.root.manager.loggerDict)]
    loggers = [one for one in loggers if one.name == "root" or not one.propagate]
    before = [one.level for one in loggers]
    for one in loggers:
        one.addHandler(kept)
        one.setLevel(logging.DEBUG)
    yield kept
    for one, level in zip(loggers, before, strict=True):
        one.removeHandler(kept)
        one.setLevel(level)


async def ask(node: Node, sent: bytes = SENT) -> RawReply | None:
    """One request on a connection of its own; None if it was closed without a reply."""
    async with await RawClient.open(node.port) as client:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            return await client.ask(sent)
    return None


def assert_silent(everything: Everything, *replies: RawReply | None) -> None:
    """Nothing was logged of the canary, and no reply of ours holds it."""
    assert [line for line in everything.lines if CANARY in line] == []
    for reply in replies:
        assert reply is None or CANARY.encode() not in reply.body


FAILED = {name: script for name, (script, end) in FAILURES.items() if end != "SlotsTaken"}  # that one waits


@pytest.mark.parametrize("there", FAILED.values(), ids=FAILED.keys())
def test_a_failing_peer(there: Script, everything: Everything, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a peer does with a request, neither its words nor the client's are told."""
    monkeypatch.setattr(queue, "FULL_S", 0.1)

    async def main() -> None:
        garbage = scripts.raw(f"HTTP/1.1 200 {CANARY}\0\r\n{CANARY}\r\n\r\n".encode(), then="close")
        async with beside_peer(there, garbage) as (node, _, _peer):
            assert_silent(everything, await ask(node))

    run_async(main())


BROKEN: dict[str, Script] = {
    "garbage": scripts.raw(CANARY.encode(), then="close"),
    "a broken header": scripts.raw(f"HTTP/1.1 200 OK\r\n{CANARY}\r\n\r\n".encode(), then="close"),
    "a broken chunk": scripts.raw(scripts.chunked_head(), CANARY.encode(), then="close"),
    "nothing": scripts.raw(then="reset"),
}


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("line", [CHAT, "GET /api/tags HTTP/1.1", "POST /api/pull HTTP/1.1"])
def test_a_broken_engine(script: Script, line: str, everything: Everything) -> None:
    """502 without a word of the engine's bytes."""

    async def main() -> None:
        async with node_before(script) as (node, _):
            reply = await ask(node, request(line, None if "GET" in line else BODY, *HEADERS))
            assert reply is not None
            assert reply.status == 502
            assert_silent(everything, reply)

    run_async(main())


@pytest.mark.breaks_off("its engine or its node dies in the middle")
@pytest.mark.parametrize("then", ["close", "reset", "lose", "leave"])
def test_a_reply_that_breaks_off(then: str, everything: Everything) -> None:
    """The error line that ends a stream says what happened, not what was said."""

    async def main() -> None:
        end = then if then in ("close", "reset") else "hang"
        script = scripts.raw(scripts.chunked_head(), scripts.chunk(SPOKEN), then=end)
        async with beside_peer(script, limits=Limits(node_stale_s=0.1)) as (node, _, _peer):
            async with await RawClient.open(node.port) as client:
                await client.send(SENT)
                reply = await client.head()
                assert CANARY.encode() in await client.chunk(reply)
                if then == "lose":
                    node.lose(BEN)
                if then != "leave":
                    assert CANARY.encode() not in await client.end()
            await node.recorded()
            assert_silent(everything)

    run_async(main())


REFUSED = {
    "another host": request(CHAT, BODY, *HEADERS, host=f"{CANARY}.example"),
    "another origin": request(CHAT, BODY, f"Origin: https://{CANARY}.example"),
    "another method": request(f"TRACE /{CANARY} HTTP/1.1", None, *HEADERS),
    "no method": request(f"{CANARY} / HTTP/1.1", None),
    "no path": request(f"GET {CANARY} HTTP/1.1", None),
    "a control character": request(f"GET /\x01{CANARY} HTTP/1.1", None),
    "a broken header": request("GET / HTTP/1.1", None, f"{CANARY}"),
    "another coding": request(CHAT, BODY, f"Transfer-Encoding: {CANARY}"),
    "another expectation": request(CHAT, BODY, f"Expect: {CANARY}"),
    "a broken chunk": request(CHAT, CANARY.encode() + b"\r\n", "Transfer-Encoding: chunked"),
    "a header too long": request(CHAT, BODY, "X: " + CANARY * 9000),
    "a body too large": request(CHAT, BODY * 100),
    "a prompt instead of a request": BODY + b"\r\n\r\n",
    "a prompt after a request": SENT + BODY + b"\r\n\r\n",
    "TLS": b"\x16\x03\x01\x00\xa5\x01" + CANARY.encode() + b"\r\n\r\n",
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_request(sent: bytes, everything: Everything) -> None:
    """What is wrong is said without quoting it."""

    async def main() -> None:
        options = {"limits": Limits(body_bytes=2000)}
        async with node_before(scripts.json_reply({"done": True}), **options) as (node, _):
            assert_silent(everything, await ask(node, sent))

    run_async(main())


def test_a_full_queue_and_a_long_wait(everything: Everything) -> None:
    """Neither refusal quotes the request; the model's name is told to its own client only."""

    async def main() -> None:
        rules = Rules(queue_limit=1, queue_timeout_s=0.05)
        async with node_before(scripts.raw(then="hang"), rules=rules) as (node, engine):
            async with await RawClient.open(node.port) as running, await RawClient.open(node.port) as waiting:
                await running.send(SENT)
                await eventually(lambda: len(engine.requests) == 1)
                await waiting.send(SENT)
                await eventually(lambda: node.scheduler.waiting == 1)
                full, late = await ask(node), await waiting.reply()
            assert full is not None
            assert (full.status, late.status) == (503, 503)
            assert_silent(everything, full, late)

    run_async(main())


def test_a_models_name_is_not_logged(everything: Everything) -> None:
    """A person may have named a model after a project."""

    async def main() -> None:
        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            connection.reset()

        async with FakeEngine(script) as engine, Node(engine) as node:
            reply = await ask(node, request(CHAT, BODY.replace(b"m:1", CANARY.encode())))
            assert reply is not None
            assert_silent(everything, reply)

    run_async(main())


def test_the_trap_works(everything: Everything) -> None:
    """A word that is logged anywhere would be found."""
    logging.getLogger("asyncio").debug("one %s", CANARY)
    logging.getLogger("pairproxy.proxy").debug("two %s", CANARY)
    assert len([line for line in everything.lines if CANARY in line]) == 2
