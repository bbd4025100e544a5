"""aiohttp's server with the settings that a port of ours needs; both ports are made here."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import web

from pairproxy.config import Limits

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

HANDSHAKE_S = 5.0  # LAN handshakes take milliseconds; asyncio's 60 s would let strangers hold sockets
IDLE_S = 75.0  # a client's idle connection; also the deadline for the head of its next request
SHUTDOWN_S = 0.1  # for cancelled handlers to end; to aiohttp 0 means for ever
LINGERING_S = 2.0  # reading away the rest of a refused body, so that the client sees the answer
AT_ONCE_S = 0.001  # aiohttp takes 0 for "wait for ever"
HANDLERS_END_S = 1.0  # a cancelled handler has nothing to wait for

_silent = logging.getLogger("pairproxy.http")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False  # aiohttp quotes request bytes in its messages, and those may hold a prompt


class Port:
    """One listening port and its connections."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        self._handler = handler
        self._handling = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._server = web.Server(
            self._handle_one,
            handler_cancellation=True,  # a client that leaves cancels its handler
            access_log=None,
            logger=_silent,
            auto_decompress=False,
            keepalive_timeout=IDLE_S,
            lingering_time=LINGERING_S,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=128,
        )
        self._listening: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        """Open connections, idle ones included."""
        return len(self._server.connections)

    async def start(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Answer on a bound socket from now on."""
        self._listening = await asyncio.get_running_loop().create_server(
            self._server,
            sock=sock,
            ssl=tls,
            backlog=1024,
            ssl_handshake_timeout=HANDSHAKE_S if tls is not None else None,
        )

    def close(self) -> None:
        """Take no new connections; those that are open go on."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def stop(self, grace_s: float = 0.0) -> None:
        """Close the port and, after ``grace_s``, what is open on it; its handlers have ended then."""
        self.close()
        await self._server.shutdown(max(grace_s, AT_ONCE_S))
        with suppress(TimeoutError):  # aiohttp cancels its handlers and does not look back
            async with asyncio.timeout(HANDLERS_END_S):
                await self._idle.wait()

    async def _handle_one(self, request: web.BaseRequest) -> web.StreamResponse:
        self._handling += 1
        self._idle.clear()
        try:
            return await self._handler(request)
        finally:
            self._handling -= 1
            if not self._handling:
                self._idle.set()
