"""WebSockets: the client and its engine talk as if nobody were between them."""

import asyncio
import contextlib

import pytest

from pairproxy.config import Limits
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, eventually
from tests.support.node import Node
from tests.support.raw_client import RawClient
from tests.support.running import run_async
from tests.support.websockets import HEAD, KEY, LOOPS, OFFER, Loop, agreeing, asking, echo, silent, switched


def test_the_handshake_is_between_client_and_engine() -> None:
    """Key, offers and version arrive as they came, and the engine's 101 comes back byte for byte."""

    async def main() -> None:
        async with switched(agreeing(echo), OFFER, "Origin: http://localhost:1", "X-Pairproxy-Run: r") as (
            engine, _, client,
        ):  # fmt: skip
            assert engine.requests[0].raw == (
                b"GET /llm HTTP/1.1\r\nHost: localhost\r\nconnection: keep-alive, Upgrade\r\n"
                b"Upgrade: WebSocket\r\nSec-WebSocket-Key: " + KEY.encode() + b"\r\n"
                b"Sec-WebSocket-Version: 13\r\n" + OFFER.encode() + b"\r\nOrigin: http://localhost:1\r\n\r\n"
            )
            await client.send(b"\x81\x85no frame at all")
            assert await client.reader.readexactly(17) == b"\x81\x85no frame at all"

    run_async(main())


def test_a_head_in_pieces_is_waited_for() -> None:
    """Whatever the packets of the engine's 101 are, also when the first frame comes in the last of them."""

    async def main() -> None:
        pieces = (HEAD[:9], HEAD[9:40], HEAD[40:-3], HEAD[-3:] + b"first frame")
        async with switched(agreeing(silent, *pieces)) as (_, _, client):
            assert await client.reader.readexactly(11) == b"first frame"

    run_async(main())


@pytest.mark.parametrize("loop", LOOPS)
def test_what_a_client_sends_before_the_answer_is_not_lost(loop: Loop) -> None:
    """Frames may follow the request at once."""

    async def main() -> None:
        early = b"e" * 100_000
        async with (
            FakeEngine(agreeing(echo)) as engine,
            Node(engine) as node,
            await RawClient.open(node.port) as client,
        ):
            client.writer.write(asking() + early)
            assert await client.reader.readexactly(len(HEAD + early)) == HEAD + early

    run_async(main(), loop_factory=loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("buffer_bytes", [1024, 256 * 1024])
def test_much_goes_both_ways_at_once(buffer_bytes: int, loop: Loop) -> None:
    """16 MiB of frames each way arrive in order."""

    async def main() -> None:
        data = bytes(range(256)) * (16 * 4096)

        async def talk(connection: EngineConnection) -> None:
            await connection.send(data)
            await connection.received_bytes(len(data))
            assert connection.received == data

        limits = Limits(relay_buffer_bytes=buffer_bytes)
        async with (
            FakeEngine(agreeing(talk)) as engine,
            Node(engine, limits=limits) as node,
            await RawClient.open(node.port) as client,
        ):
            await client.send(asking())
            sending = asyncio.create_task(client.send(data))
            assert await client.reader.readexactly(len(HEAD) + len(data)) == HEAD + data
            await sending
            await eventually(lambda: len(engine.connections[0].received) == len(data))

    run_async(main(), loop_factory=loop)


def test_who_takes_nothing_is_sent_nothing() -> None:
    """Each side feels the other's silence: neither can send without end into a buffer of ours."""

    async def main() -> None:
        async def flood(connection: EngineConnection) -> None:
            connection.pause()
            while not connection.is_stuck:
                await asyncio.wait([asyncio.create_task(connection.send(b"x" * 65536))], timeout=0.2)
            stuck.set()
            await resume.wait()
            connection.resume()
            await connection.peer_left()

        stuck, resume = asyncio.Event(), asyncio.Event()
        async with switched(agreeing(flood)) as (_, node, client):
            client.pause()
            await stuck.wait()
            sent = 0
            with contextlib.suppress(TimeoutError):
                while True:
                    async with asyncio.timeout(0.5):
                        await client.send(b"y" * 65536)
                    sent += 65536
            assert sent < 32 * 2**20
            (connection,) = node.client_port._connections.open
            assert connection.transport is not None
            assert connection.transport.get_write_buffer_size() < 2 * node.limits.relay_buffer_bytes
            resume.set()
            client.resume()
            client.reset()

    run_async(main())


@pytest.mark.parametrize("loop", LOOPS)
def test_ending_a_side_leaves_the_other_open(loop: Loop) -> None:
    """Half of a connection may end: the rest of the talk still arrives, then it is over for both."""

    async def main() -> None:
        async def last_word(connection: EngineConnection) -> None:
            await connection.peer_left()
            await connection.send(b"last word")
            connection.close()

        async with switched(agreeing(last_word)) as (engine, node, client):
            await client.send(b"bye")
            client.half_close()
            assert await client.end() == b"last word"
            assert bytes(engine.connections[0].received) == b"bye"
            await eventually(lambda: node.client_port.connections == 0)

    run_async(main(), loop_factory=loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("way", ["leave", "reset"])
def test_a_client_that_leaves_is_seen_by_the_engine(way: str, loop: Loop) -> None:
    """Within a moment, however it left."""

    async def main() -> None:
        async with switched(agreeing(silent)) as (engine, node, client):
            getattr(client, way)()
            await engine.connections[0].peer_left()
            engine.connections[0].close()
            await eventually(lambda: node.client_port.connections == 0)

    run_async(main(), loop_factory=loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("way", ["close", "reset"])
def test_an_engine_that_dies_ends_its_client(way: str, loop: Loop) -> None:
    """The client gets what was sent before, and the end."""

    async def main() -> None:
        async def die(connection: EngineConnection) -> None:
            await connection.send(b"frame")
            await asyncio.sleep(0.01)
            getattr(connection, way)()

        async with switched(agreeing(die)) as (_, node, client):
            assert await client.end() == b"frame"
            client.leave()
            await eventually(lambda: node.client_port.connections == 0)

    run_async(main(), loop_factory=loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_engine_that_agrees_and_ends_in_one_breath(loop: Loop) -> None:
    """What came in the same packet as the end is not lost."""

    async def main() -> None:
        async with switched(scripts.raw(HEAD + b"close frame", then="close")) as (_, _, client):
            assert await client.end() == b"close frame"

    run_async(main(), loop_factory=loop)
