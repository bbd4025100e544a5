"""A listening port and its connections: every port of ours is one."""

import asyncio
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

from pairproxy.config import Limits
from pairproxy.core.errors import QueueFull
from pairproxy.crowds import gives_way
from pairproxy.descriptors import LAST, SHORT, Descriptors
from pairproxy.proxy.connection import Connection, Terms
from pairproxy.proxy.faults import log_fault
from pairproxy.proxy.request import HttpRequest, Written
from pairproxy.proxy.room import Room
from pairproxy.responses import StreamResponse
from pairproxy.security.tls import peer_certificate

Handler = Callable[[HttpRequest], Awaitable[Written | StreamResponse]]

HANDSHAKE_S = 5.0  # LAN handshakes take milliseconds; asyncio's 60 s would let strangers hold sockets
IDLE_S = 75.0  # a client's idle connection; also the deadline for the head of its next request
SHUTDOWN_S = 0.1  # for the refused to be told
LINGERING_S = 2.0  # reading away the rest of a refused body, so that the client sees the answer
ACCEPT_AGAIN_S = 0.1  # after accept() failed
HANDLERS_END_S = 1.0  # a cancelled handler has nothing to wait for


class Connections:
    """Makes the connections of a port; knows those that are open, and how many of them are at work."""

    def __init__(self, terms: Terms, room: Room) -> None:
        self._terms = terms
        self._room = room
        self._open: dict[Connection, None] = {}  # oldest first
        self._at_work = 0
        self.is_idle = asyncio.Event()
        """Set while none of them is at work."""
        self.is_idle.set()
        self.is_parted = False
        """Whether each connection ends with the request that it has."""

    @property
    def open(self) -> list[Connection]:
        """Those that are open."""
        return list(self._open)

    def __call__(self) -> Connection:
        """A new one: what a loop asks for when one begins."""
        return Connection(self._terms, self, asyncio.get_running_loop())

    def came(self, connection: Connection, transport: asyncio.BaseTransport) -> None:
        """It needs a place."""
        self._open[connection] = None
        self._room.enter(connection, peer_certificate(transport))

    def went(self, connection: Connection) -> None:
        """It is lost."""
        self._open.pop(connection, None)
        self._room.leave(connection)

    def began(self, connection: Connection) -> None:
        """It is at work on a request."""
        self._room.work(connection)
        if not self._at_work:
            self.is_idle.clear()
        self._at_work += 1

    def ended(self, connection: Connection) -> None:
        """Its request was answered, or will not be."""
        self._room.rest(connection)
        if self.is_parted:
            connection.part()
        self._at_work -= 1
        if not self._at_work:
            self.is_idle.set()


class Port:
    """One listening port and its connections; those that are made of it answer what is asked there."""

    def __init__(
        self,
        limits: Limits,
        *,
        most: int | None = None,
        kept: int = LAST,
        waits_for_half_closed: bool = False,
    ) -> None:
        """``most``: connections of each owner (room.Owner), None: limits.connections.

        ``kept``: descriptors that this port's requests leave to others.
        ``waits_for_half_closed``: not with TLS, where a client cannot end its side alone.
        """
        self._kept = kept
        self._descriptors = Descriptors()
        self._most = most or limits.connections
        self._room = Room(self.most_of_owner, lambda: self._descriptors.free() < SHORT)
        terms = Terms(self._handle, limits.header_bytes, IDLE_S, LINGERING_S, waits_for_half_closed)
        self._connections = Connections(terms, self._room)
        self._listening: list[asyncio.Task[None]] = []
        self._sockets: list[socket.socket] = []
        self._most_handshakes = limits.unauthenticated_connections
        self._handshakes: dict[asyncio.Task[None], str] = {}  # the caller's address; oldest first
        self._beginnings: set[asyncio.Task[None]] = set()  # of connections without TLS
        self._unbegun: set[socket.socket] = set()  # whose tasks had no first step yet

    @property
    def connections(self) -> int:
        """Open connections, idle ones included."""
        return len(self._connections.open)

    def most_of_owner(self) -> int:
        """Connections that one owner may have now."""
        return self._most

    async def start(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Answer on a bound socket from now on."""
        sock.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._accept(sock, tls), name="port")
        task.add_done_callback(lambda _: sock.close())
        self._listening.append(task)
        self._connections.is_parted = False
        self._sockets.append(sock)

    def close(self) -> None:
        """Take no new connections; those that were taken go on, but for handshakes."""
        for one in (*self._listening, *self._handshakes):
            one.cancel()
        self._listening.clear()
        self._sockets.clear()

    async def part(self, *, for_good: bool = False) -> None:
        """Refuse connections when this returns; open ones end after what they carry, idle ones now.

        ``for_good``: also where another process holds a duplicate of what is listened on.
        """
        listening, sockets = tuple(self._listening), tuple(self._sockets)
        self.close()
        for sock in sockets if for_good else ():
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        await asyncio.gather(*listening, return_exceptions=True)
        self._connections.is_parted = True
        for connection in self._connections.open:
            connection.part()

    def refuse_a_crowd(self, request: HttpRequest) -> None:
        """Raise QueueFull where this connection is one too many, or descriptors are left to others only."""
        if self._room.is_crowded(request.connection):
            raise QueueFull("Too many connections are open; try again in a moment.", retry_after_s=1)
        if self._descriptors.free() < self._kept:
            raise QueueFull("This machine has too many files open; try again in a moment.", retry_after_s=1)

    async def stop(self, grace_s: float = 0.0) -> None:
        """Close the port and, after ``grace_s``, what is open on it; its handlers have ended then."""
        self.close()
        for one in self._beginnings:
            one.cancel()
        for connection in self._connections.open:
            connection.close_after()
        tasks = [task for connection in self._connections.open if (task := connection.task) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for connection in self._connections.open:
            connection.break_off()
        with suppress(TimeoutError):
            async with asyncio.timeout(HANDLERS_END_S):
                await self._connections.is_idle.wait()

    async def _accept(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Take in connections; one by one, for each may have to take the place of another."""
        while True:
            if tls is not None and self._descriptors.free() < LAST:  # strangers and peers wait at the door
                self._room.close_longest_idle()
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            came = await self._next(sock)
            if came is None:
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            self._take_in(came[0], tls, str(came[1][0]))
            if self._beginnings:  # it may need the place of another before the next one comes
                await asyncio.wait(self._beginnings)  # which cancels none of them
            await asyncio.sleep(0)  # the next one may be there already; others have their turn first

    async def _next(self, sock: socket.socket) -> tuple[socket.socket, Any] | None:
        """The next connection and its caller; None: there is none, and one may be in a moment."""
        try:
            return await accepted(sock)
        except OSError:  # the client is gone again, or there is no descriptor left
            self._room.close_longest_idle()
        except Exception as error:  # noqa: BLE001 one that ends the task of it closes the port for good
            log_fault(error)
        return None

    def _take_in(self, connection: socket.socket, tls: ssl.SSLContext | None, host: str) -> None:
        """Let a connection begin. Strangers who do not shake hands cost each other their place only."""
        if tls is not None and len(self._handshakes) >= self._most_handshakes:
            oldest = gives_way(self._handshakes)
            del self._handshakes[oldest]
            oldest.cancel()
        work = self._begin(connection, tls)
        task = asyncio.get_running_loop().create_task(work, name="beginning of a connection")
        self._unbegun.add(connection)
        task.add_done_callback(partial(self._close_if_unbegun, connection))
        if tls is None:  # over within a turn of the loop
            self._beginnings.add(task)
            task.add_done_callback(self._beginnings.discard)
            return
        self._handshakes[task] = host
        task.add_done_callback(lambda ended: self._handshakes.pop(ended, None))

    def _close_if_unbegun(self, connection: socket.socket, beginning: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step runs no line; after it the loop has the socket."""
        if connection in self._unbegun:
            self._unbegun.discard(connection)
            connection.close()

    async def _begin(self, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._unbegun.discard(connection)
        loop = asyncio.get_running_loop()
        limit_s = HANDSHAKE_S if tls is not None else None
        try:
            await loop.connect_accepted_socket(
                cast(Any, self._connections), connection, ssl=tls, ssl_handshake_timeout=limit_s
            )
        except OSError:  # no TLS, a stranger, or too slow
            connection.close()

    async def _handle(self, request: HttpRequest) -> Written | StreamResponse:
        """Answer a request."""
        raise NotImplementedError


class PagePort(Port):
    """A port whose requests are answered by a function that is given."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        *,
        most: int | None = None,
        kept: int = LAST,
        waits_for_half_closed: bool = False,
    ) -> None:
        """``most``, ``kept``, ``waits_for_half_closed``: see Port."""
        super().__init__(limits, most=most, kept=kept, waits_for_half_closed=waits_for_half_closed)
        self._handler = handler

    async def _handle(self, request: HttpRequest) -> Written | StreamResponse:
        return await self._handler(request)


async def accepted(sock: socket.socket) -> tuple[socket.socket, Any]:
    """The next connection of a socket that does not block, and its caller. Raises OSError.

    Who is cancelled here has taken no connection: the loop's own sock_accept() may have, and drops it then,
    so that a daemon that stops would cut off whoever came last.
    """
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":  # its loop watches no sockets
        return await loop.sock_accept(sock)
    while (found := _accepted_now(sock)) is None:
        await _readable(loop, sock.fileno())
    return found


def _accepted_now(sock: socket.socket) -> tuple[socket.socket, Any] | None:
    try:
        connection, caller = sock.accept()
    except (BlockingIOError, InterruptedError):
        return None
    connection.setblocking(False)
    return connection, caller


async def _readable(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
