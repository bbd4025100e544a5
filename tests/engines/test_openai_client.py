import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pairproxy.core.errors import BrokenReply, Unreachable
from pairproxy.engines import openai_client
from pairproxy.engines.openai_client import OpenAiClient, read_whole
from tests.support.running import run_async

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers each connection with one script: a reply per request, None closes without a byte."""

    def __init__(self, *scripts: list[bytes | None]) -> None:
        self.scripts = list(scripts)
        self.requests = 0
        self.connections = 0
        self.lost = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            for answer in self.scripts.pop(0):
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                self.requests += 1
                if answer is None:
                    return
                writer.write(answer)
            await reader.read()
            self.lost.set()
        finally:
            writer.close()


@asynccontextmanager
async def asked(server: Server) -> AsyncIterator[OpenAiClient]:
    """A client of ``server``, which listens meanwhile."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    client = OpenAiClient(lambda: listening.sockets[0].getsockname()[:2])
    try:
        yield client
    finally:
        await client.close()
        listening.close()
        await listening.wait_closed()


async def ask(client: OpenAiClient) -> bytes:
    """The whole reply to one request."""
    async with client.post("/v1/completions", b"{}") as reply:
        return await read_whole(reply)


def test_a_connection_that_died_while_idle_is_replaced() -> None:
    """The request is sent once more on a fresh connection, and the caller notices nothing."""

    async def play() -> tuple[list[bytes], int, int]:
        server = Server([OK, None], [OK])
        async with asked(server) as client:
            return [await ask(client), await ask(client)], server.requests, server.connections

    assert run_async(play()) == ([b"{}", b"{}"], 3, 2)


def test_a_fresh_connection_that_dies_is_not_tried_again() -> None:
    """A server that falls over a request does not get it a second time."""

    async def play() -> int:
        server = Server([None], [OK])
        async with asked(server) as client:
            with pytest.raises(Unreachable):
                await ask(client)
        return server.requests

    assert run_async(play()) == 1


def test_nobody_there_is_unreachable() -> None:
    """A closed port is told with a sentence that names no foreign error."""

    async def play() -> str:
        listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        address = listening.sockets[0].getsockname()[:2]
        listening.close()
        await listening.wait_closed()
        client = OpenAiClient(lambda: address)
        try:
            with pytest.raises(Unreachable) as refused:
                await ask(client)
        finally:
            await client.close()
        return refused.value.sentence

    assert "Errno" not in run_async(play())


def test_leaving_the_block_early_closes_the_connection() -> None:
    """The engine sees at once that nobody reads its reply."""

    async def play() -> None:
        server = Server([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"])
        async with asked(server) as client:
            async with client.post("/v1/completions", b"{}") as reply:
                assert reply.status == 200
            async with asyncio.timeout(5):
                await server.lost.wait()

    run_async(play())


def test_half_a_reply_is_a_broken_one() -> None:
    """A body that ends early may be tried elsewhere."""

    async def play() -> None:
        server = Server([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", None])
        async with asked(server) as client, client.post("/v1/completions", b"{}") as reply:
            assert reply.connection is not None
            assert reply.connection.transport is not None
            reply.connection.transport.abort()
            with pytest.raises(BrokenReply):
                await read_whole(reply)

    run_async(play())


def test_a_reply_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory for one reply is bounded."""
    monkeypatch.setattr(openai_client, "REPLY_LIMIT_BYTES", 1)

    async def play() -> None:
        server = Server([OK])
        async with asked(server) as client:
            with pytest.raises(BrokenReply, match="too large"):
                await ask(client)

    run_async(play())
