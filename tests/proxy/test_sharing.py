"""Two nodes, each with an engine of its own: how they share their slots and what happens when one is full."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from pairproxy.core.models import Outcome
from pairproxy.core.rules import Rules
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script, eventually
from tests.support.node import Node
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async


@contextlib.asynccontextmanager
async def two_engines(script: Script) -> AsyncIterator[tuple[FakeEngine, FakeEngine]]:
    """Two of a kind."""
    async with FakeEngine(script) as one, FakeEngine(script) as other:
        yield one, other


@contextlib.asynccontextmanager
async def two_nodes(
    script: Script, rules: Rules, slots: int = 1
) -> AsyncIterator[tuple[Node, Node, FakeEngine, FakeEngine]]:
    """Anna, who may use ben, both with an engine of their own: (anna, ben, her engine, his)."""
    async with (
        two_engines(script) as (hers, his),
        Node(his, name="ben", slots=slots) as ben,
        Node(hers, rules=rules, slots=slots) as anna,
    ):
        await anna.pair(ben)
        yield anna, ben, hers, his


@pytest.mark.parametrize("policy", ["least-busy", "fastest-finish"])
def test_two_places_share_the_work(policy: str) -> None:
    """Both policies use both places at once, never beyond their slots, and every client is answered."""

    async def main() -> None:
        running: dict[EngineConnection, FakeEngine] = {}
        most: dict[int, int] = {}

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            running[connection] = connection.engine
            at_once = list(running.values()).count(connection.engine)
            most[connection.engine.port] = max(most.get(connection.engine.port, 0), at_once)
            await connection.send(scripts.chunked_head() + scripts.chunk(b'{"n":1}\n'), gap_s=0.02)
            del running[connection]
            await connection.send(scripts.chunk(b'{"done":true}\n') + scripts.LAST_CHUNK)

        async def ask(port: int) -> RawReply:
            async with await RawClient.open(port) as client:
                return await client.ask(request())

        async with two_nodes(script, Rules(policy), slots=2) as (anna, ben, hers, his):
            replies = await asyncio.gather(*(ask(anna.port) for _ in range(16)))
            assert [reply.body for reply in replies] == [b'{"n":1}\n{"done":true}\n'] * 16
            assert len(hers.requests) + len(his.requests) == 16
            assert min(len(hers.requests), len(his.requests)) >= 4
            assert most == {hers.port: 2, his.port: 2}
            assert {record.outcome for record in (*anna.records, *ben.records)} == {Outcome.DONE}

    run_async(main())


def test_a_slot_that_somebody_else_took_is_no_failure() -> None:
    """A guest for a taken slot gets 409 at once; its origin queues the request and tries again."""

    async def main() -> None:
        go_on = asyncio.Event()

        async def script(incoming: ParsedRequest, connection: EngineConnection) -> None:
            if b"slow" in incoming.body:
                await go_on.wait()
            await connection.send(scripts.json_bytes({"done": True}))

        slow, quick = (
            request(body=b'{"model":"m:1","stream":false,"%s":1}' % name) for name in (b"slow", b"q")
        )
        async with two_engines(script) as (hers, his), Node(his, name="ben") as ben, Node(hers) as anna:
            anna.reach(ben.identity, await ben.open_peer_port(anna))
            anna.hear(ben)  # once, while his slot is free
            async with (
                await RawClient.open(ben.port) as bens,
                await RawClient.open(anna.port) as first,
                await RawClient.open(anna.port) as second,
            ):
                await bens.send(slow)
                await eventually(lambda: len(his.requests) == 1)
                await first.send(slow)
                await eventually(lambda: len(hers.requests) == 1)
                await second.send(quick)  # goes to ben, whose slot only seems to be free
                await eventually(lambda: len(ben.records) == 1)
                assert ben.records[0].outcome is Outcome.REFUSED
                assert len(his.requests) == 1
                await eventually(lambda: anna.scheduler.waiting == 1)
                go_on.set()
                assert [(await client.reply()).status for client in (bens, first, second)] == [200] * 3
            ends = {attempt.end for record in await anna.recorded(2) for attempt in record.attempts}
            assert ends == {"SlotsTaken", "done"}

    run_async(main())


def test_an_origin_that_leaves_frees_the_engine_of_its_peer() -> None:
    """A client's leaving goes through both nodes to the engine within a second."""

    async def main() -> None:
        async with (
            FakeEngine(scripts.raw(then="reset")) as dead,
            Node(dead) as anna,
            FakeEngine(scripts.raw(then="hang")) as engine,
            Node(engine, name="ben") as ben,
        ):
            await anna.pair(ben)
            client = await RawClient.open(anna.port)
            await client.send(request())
            await eventually(lambda: len(engine.requests) == 1)
            left_at = asyncio.get_running_loop().time()
            client.leave()
            assert await engine.connections[0].peer_left() - left_at < 1.0
            await eventually(lambda: len(anna.scheduler.running) == len(ben.scheduler.running) == 0)

    run_async(main())
