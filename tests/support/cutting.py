"""A network cable between two nodes that can be cut: silently, in one direction, or with a reset.

async with Cable(port_of_b) as cable:       # A is told that B is at cable.port
    cable.silence(there=True, back=False)   # what A sends no longer arrives; what B sends does
    cable.mend()
    cable.reset(); ...; cable.mend()        # all connections break, new ones are refused
"""

import asyncio
import contextlib
import socket
import struct
from typing import Any, Self

CHUNK_BYTES = 65536
CONNECT_S = 5.0


class Cable:
    """A TCP relay to one port of loopback; an async context manager. ``carried`` counts bytes."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.carried = 0
        self._target = target
        self._there, self._back = asyncio.Event(), asyncio.Event()
        self._is_refusing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.mend()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.reset()
        self._there.set()
        self._back.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2 * CONNECT_S)
        await self._server.wait_closed()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._writers) // 2

    def silence(self, *, there: bool = True, back: bool = True) -> None:
        """Carry nothing any more in these directions, and let nobody know."""
        for is_silent, gate in ((there, self._there), (back, self._back)):
            if is_silent:
                gate.clear()

    def reset(self) -> None:
        """Break every connection with RST, and each that comes."""
        self._is_refusing = True
        self._break_all()

    def mend(self) -> None:
        """Carry all again; what was sent meanwhile arrives now, as TCP would send it again."""
        self._is_refusing = False
        self._there.set()
        self._back.set()

    def _break_all(self) -> None:
        for writer in list(self._writers):
            _abort(writer)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if self._is_refusing:
                return
            await self._there.wait()
            async with asyncio.timeout(CONNECT_S):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(far_writer)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, far_writer, self._there))
                    group.create_task(self._pump(far_reader, writer, self._back))
            finally:
                _abort(far_writer)
                self._writers.discard(far_writer)
        except* (OSError, TimeoutError):
            pass
        finally:
            _abort(writer)
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await gate.wait()
            self.carried += len(data)
            writer.write(data)
            await writer.drain()
        await gate.wait()
        with contextlib.suppress(OSError):
            writer.write_eof()  # TLS has no half-close that anybody here uses: the other side closes, too


def _abort(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError, ValueError):  # it is closed already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
