"""F17, F19, F31, F32, F34, F43: clients that leave or ask twice, and replies that nobody asked for."""

import asyncio
import contextlib

import pytest

from pairproxy.core.models import Outcome
from pairproxy.security import tls
from tests.support import engine_scripts as scripts
from tests.support.bad_replies import (
    BEN,
    CHAT,
    GOOD,
    LASTS,
    PATHS,
    SIDES,
    V1,
    WHOLE,
    WORDS,
    alone,
    ask,
    begun,
    body_of,
    failing,
)
from tests.support.fake_engine import EngineConnection, ParsedRequest, eventually
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_leaves_frees_the_engine(path: str) -> None:
    """F31, F32: before the first token and in the middle; the engine's connection ends, nobody is blamed."""

    async def main() -> None:
        for pieces in ((), (begun(path),)):
            for side in SIDES:
                async with failing(side, scripts.raw(*pieces, then="hang")) as (node, engine, other):
                    client = await RawClient.open(node.port)
                    await client.send(request(f"POST {path} HTTP/1.1", body_of(path)))
                    await eventually(lambda engine=engine: len(engine.requests) == 1)  # type: ignore[misc]
                    if pieces:
                        await client.head()
                    client.reset()
                    await engine.connections[0].peer_left()
                    (record,) = await node.recorded()
                    assert record.outcome is Outcome.CANCELLED
                    assert other.requests == []
                    assert len(node.scheduler._knows.avoidance) == 0

    run_async(main())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("side", SIDES)
def test_a_client_that_ends_its_side_gets_all_of_its_answer(side: str, path: str) -> None:
    """F34: also from the second place, when the first fails."""

    async def main() -> None:
        for script in (GOOD, scripts.raw(then="reset")):
            async with failing(side, script) as (node, _, _other), await RawClient.open(node.port) as client:
                await client.send(request(f"POST {path} HTTP/1.1", body_of(path)))
                client.half_close()
                reply = await client.final()
                assert (reply.is_whole, reply.body) == (True, WHOLE[path])

    run_async(main())


@pytest.mark.parametrize("side", SIDES)
def test_one_reply_too_many_is_nobodys(side: str) -> None:
    """F17, J24: what comes unasked after a reply is not the next request's answer."""

    async def main() -> None:
        number = 0

        async def poisons(_: ParsedRequest, connection: EngineConnection) -> None:
            nonlocal number
            number += 1
            body = b'{"n":%d,"done":true}' % number
            await connection.send(length_of(body) + body, gap_s=0.02)
            poison = b'{"poison":true,"done":true}'
            await connection.send(length_of(poison) + poison)

        def length_of(body: bytes) -> bytes:
            return scripts.head(200, ("Content-Type", "application/json"), ("Content-Length", str(len(body))))

        async with alone(side, poisons) as (node, engine), await RawClient.open(node.port) as client:
            for expected in range(1, 5):
                reply = await client.ask(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT, is_streaming=False)))
                assert reply.json() == {"n": expected, "done": True}
                await eventually(lambda: all(one.left_at is not None for one in engine.connections))

    run_async(main())


def test_a_model_that_is_loaded_first_only_takes_longer() -> None:
    """F19: no error, and no other node while it may be loading."""

    async def main() -> None:
        loaded = asyncio.Event()

        async def loads(incoming: ParsedRequest, connection: EngineConnection) -> None:
            await loaded.wait()
            await GOOD(incoming, connection)

        async with failing("engine", loads) as (node, engine, other):
            asking = asyncio.create_task(ask(node, V1))
            await eventually(lambda: len(engine.requests) == 1)
            node.hear_of(BEN)
            loaded.set()
            assert (await asking).body == WHOLE[V1]
            assert other.requests == []

    run_async(main())


async def send_attempt(port: int, number: int, client: RawClient) -> None:
    """What a node sends to another for an attempt of its request."""
    lines = ("X-Pairproxy-Request: abc", f"X-Pairproxy-Attempt: {number}", "X-Pairproxy-Engine: engine")
    await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT), *lines))


@pytest.mark.breaks_off("its origin has given it up")
@pytest.mark.parametrize("number", [1, 2], ids=["the same attempt", "the next attempt"])
def test_a_request_that_comes_twice_is_answered_once(number: int) -> None:
    """F43: a copy is refused; a later attempt of the same request ends the one before, and runs alone."""

    async def main() -> None:

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(begun(CHAT))
            await go_on.wait()
            await connection.send(scripts.chunk(LASTS[CHAT]) + scripts.LAST_CHUNK)

        go_on = asyncio.Event()
        async with failing("engine", script, slots=2) as (node, engine, _):
            port = await node.open_peer_port(BEN)
            context = tls.client_context(BEN, node.identity.certificate)
            async with (
                await RawClient.open(port, ssl=context, server_hostname="") as first,
                await RawClient.open(port, ssl=context, server_hostname="") as second,
            ):
                await send_attempt(port, 1, first)
                one = await first.head()
                await send_attempt(port, number, second)
                if number == 1:
                    assert (await second.reply()).status == 409
                    go_on.set()
                    while await first.chunk(one):
                        pass
                    assert one.body == WORDS[CHAT] * 2 + LASTS[CHAT]
                else:
                    await engine.connections[0].peer_left()
                    go_on.set()
                    two = await second.reply()
                    assert (two.is_whole, two.body) == (True, WORDS[CHAT] * 2 + LASTS[CHAT])
                    outcomes = [record.outcome for record in await node.recorded(2)]
                    assert outcomes == [Outcome.CANCELLED, Outcome.DONE]

    run_async(main())


@pytest.mark.breaks_off("its origin has given it up")
def test_of_many_attempts_that_wait_for_one_to_end_one_runs() -> None:
    """F43: the last attempt, in whatever order they are heard."""

    async def main() -> None:
        async with failing("engine", scripts.raw(begun(CHAT), then="hang"), slots=4) as (node, engine, _):
            port = await node.open_peer_port(BEN)
            context = tls.client_context(BEN, node.identity.certificate)
            async with contextlib.AsyncExitStack() as stack:
                clients = [
                    await stack.enter_async_context(
                        await RawClient.open(port, ssl=context, server_hostname="")
                    )
                    for _ in range(4)
                ]
                await send_attempt(port, 1, clients[0])
                await clients[0].head()
                for number in (2, 4, 3):  # all wait for the first to end
                    await send_attempt(port, number, clients[number - 1])
                assert (await clients[3].head()).status == 200
                await eventually(lambda: engine.open_connections == 1)
                (running,) = node.scheduler.running
                assert running.request.id.endswith("-abc-4")

    run_async(main())
