"""When a reply on its way is broken off because nothing comes any more, and what is an end."""

import asyncio

import pytest

from pairproxy.config import Limits
from pairproxy.core.events import EngineLost, EngineReported
from pairproxy.core.models import Outcome, Rates
from pairproxy.core.rules import Rules
from pairproxy.proxy.watching import Silence
from tests.support import engine_scripts as scripts
from tests.support.bad_replies import (
    BEN,
    CHAT,
    GOOD,
    KINDS,
    LASTS,
    WHOLE,
    WORDS,
    alone,
    ask,
    begun,
    body_of,
    failing,
)
from tests.support.fake_engine import EngineConnection, ParsedRequest, eventually
from tests.support.node import ENGINE
from tests.support.raw_client import RawClient, request
from tests.support.relaying import Sink, post, serving
from tests.support.running import run_async

pytestmark = pytest.mark.timed

SHORT = Limits(gone_s=0.1, quiet_s=0.1)
TOOLS = b',"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]'


def test_an_engine_that_does_not_answer_its_node_either_is_given_up() -> None:
    """F9: in the middle of a stream, after limits.gone_s; not while it answers, however long that takes."""

    async def main() -> None:
        async with (
            alone("engine", scripts.raw(begun(CHAT), then="hang"), limits=SHORT) as (node, engine),
            await RawClient.open(node.port) as client,
        ):
            await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT)))
            reply = await client.head()
            for _ in range(2):
                await client.chunk(reply)
            await asyncio.sleep(3 * SHORT.gone_s)
            assert engine.open_connections == 1
            node.dispatcher.tell(EngineLost(node.dispatcher.now(), ENGINE))
            assert (await client.chunk(reply)).startswith(b'{"error":"')
            assert await client.end() == b""
            await engine.connections[0].peer_left()
            (record,) = await node.recorded()
            assert record.outcome is Outcome.TRUNCATED

    run_async(main())


def test_a_stream_that_flows_outlives_the_heartbeat_of_its_node() -> None:
    """F40: a heartbeat may be late; what comes goes on to the client, until it stops to come."""

    async def main() -> None:
        stop = asyncio.Event()

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(begun(CHAT))
            while not stop.is_set():
                await connection.send(scripts.chunk(WORDS[CHAT]), gap_s=0.01)
            await connection.peer_left()

        limits = Limits(node_stale_s=0.5)
        async with (
            failing("peer", script, limits=limits) as (node, peer, _),
            await RawClient.open(node.port) as client,
        ):
            await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT)))
            reply = await client.head()
            await client.chunk(reply)
            node.lose(BEN)
            for _number in range(50):
                assert await client.chunk(reply) == WORDS[CHAT]
            stop.set()
            while (line := await client.chunk(reply)) == WORDS[CHAT]:
                pass
            assert line.startswith(b'{"error":"')
            await peer.connections[0].peer_left()
            (record,) = await node.recorded()
            assert record.outcome is Outcome.TRUNCATED

    run_async(main())


def test_a_node_that_is_heard_again_may_be_quiet_again() -> None:
    """F40: its heartbeat was late and its reply goes on; then it is silent for longer than a lost one may."""

    async def main() -> None:
        think = asyncio.Event()
        go_on = asyncio.Event()

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(begun(CHAT))
            while not think.is_set():
                await connection.send(scripts.chunk(WORDS[CHAT]), gap_s=0.01)
            await go_on.wait()
            await connection.send(scripts.chunk(LASTS[CHAT]) + scripts.LAST_CHUNK)

        limits = Limits(node_stale_s=0.4)
        async with (
            failing("peer", script, limits=limits) as (node, peer, _),
            await RawClient.open(node.port) as client,
        ):
            await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT)))
            reply = await client.head()
            await client.chunk(reply)
            node.lose(BEN)
            assert await client.chunk(reply) == WORDS[CHAT]
            node.hear_of(BEN)
            think.set()
            await asyncio.sleep(2 * limits.node_stale_s)  # what a lost node would not be given
            assert peer.open_connections == 1
            go_on.set()
            while await client.chunk(reply):
                pass
            (record,) = await node.recorded()
            assert record.outcome is Outcome.DONE

    run_async(main())


@pytest.mark.parametrize("kind", ["tools", "whole"])
def test_who_may_be_quiet_is_not_given_up(kind: str) -> None:
    """F9: a peer that writes the call of a tool, or a reply in one piece, shows nothing of it for long."""

    async def main() -> None:
        go_on = asyncio.Event()
        is_whole = kind == "whole"
        first = scripts.head(200, ("Content-Type", "application/json"), ("Content-Length", "14")) + b"{"
        rest = scripts.chunk(LASTS[CHAT]) + scripts.LAST_CHUNK

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(first if is_whole else begun(CHAT))
            await go_on.wait()
            await connection.send(b'"done": true}' if is_whole else rest)

        rules = Rules(quiet_s=SHORT.quiet_s)
        async with failing("peer", script, limits=SHORT, rules=rules) as (node, peer, _):
            node.hear_of(BEN, rates=Rates(prefill=1e9, decode=1e4, beta=0.0))  # 8,192 tokens: 0.8 s
            body = body_of(CHAT, is_streaming=not is_whole)
            body = body if is_whole else body[:-1] + TOOLS + b"}"
            async with await RawClient.open(node.port) as client:
                await client.send(request(f"POST {CHAT} HTTP/1.1", body))
                await eventually(lambda: any(one.first_byte_at for one in node.scheduler.running))
                await asyncio.sleep(3 * SHORT.quiet_s)
                assert peer.open_connections == 1
                go_on.set()
                assert (await client.reply()).is_whole
            (record,) = await node.recorded()
            assert record.outcome is Outcome.DONE

    run_async(main())


def test_a_slow_client_is_no_silent_engine() -> None:
    """F33: while it takes nothing, nothing is read for it; that is not the peer's silence."""

    async def main() -> None:
        block = scripts.chunk(b"x" * 65_535 + b"\n")

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(scripts.chunked_head(KINDS[CHAT]))
            for _number in range(400):
                await connection.send(block)
            await connection.send(scripts.chunk(LASTS[CHAT]) + scripts.LAST_CHUNK)

        rules = Rules(quiet_s=SHORT.quiet_s)
        async with failing("peer", script, limits=SHORT, rules=rules) as (node, peer, _):
            async with await RawClient.open(node.port, limit=2**20) as client:
                await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT)))
                reply = await client.head()
                client.pause()
                await eventually(lambda: peer.connections[0].is_stuck)
                await asyncio.sleep(3 * SHORT.quiet_s)
                client.resume()
                while await client.chunk(reply):
                    pass
            (record,) = await node.recorded()
            assert record.outcome is Outcome.DONE

    run_async(main(), timeout=40)


def test_nothing_of_the_watch_is_left_when_the_reply_is_over() -> None:
    """Its timer ends with its block."""

    async def main() -> None:
        async with serving(GOOD) as (_, upstream):
            reply = await upstream.send(post(body_of(CHAT)))
            sink = Sink()
            watch = Silence(reply, lambda: 0, SHORT, SHORT.quiet_s, lambda: False, lambda: False)
            with watch:
                await sink.relay(reply)
            assert watch._timer is not None
            assert watch._timer.cancelled()

    run_async(main())


def test_an_engine_that_came_back_is_used_at_once() -> None:
    """F18: what is held against it is forgotten when the monitor tells of it anew."""

    async def main() -> None:
        async with alone("engine", GOOD) as (node, engine):
            engine.stop_listening()
            asking = asyncio.create_task(ask(node))
            await eventually(lambda: node.scheduler.waiting == 1)
            node.dispatcher.tell(EngineLost(node.dispatcher.now(), ENGINE))
            async with type(engine)(GOOD, port=engine.port):
                node.dispatcher.tell(EngineReported(node.dispatcher.now(), node._report))
                assert (await asking).body == WHOLE[CHAT]

    run_async(main())
