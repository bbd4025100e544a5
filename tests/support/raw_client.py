"""A client that shows a reply as it came: head, chunk boundaries, and how the connection ended."""

import asyncio
import contextlib
import json
import re
import socket
import struct
from dataclasses import dataclass, field
from typing import Any, Self, cast

from tests.support.fake_engine import DEADLINE_S
from tests.support.h11_oracle import EXCHANGES, Exchange, RecordingReader, RecordingWriter

MAKERS = re.compile("aiohttp|python", re.IGNORECASE)
"""What no reply of ours says of how it was made."""
BODY = b'{"model":"m:1","messages":[]}'


def request(
    line: str = "POST /api/chat HTTP/1.1", body: bytes | None = BODY, *headers: str, host: str = "localhost"
) -> bytes:
    """One request; Content-Length is added for a body unless a header says how it is framed."""
    lines = [line, f"Host: {host}", *headers]
    is_framed = any(header.lower().startswith(("transfer-encoding", "content-length")) for header in headers)
    if body is not None and not is_framed:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


@dataclass
class RawReply:
    """A reply as it came. ``raw`` is its framed body, ``chunks`` what it decodes to."""

    status_line: bytes
    headers: list[tuple[bytes, bytes]]
    raw: bytearray = field(default_factory=bytearray)
    chunks: list[bytes] = field(default_factory=list)
    is_whole: bool = True
    """Whether the body ended as its framing says."""

    @property
    def status(self) -> int:
        return int(self.status_line.split(b" ")[1])

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    def header(self, name: str) -> bytes | None:
        return next((value for key, value in self.headers if key.lower() == name.lower().encode()), None)

    def json(self) -> Any:
        return json.loads(self.body)


class RawClient:
    """One connection to a port on loopback."""

    def __init__(self, reader: RecordingReader, writer: asyncio.StreamWriter, exchange: Exchange) -> None:
        self.reader = reader
        self.writer = writer
        self.exchange = exchange

    @classmethod
    async def open(cls, port: int, *, limit: int = 2**16, **options: Any) -> Self:
        loop, exchange = asyncio.get_running_loop(), Exchange()
        reader = RecordingReader(exchange, limit)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.create_connection(lambda: protocol, "127.0.0.1", port, **options)
        EXCHANGES.append(exchange)
        writer = RecordingWriter(exchange, transport, protocol, reader)
        return cls(reader, writer, exchange)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    async def ask(self, data: bytes, *, is_head: bool = False) -> RawReply:
        """Send a request and read the whole reply."""
        await self.send(data)
        return await self.reply(is_head=is_head)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def half_close(self) -> None:
        self.writer.write_eof()

    def pause(self) -> None:
        """Read nothing more, as a slow client."""
        cast(asyncio.Transport, self.writer.transport).pause_reading()

    def resume(self) -> None:
        cast(asyncio.Transport, self.writer.transport).resume_reading()

    def leave(self) -> None:
        """Close with FIN."""
        self.writer.close()

    def reset(self) -> None:
        """Close with RST."""
        self.exchange.has_client_left = True
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def head(self) -> RawReply:
        """Read status line and headers."""
        async with asyncio.timeout(DEADLINE_S):
            text = await self.reader.readuntil(b"\r\n\r\n")
        status_line, *lines = text[:-4].split(b"\r\n")
        pairs = (line.split(b":", 1) for line in lines)
        return RawReply(status_line, [(name, value.strip()) for name, value in pairs])

    async def reply(self, *, is_head: bool = False) -> RawReply:
        """Read a whole reply, or what there is of it when the connection ends."""
        reply = await self.head()
        if is_head or reply.status in (204, 304) or reply.status < 200:
            return reply
        async with asyncio.timeout(DEADLINE_S):
            try:
                await self._read_body(reply)
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                reply.is_whole = False
                if isinstance(error, asyncio.IncompleteReadError) and error.partial:
                    reply.raw += error.partial
                    reply.chunks.append(error.partial)
        return reply

    async def final(self) -> RawReply:
        """Read a whole reply; interim ones, which come where it takes long, are skipped."""
        while (reply := await self.reply()).status == 100:
            pass
        return reply

    async def chunk(self, reply: RawReply) -> bytes:
        """Read one chunk of a chunked body; b"" is the last one."""
        line = await self.reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        reply.raw += line
        data = await self.reader.readexactly(size + 2)
        reply.raw += data
        if size:
            reply.chunks.append(data[:-2])
        return data[:-2]

    async def end(self) -> bytes:
        """Read to the end of the connection. Raises ConnectionError if reset, TimeoutError if it stays."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.reader.read()

    async def _read_body(self, reply: RawReply) -> None:
        length = reply.header("Content-Length")
        if reply.header("Transfer-Encoding") is not None:
            while await self.chunk(reply):
                pass
        elif length is not None:
            data = await self.reader.readexactly(int(length)) if int(length) else b""
            reply.raw += data
            reply.chunks.append(data)
        else:
            while data := await self.reader.read(65536):
                reply.raw += data
                reply.chunks.append(data)


def without_hop_by_hop(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that have to be equal on both sides of the proxy."""
    hop = re.compile(rb"connection|keep-alive|date", re.IGNORECASE)
    return [(name, value) for name, value in headers if not hop.fullmatch(name)]
