"""The wire of a pairing: two bytes of length, big endian, and that many bytes, 4 KiB at most."""

import asyncio
import contextlib
import socket

from pairproxy.core.handshake import MESSAGE_BYTES

STEP_S = 5.0  # for the next message: a LAN needs milliseconds, and meanwhile nobody else may try
_LINGER_S = 1.0  # for the other side to close too
_LINGER_READS = 4  # messages at most that are read to their end for nothing


async def read_frame(reader: asyncio.StreamReader, seconds: float, begun: bytes = b"") -> bytes | None:
    """One message within ``seconds``; None if there is none, or one that is too long: it is not read.

    ``begun`` are bytes of it that were read before, two at most.
    """
    with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, OSError):
        async with asyncio.timeout(seconds):
            length = int.from_bytes(begun + await reader.readexactly(2 - len(begun)), "big")
            return await reader.readexactly(length) if length <= MESSAGE_BYTES else None
    return None


async def write_frame(writer: asyncio.StreamWriter, message: bytes) -> None:
    """Send one message; a connection that ended meanwhile is found by the next read."""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(STEP_S):
            writer.write(len(message).to_bytes(2, "big") + message)
            await writer.drain()


async def linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Before closing, see that what was written arrives: bytes left unread would make it a reset."""
    with contextlib.suppress(TimeoutError, OSError, RuntimeError):
        async with asyncio.timeout(_LINGER_S):
            writer.write_eof()
            for _ in range(_LINGER_READS):
                if not await reader.read(MESSAGE_BYTES):
                    return


async def end(writer: asyncio.StreamWriter) -> None:
    """Close a connection."""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(_LINGER_S):
            writer.close()
            await writer.wait_closed()


def host_of(peer: tuple[str | int, ...]) -> str:
    """The other's address as it is kept: link-local with the interface's name, whose number may change."""
    text = str(peer[0]).removeprefix("::ffff:")
    if len(peer) != 4 or not peer[3]:
        return text
    try:
        zone = socket.if_indextoname(int(peer[3]))
    except OSError:
        zone = str(peer[3])
    return f"{text.partition('%')[0]}%{zone}"
