"""The two ends of a WebSocket: a client that asks for one, engines that agree and talk. Bytes, no frames."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script
from tests.support.node import Node
from tests.support.raw_client import RawClient, request

Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS: list[Loop] = [asyncio.new_event_loop]
if sys.platform != "win32":
    import uvloop

    LOOPS.append(uvloop.new_event_loop)
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HEAD = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
    b"sec-websocket-extensions: permessage-deflate; server_max_window_bits=15\r\n\r\n"
)
OFFER = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"


def asking(*headers: str, line: str = "GET /llm HTTP/1.1") -> bytes:
    """A client that wants a WebSocket."""
    key = (f"Sec-WebSocket-Key: {KEY}", "Sec-WebSocket-Version: 13")
    return request(line, None, "connection: keep-alive, Upgrade", "Upgrade: WebSocket", *key, *headers)


def agreeing(talk: Callable[[EngineConnection], Awaitable[None]], *pieces: bytes) -> Script:
    """An engine that agrees, its head in pieces, and talks on."""

    async def script(_: ParsedRequest, connection: EngineConnection) -> None:
        connection.received.clear()
        for piece in pieces or (HEAD,):
            await connection.send(piece, gap_s=0.01 if pieces else 0.0)
        await talk(connection)

    return script


async def echo(connection: EngineConnection) -> None:
    """Give back what comes until the client ends."""
    while connection.left_at is None:
        data = bytes(connection.received)
        connection.received.clear()
        if data:
            await connection.send(data)
        else:
            await connection._change()
    if connection.received:
        await connection.send(bytes(connection.received))
    connection.close()


async def silent(connection: EngineConnection) -> None:
    """Say nothing, and see the client leave."""
    await connection.peer_left()


@contextlib.asynccontextmanager
async def switched(script: Script, *headers: str) -> AsyncIterator[tuple[FakeEngine, Node, RawClient]]:
    """A client whose WebSocket the engine agreed to."""
    async with FakeEngine(script) as engine, Node(engine) as node, await RawClient.open(node.port) as client:
        await client.send(asking(*headers))
        assert await client.reader.readexactly(len(HEAD)) == HEAD
        yield engine, node, client
