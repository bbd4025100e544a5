"""Many clients and slow ones: what one takes, the others do not lack, and nothing is held without bound."""

import asyncio
from typing import cast

import pytest

from pairproxy.config import Limits
from pairproxy.core.models import Outcome
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.node import Node
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

DONE = scripts.ollama_chat([{"done": True}])
CHUNK = b"x" * 65_535 + b"\n"


def test_a_slow_client_is_waited_for_and_costs_no_memory() -> None:
    """F33: its engine is paused while a client does not read; others are served, and nothing is lost."""
    small = request(body=b'{"model":"m:1","small":1,"stream":false}')

    async def main() -> None:
        sent = 0

        async def script(incoming: ParsedRequest, connection: EngineConnection) -> None:
            nonlocal sent
            if b"small" in incoming.body:
                await connection.send(scripts.json_bytes({"done": True}))
                return
            await connection.send(scripts.chunked_head())
            for _ in range(400):  # 26 MB, far beyond what the sockets of both hops hold
                await connection.send(scripts.chunk(CHUNK))
                sent += 1
            await connection.send(scripts.chunk(b'{"done":true}') + scripts.LAST_CHUNK)

        async with FakeEngine(script) as engine, Node(engine, slots=2) as node:
            slow = await RawClient.open(node.port, limit=2**20)
            await slow.send(request())
            reply = await slow.head()
            slow.pause()
            transport = cast(asyncio.Transport, node.client_port._connections.open[0].transport)
            limit = node.limits.relay_buffer_bytes
            await eventually(
                lambda: transport.get_write_buffer_size() > limit and engine.connections[0].is_stuck
            )
            assert sent < 300
            assert transport.get_write_buffer_size() < limit + 300_000
            async with await RawClient.open(node.port) as other:
                assert (await other.ask(small)).status == 200
            slow.resume()
            while await slow.chunk(reply):
                pass
            assert len(reply.body) == 400 * len(CHUNK) + 13
            slow.leave()
            assert [record.outcome for record in await node.recorded(2)] == [Outcome.DONE, Outcome.DONE]

    run_async(main(), timeout=30)


STOPPED = 64
READ_BYTES = 256 * 1024  # what a loop takes from a socket at once, at most


@pytest.mark.slow
def test_many_clients_that_stop_reading_cost_a_bounded_memory() -> None:
    """F33: of each reply there waits the relay's buffer and one read more, whatever its engine has to say."""
    limits = Limits(relay_buffer_bytes=64 * 1024)  # asyncio's own mark: below it drain() does not wait

    async def main() -> None:
        async with (
            FakeEngine(scripts.endless()) as engine,
            Node(engine, slots=STOPPED, limits=limits) as node,
        ):
            clients = [await RawClient.open(node.port, limit=4096) for _ in range(STOPPED)]
            for client in clients:
                await client.send(request())
                await client.head()
                client.pause()

            def waiting() -> list[int]:
                connections = node.client_port._connections.open
                transports = [cast(asyncio.Transport, one.transport) for one in connections]
                return [transport.get_write_buffer_size() for transport in transports]

            await eventually(
                lambda: (
                    len(engine.connections) == STOPPED
                    and all(one.is_stuck for one in engine.connections)
                    and all(size > limits.relay_buffer_bytes for size in waiting())
                ),
                20.0,
            )
            stuck = waiting()
            assert len(stuck) == STOPPED
            assert max(stuck) <= limits.relay_buffer_bytes + READ_BYTES
            await asyncio.sleep(
                0.2
            )  # in which engines without back-pressure would send hundreds of megabytes
            assert waiting() == stuck
            for client in clients:
                client.leave()
            await asyncio.gather(*(one.peer_left() for one in engine.connections))

    run_async(main(), timeout=60)


def test_a_client_that_takes_nothing_is_put_out() -> None:
    """F33: a stalled client gives its engine back after a while, and counts as one that left."""
    limits = Limits(client_stall_s=0.1)

    async def main() -> None:
        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            await connection.send(scripts.chunked_head())
            while True:
                await connection.send(scripts.chunk(CHUNK))

        async with FakeEngine(script) as engine, Node(engine, limits=limits) as node:
            stalled = await RawClient.open(node.port, limit=4096)
            await stalled.send(request())
            await engine_is_left(engine)
            (record,) = await node.recorded()
            assert record.outcome is Outcome.CANCELLED
            with pytest.raises(ConnectionResetError):
                await stalled.end()
            stalled.leave()

    async def engine_is_left(engine: FakeEngine) -> None:
        await eventually(lambda: len(engine.connections) == 1)
        await engine.connections[0].peer_left()

    run_async(main())


def test_twenty_clients_never_get_more_than_the_slots_between_them() -> None:
    """The engine counts: never more requests at once than it has slots, and every client is answered."""

    async def main() -> None:
        running = most = 0

        async def script(_: ParsedRequest, connection: EngineConnection) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await connection.send(scripts.chunked_head())
            for number in range(3):
                await connection.send(scripts.chunk(b'{"n":%d}\n' % number), gap_s=0.005)
            running -= 1  # before the end goes out: a real engine is free then, too
            await connection.send(scripts.chunk(b'{"done":true}\n') + scripts.LAST_CHUNK)

        async def ask(port: int) -> bytes:
            async with await RawClient.open(port) as client:
                return (await client.ask(request())).body

        async with FakeEngine(script) as engine, Node(engine, slots=3) as node:
            bodies = await asyncio.gather(*(ask(node.port) for _ in range(20)))
            assert set(bodies) == {b'{"n":0}\n{"n":1}\n{"n":2}\n{"done":true}\n'}
            assert (most, len(engine.requests)) == (3, 20)
            assert [record.outcome for record in node.records] == [Outcome.DONE] * 20

    run_async(main())
