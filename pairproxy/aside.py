"""Reading a body beside the event loop, where that would hold the loop up."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

Read = TypeVar("Read")

AT_ONCE_BYTES = 256 * 1024  # of JSON are read and hashed in 0.8 ms; larger bodies must not hold up the loop
AT_ONCE_COMMAS = 3000  # in it: so many tiny parts take 5 ms, and a thread costs 0.1 ms where they are text


async def aside(body: bytes, read: Callable[[], Read], *, is_coded: bool = False) -> Read:
    """What ``read`` makes of a body, in a thread of its own if that may take milliseconds.

    ``is_coded``: it has a content coding, so its size says nothing.
    """
    size = len(body)
    is_plain = size <= AT_ONCE_COMMAS or (size <= AT_ONCE_BYTES and body.count(b",") <= AT_ONCE_COMMAS)
    if is_plain and not is_coded:
        return read()
    return await asyncio.to_thread(read)
