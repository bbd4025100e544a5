"""The body of a request as it comes: what is there is there at once, what is not is waited for.

The connection reads no more while HELD_BYTES of it wait to be taken.
"""

import asyncio
from collections.abc import Callable

HELD_BYTES = 128 * 1024  # that nobody took yet; one read more may come on top


class BrokenFraming(Exception):
    """A body that will not be whole, for it is not framed as its head says."""


class Content:
    """Parts of a body, in order, without their framing."""

    __slots__ = ("_failure", "_hold", "_is_dropped", "_is_whole", "_parts", "_size", "_waiter", "is_held")

    def __init__(self, hold: Callable[[bool], None], body: bytes | None = None) -> None:
        """``hold``: stops the connection's reading, or lets it go on. ``body``: all of it, if it is there."""
        self._hold = hold
        self._parts = [body] if body else []
        self._size = 0
        self._is_whole = body is not None
        self.is_held = False
        """Whether more of it waits than may."""
        self._is_dropped = False
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, part: bytes) -> None:
        """Another part came."""
        if self._is_dropped:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > HELD_BYTES and not self.is_held:
            self.is_held = True
            self._hold(True)
        self._wake()

    def end(self) -> None:
        """That was all."""
        self._is_whole = True
        self._wake()

    def fail(self, failure: Exception) -> None:
        """It will never be whole: who reads it is told, after what came."""
        if not self._is_whole and self._failure is None:
            self._failure = failure
            self._hold = _holds_nothing  # no cycle is left: the connection is freed as soon as it is lost
            self._wake()

    def drop(self) -> None:
        """Nobody wants what is left of it."""
        self._is_dropped = True
        self._taken()

    def at_eof(self) -> bool:
        """Whether all of it was taken."""
        return self._is_whole and not self._parts

    def whole(self) -> bytes | None:
        """All of it, if it is there and none was taken: for who can do without waiting."""
        return self._taken() if self._is_whole else None

    async def readany(self) -> bytes:
        """What came since the last time, at least a byte; b"" at the end. Raises what fail() was told."""
        while not self._parts:
            if self._failure is not None:
                raise self._failure
            if self._is_whole:
                return b""
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                self._waiter = None
        return self._taken()

    def iter_any(self) -> "Parts":
        """All of it, part by part."""
        return Parts(self)

    def _taken(self) -> bytes:
        parts, self._parts, self._size = self._parts, [], 0
        if self.is_held:
            self.is_held = False
            self._hold(False)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Parts:
    """A body part by part, as it comes."""

    __slots__ = ("_content",)

    def __init__(self, content: Content) -> None:
        self._content = content

    def __aiter__(self) -> "Parts":
        return self

    async def __anext__(self) -> bytes:
        part = await self._content.readany()
        if not part:
            raise StopAsyncIteration
        return part


def _holds_nothing(_: bool) -> None:
    """There is no connection behind a body that is whole."""


def whole(body: bytes) -> Content:
    """A body that is there."""
    return Content(_holds_nothing, body)


NOTHING = whole(b"")
"""The body of most requests."""
