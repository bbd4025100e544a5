import asyncio
import socket

import pytest

from pairproxy.core.handshake import MESSAGE_BYTES
from pairproxy.peers.pairing_frames import end, host_of, linger, read_frame, write_frame
from tests.support.running import run_async


def test_a_frame_is_read_whole_or_not_at_all() -> None:
    """Cut anywhere, too long or late: nothing."""

    async def read(content: bytes, *, is_ended: bool = True) -> bytes | None:
        reader = asyncio.StreamReader()
        reader.feed_data(content)
        if is_ended:
            reader.feed_eof()
        return await read_frame(reader, 0.05)

    async def act() -> None:
        assert await read(b"\x00\x03abc") == b"abc"
        assert await read(b"\x00\x00") == b""
        for content in (b"", b"\x00", b"\x00\x03ab", b"\xff\xffabc"):
            assert await read(content) is None
        assert await read(b"\x00\x03ab", is_ended=False) is None

    run_async(act())


def test_what_was_written_arrives_although_more_was_sent_than_read() -> None:
    """A refusal is heard by a side that keeps talking: no reset overtakes it."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await write_frame(writer, b"no")
        await linger(reader, writer)
        await end(writer)

    async def act() -> None:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"x" * MESSAGE_BYTES)
            await writer.drain()
            assert await read_frame(reader, 10.0) == b"no"
            assert await reader.read() == b""
            await end(writer)

    run_async(act())


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        (("192.168.1.7", 4000), "192.168.1.7"),
        (("::ffff:192.168.1.7", 4000, 0, 0), "192.168.1.7"),
        (("2001:db8::1", 4000, 0, 0), "2001:db8::1"),
        (("fe80::1", 4000, 0, socket.if_nameindex()[0][0]), f"fe80::1%{socket.if_nameindex()[0][1]}"),
        (("fe80::1", 4000, 0, 9_999_999), "fe80::1%9999999"),
    ],
)
def test_an_address_is_kept_as_it_can_be_dialled(peer: tuple[str | int, ...], host: str) -> None:
    """IPv4 as such, link-local addresses with their interface."""
    assert host_of(peer) == host
