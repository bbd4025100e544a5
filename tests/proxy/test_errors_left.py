"""An error belongs to who it happened to: nothing of it is left for those who come after."""

import asyncio
from functools import partial

import pytest

from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.node import node_before
from tests.support.raw_client import RawClient
from tests.support.running import run_async

HALF = b"\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000
CLIENTS = 5


async def answer(incoming: ParsedRequest, connection: EngineConnection) -> None:
    """Once the body is whole, which it never is."""
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def has_come(engine: FakeEngine, before: int) -> bool:
    """Whether another connection than those is at the engine."""
    return len(engine.connections) > before


async def context_of_another() -> BaseException | None:
    """What an error that has nothing to do with anybody is said to have happened in."""
    try:
        raise ValueError
    except ValueError as error:
        return error.__context__


@pytest.mark.parametrize("line", [b"POST /api/blobs/sha256:1 HTTP/1.1", b"POST /api/chat HTTP/1.1"])
def test_who_leaves_in_the_middle_of_an_upload_leaves_no_error_behind(line: bytes) -> None:
    """Compiled, an error that is handled while somebody waits would be everybody's, for good."""

    async def main() -> None:
        async with node_before(answer) as (node, engine):
            for number in range(CLIENTS):
                client = await RawClient.open(node.port)
                client.writer.write(line + HALF)
                if b"blobs" in line:
                    await eventually(partial(has_come, engine, number))
                else:
                    await eventually(lambda: node.client_port.connections > 0)
                client.writer.transport.abort()
                await eventually(lambda: node.client_port.connections == 0)
            assert await asyncio.create_task(context_of_another()) is None

    run_async(main())
