"""Whether the other side of a connection takes what is written to it.

Aiohttp's writer asks a connection for the same, by the same names; its own base for that would have to be
what is run as it is read, and so would all that stands on it.
"""

import asyncio
from typing import cast

from aiohttp.tcp_helpers import tcp_nodelay


class Flow:
    """The writing half of a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._paused = False
        self._drain_waiter: asyncio.Future[None] | None = None
        self.transport: asyncio.Transport | None = None
        """None when the connection is lost."""

    @property
    def connected(self) -> bool:
        """Whether it is open."""
        return self.transport is not None

    @property
    def writing_paused(self) -> bool:
        """Whether the other side has to take something before more should be written."""
        return self._paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        opened = cast(asyncio.Transport, transport)
        tcp_nodelay(opened, True)
        self.transport = opened

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is lost: nobody waits for the other side any more."""
        self.transport = None
        waiter, self._drain_waiter = self._drain_waiter, None
        if waiter is None or waiter.done():
            return
        if exc is None:
            waiter.set_result(None)
            return
        waiter.set_exception(ConnectionResetError("the connection is lost"))
        waiter.exception()  # who waited may have been cancelled: then nobody asks

    def pause_writing(self) -> None:
        """The other side takes less than is written."""
        self._paused = True

    def resume_writing(self) -> None:
        """It took most of it."""
        self._paused = False
        waiter, self._drain_waiter = self._drain_waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _drain_helper(self) -> None:
        """Return when it took most of what was written. Raises ConnectionError when it is lost."""
        if self.transport is None:
            raise ConnectionResetError("the connection is lost")
        if not self._paused:
            return
        waiter = self._drain_waiter
        if waiter is None:
            waiter = self._drain_waiter = self._loop.create_future()
        await asyncio.shield(waiter)

    async def drain(self) -> None:
        """Return when it took most of what was written, or nobody can take it any more.

        Raises ConnectionError when that becomes so meanwhile.
        """
        if self._paused and self.transport is not None:
            await self._drain_helper()
