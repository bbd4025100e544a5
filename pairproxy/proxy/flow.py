"""What is written to a connection, and whether the other side takes it.

It has no base of asyncio's: that is run as it is read, and so would be all that stands on it.
"""

import asyncio
import socket
from contextlib import suppress
from typing import cast

from pairproxy.upstreams.outbox import Sender, outbox_of


class Flow(Sender):
    """The writing half of a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(outbox_of(loop))
        self._loop = loop
        self._paused = False
        self._drain_waiter: asyncio.Future[None] | None = None

    @property
    def transport(self) -> asyncio.Transport | None:
        """What carries it, and has all that was sent until now; None when the connection is lost."""
        if self._unsent:
            self.flush()
        return self._wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        opened = cast(asyncio.Transport, transport)
        _send_at_once(opened)
        self._wire = opened

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is lost: nobody waits for the other side any more."""
        self._wire = None
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

    async def drain(self) -> None:
        """Return when it took most of what was written, or nobody can take it any more.

        Raises ConnectionError when that becomes so meanwhile.
        """
        if self._paused and self._wire is not None:
            waiter = self._drain_waiter
            if waiter is None:
                waiter = self._drain_waiter = self._loop.create_future()
            await asyncio.shield(waiter)


def _send_at_once(transport: asyncio.Transport) -> None:
    """Let no system wait for more before it sends what was written."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):  # it is lost already
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
