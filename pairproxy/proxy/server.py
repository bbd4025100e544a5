"""aiohttp's server with the settings that a port of ours needs; both ports are made here."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from pairproxy.config import Limits
from pairproxy.proxy.connection import Connection, log_fault

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

HANDSHAKE_S = 5.0  # LAN handshakes take milliseconds; asyncio's 60 s would let strangers hold sockets
IDLE_S = 75.0  # a client's idle connection; also the deadline for the head of its next request
SHUTDOWN_S = 0.1  # for cancelled handlers to end; to aiohttp 0 means for ever
LINGERING_S = 2.0  # reading away the rest of a refused body, so that the client sees the answer
AT_ONCE_S = 0.001  # aiohttp takes 0 for "wait for ever"
ACCEPT_AGAIN_S = 0.1  # after accept() failed
HANDLERS_END_S = 1.0  # a cancelled handler has nothing to wait for

_silent = logging.getLogger("pairproxy.http")
_silent.disabled = True  # aiohttp quotes request bytes in its messages, and those may hold a prompt


class _Server(web.Server):
    """Makes our kind of connection."""

    def __init__(self, handler: Handler, **settings: Any) -> None:
        super().__init__(handler, handler_cancellation=True)  # a client that leaves cancels its handler
        self._settings = settings

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=self._loop, **self._settings)


class Port:
    """One listening port and its connections."""

    def __init__(self, handler: Handler, limits: Limits, *, waits_for_half_closed: bool = False) -> None:
        """``waits_for_half_closed``: not with TLS, where a client cannot end its side alone."""
        self._handler = handler
        self._handling = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._server = _Server(
            self._handle_one,
            waits_for_half_closed=waits_for_half_closed,
            access_log=None,
            logger=_silent,
            auto_decompress=False,
            keepalive_timeout=IDLE_S,
            lingering_time=LINGERING_S,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=128,
        )
        self._listening: list[asyncio.Server | asyncio.Task[None]] = []
        self._most_handshakes = limits.unauthenticated_connections
        self._handshakes: dict[asyncio.Task[None], None] = {}  # oldest first

    @property
    def connections(self) -> int:
        """Open connections, idle ones included."""
        return len(self._server.connections)

    async def start(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Answer on a bound socket from now on."""
        loop = asyncio.get_running_loop()
        if tls is None:
            self._listening.append(await loop.create_server(self._server, sock=sock, backlog=1024))
        else:
            sock.setblocking(False)
            self._listening.append(loop.create_task(self._accept(sock, tls), name="TLS port"))

    def close(self) -> None:
        """Take no new connections; those that are open go on."""
        for one in self._listening:
            if isinstance(one, asyncio.Task):
                one.cancel()
            else:
                one.close()
        for handshake in self._handshakes:
            handshake.cancel()
        self._listening.clear()

    async def stop(self, grace_s: float = 0.0) -> None:
        """Close the port and, after ``grace_s``, what is open on it; its handlers have ended then."""
        self.close()
        await self._server.shutdown(max(grace_s, AT_ONCE_S))
        with suppress(TimeoutError):  # aiohttp cancels its handlers and does not look back
            async with asyncio.timeout(HANDLERS_END_S):
                await self._idle.wait()

    async def _accept(self, sock: socket.socket, tls: ssl.SSLContext) -> None:
        """Take in connections. Strangers who do not shake hands cost each other their place, nobody else's.

        The oldest handshake gives way: a peer's takes milliseconds, so nobody waits for those that hang.
        """
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connection, _ = await loop.sock_accept(sock)
                except OSError:  # the client is gone again, or there is no descriptor left
                    await asyncio.sleep(ACCEPT_AGAIN_S)
                    continue
                if len(self._handshakes) >= self._most_handshakes:
                    oldest = next(iter(self._handshakes))
                    del self._handshakes[oldest]
                    oldest.cancel()
                task = loop.create_task(self._shake_hands(connection, tls), name="TLS handshake")
                self._handshakes[task] = None
                task.add_done_callback(lambda ended: self._handshakes.pop(ended, None))
        finally:
            sock.close()

    async def _shake_hands(self, connection: socket.socket, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._server, connection, ssl=tls, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError:  # no TLS, a stranger, or too slow
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise

    async def _handle_one(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        self._handling += 1
        self._idle.clear()
        try:
            if isinstance(connection, Connection):
                connection.fail_broken_body()
            return await self._handler(request)
        except ConnectionError:
            raise  # the client left
        except Exception as error:
            log_fault(error)
            raise
        finally:
            if isinstance(connection, Connection):
                connection.is_answering = False
            self._handling -= 1
            if not self._handling:
                self._idle.set()
