"""A reply that tells step by step how something goes: one JSON object a line, until it is over."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from pairproxy.responses import Asked, StreamResponse

STALL_S = 20.0  # who takes nothing for so long is gone, or stopped: what it asked for ends

Tell = Callable[[object], Awaitable[None]]
"""Sends a line. Raises ConnectionError when nobody hears it any more."""
Telling = Callable[[Tell], Awaitable[None]]
"""Does something, and tells how it goes."""

_encode = msgspec.json.Encoder().encode


async def tell_lines(request: Asked, telling: Telling) -> StreamResponse:
    """Answer with the lines of ``telling``; who leaves ends it.

    What it raises before its first line is the caller's to answer. Raises ConnectionError.
    """
    response = StreamResponse(
        headers={
            "Content-Type": "application/x-ndjson",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }
    )

    async def tell(line: object) -> None:
        if not response.prepared:
            await response.prepare(request)
        try:
            async with asyncio.timeout(STALL_S):
                await response.write(_encode(line) + b"\n")
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()  # what was written for it would wait for ever
            raise ConnectionResetError("nobody takes the lines") from None

    try:
        await telling(tell)
    except BaseExceptionGroup as group:
        if group.split(ConnectionError)[1] is None:
            raise ConnectionResetError("nobody takes the lines") from None
        raise
    return response
