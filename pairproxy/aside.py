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
    return read() if is_read_at_once(body, is_coded=is_coded) else await asyncio.to_thread(read)


def is_read_at_once(body: bytes, *, is_coded: bool = False) -> bool:
    """Whether a body is read in less than a millisecond or so. ``is_coded``: see aside()."""
    size = len(body)
    is_plain = size <= AT_ONCE_COMMAS or (size <= AT_ONCE_BYTES and body.count(b",") <= AT_ONCE_COMMAS)
    return is_plain and not is_coded
