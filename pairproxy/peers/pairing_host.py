"""The side of a pairing that waits: a port for one code, for as long as the code lives.

One exchange at a time, others are told ``busy``; three exchanges in all, counted when they begin. Who
connects and leaves without a byte has tried nothing, and has nobody wait for it.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Callable

from pairproxy.core.errors import PairingFailed, StoreError
from pairproxy.core.handshake import Host, Invitation
from pairproxy.core.handshake_steps import Failed, Reason, refusal
from pairproxy.crowds import gives_way
from pairproxy.peers.pairing import PREFERRED_PORT, Exchange, Keeping, Me
from pairproxy.peers.pairing_frames import STEP_S, end, linger, read_frame, write_frame
from pairproxy.security.pairing import Sealing, Secret, Spake

MOST_CONNECTIONS = 64  # at once; each is answered and closed in a moment, or the oldest gives way
_BACKLOG = 16  # connections that wait to be accepted
_GOODBYE_S = 0.5  # for those that are being told `closed`

Tried = Callable[[Failed], None]
"""Hears how an exchange failed."""


class PairingPort:
    """Waits for the machine that knows the code. Made by opened()."""

    def __init__(self, me: Me, secret: Secret, on_try: Tried, step_s: float) -> None:
        self.port = 0
        """The TCP port, the same for IPv4 and IPv6."""
        self._me = me
        self._secret = secret
        self._on_try = on_try
        self._step_s = step_s
        self._invitation = Invitation()
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # oldest first
        self._servers: list[asyncio.Server] = []
        self._turn = asyncio.Lock()
        self._is_on: asyncio.Task[None] | None = None  # whose turn it is, or was if it succeeded
        self._over = asyncio.Event()
        self._exchange: Exchange | None = None
        self._error: StoreError | None = None

    @property
    def tries_left(self) -> int:
        """How many exchanges may still begin."""
        return self._invitation.tries_left

    async def paired(self) -> Exchange:
        """Wait for the exchange that succeeds.

        Raises PairingFailed when the code's life or tries are over, StoreError if a peer cannot be stored.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._secret.life_s):
                await self._over.wait()
        self._invitation.expire()
        async with self._turn:  # an exchange that is under way may end
            exchange = self._exchange
        if exchange is not None:
            return exchange
        if self._error is not None:
            raise self._error
        if self._invitation.tries_left == 0:
            raise PairingFailed(
                "This code was tried three times without success, so it is void. If that was not you or the "
                "other person mistyping, somebody on this network is guessing. Run `pairproxy pair` again."
            )
        raise PairingFailed("Nobody joined in time, so this code is void. Run `pairproxy pair` again.")

    async def open(self) -> None:
        """Listen. Raises PairingFailed if this machine has no network at all."""
        for sock in _sockets(self._me.is_on_loopback):
            self._servers.append(await asyncio.start_server(self._accept, sock=sock, backlog=_BACKLOG))
            self.port = sock.getsockname()[1]

    async def close(self) -> None:
        """Listen no longer; exchanges under way are broken off."""
        for server in self._servers:
            server.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GOODBYE_S)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= MOST_CONNECTIONS:
            self._end_oldest()
        task = asyncio.ensure_future(self._answer(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))

    def _end_oldest(self) -> None:
        """Make room, not at the cost of the one whose turn it is."""
        oldest = gives_way(
            {task: _host(writer) for task, writer in self._tasks.items() if task is not self._is_on}
        )
        self._tasks.pop(oldest).transport.abort()
        oldest.cancel()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # Waited for outside the turn: else who connects and leaves in time, over and over, always has it.
            begun = None if self._refused else await self._begun(reader)
            if refused := self._refused:
                await write_frame(writer, refusal(refused))
            elif begun != b"":
                async with self._turn:
                    self._is_on = asyncio.current_task()
                    await self._try(reader, writer, begun)
            if not self._is_needed(writer):
                await linger(reader, writer)
        finally:
            if not self._is_needed(writer):
                await end(writer)

    @property
    def _refused(self) -> Reason | None:
        """Why nobody may try now."""
        if not self._invitation.is_open:
            return Reason.CLOSED
        return Reason.BUSY if self._turn.locked() else None

    async def _begun(self, reader: asyncio.StreamReader) -> bytes | None:
        """The first byte; b"" from who left without one, None where none came in time."""
        try:
            async with asyncio.timeout(self._step_s):
                return await reader.read(1)
        except TimeoutError:
            return None
        except OSError:
            return b""

    def _is_needed(self, writer: asyncio.StreamWriter) -> bool:
        return self._exchange is not None and self._exchange.is_on(writer)

    async def _try(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, begun: bytes | None
    ) -> None:
        keeping = Keeping(self._me)
        side = Host(self._invitation, Spake(self._secret.password, is_host=True), Sealing(), keeping.case)
        exchange = Exchange(side, keeping, (reader, writer), self._step_s)
        first = await read_frame(reader, self._step_s, begun) if begun is not None else None
        if first is None:
            await exchange.interrupt(Reason.BROKEN if begun is not None else Reason.LOST)
        elif await exchange.run(first):
            self._exchange = exchange
            self._over.set()
            return
        if exchange.failed is not None:
            self._on_try(exchange.failed)
        self._error = exchange.error
        if self._error is not None or not self._invitation.is_open:
            self._over.set()


@contextlib.asynccontextmanager
async def opened(
    me: Me, secret: Secret, on_try: Tried, *, step_s: float = STEP_S
) -> AsyncIterator[PairingPort]:
    """The port for one code; leaving the block closes it. ``step_s``: seconds for each message to come.

    Raises PairingFailed if this machine has no network at all.
    """
    port = PairingPort(me, secret, on_try, step_s)
    try:
        await port.open()
        yield port
    finally:
        await port.close()


def _host(writer: asyncio.StreamWriter) -> str:
    return str((writer.get_extra_info("peername") or ("",))[0])


def _sockets(is_on_loopback: bool) -> list[socket.socket]:
    """Bound sockets on one port number: the preferred one, or any that is free."""
    if is_on_loopback:
        return [_bound(socket.AF_INET, "127.0.0.1", 0)]
    try:
        first = _bound(socket.AF_INET, "0.0.0.0", PREFERRED_PORT)
    except PairingFailed:
        first = _bound(socket.AF_INET, "0.0.0.0", 0)
    sockets = [first]
    with contextlib.suppress(PairingFailed):
        sockets.append(_bound(socket.AF_INET6, "::", first.getsockname()[1]))
    return sockets


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        raise PairingFailed("This machine has no network of this kind.") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        taken = "It is taken." if error.errno == errno.EADDRINUSE else f"{error.strerror}."
        raise PairingFailed(f"Port {port} cannot be used for pairing: {taken}") from None
    return sock
