"""Reading a body beside the event loop, where that would hold the loop up."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

Read = TypeVar("Read")

AT_ONCE_BYTES = 256 * 1024  # of JSON are read and hashed in 1.3 ms; larger bodies must not hold up the loop
AT_ONCE_COMMAS = 10_000  # in it: 90,000 empty messages take 200 ms, the texts of an agent have 5,000


async def aside(body: bytes, read: Callable[[], Read], *, is_coded: bool = False) -> Read:
    """What ``read`` makes of a body, in a thread of its own if that may take more than a millisecond.

    ``is_coded``: it has a content coding, so its size says nothing.
    """
    if len(body) <= AT_ONCE_BYTES and not is_coded and body.count(b",") <= AT_ONCE_COMMAS:
        return read()
    return await asyncio.to_thread(read)
