"""A raw-socket engine whose bytes, chunk boundaries and timing the test controls.

A script is ``async def script(request, connection)``; it runs once per request and sends whatever it likes::

    async with FakeEngine(engine_scripts.ollama_chat([{"done": True}], gap_s=0.01)) as engine:
        ...  # engine.host, engine.port, engine.requests, engine.connections

Nothing is buffered or mended: what a script sends is what goes out. A script that raises fails the test when
the engine is left. ``in_thread(script)`` is the same in a thread of its own, for tests that are not async.
"""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, Self, cast

DEADLINE_S = 30.0  # of every wait of a test: far beyond what a loaded machine needs


@dataclass
class ParsedRequest:
    """One request as it arrived; ``raw`` is every byte of it, ``body`` what it decodes to."""

    method: str
    target: str
    version: str
    headers: list[tuple[bytes, bytes]]
    raw: bytes = b""
    body: bytes = b""
    connection: "EngineConnection | None" = None

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def header(self, name: str) -> bytes | None:
        """The first value of a header, None if it is absent."""
        return next((value for key, value in self.headers if key.lower() == name.lower().encode()), None)

    def json(self) -> Any:
        return json.loads(self.body)


class PeerLeft(Exception):
    """The client is gone; a script that was still sending ends."""


@dataclass(eq=False)
class EngineConnection(asyncio.Protocol):
    """The engine's end of one connection; scripts send and watch through it."""

    engine: "FakeEngine"
    number: int
    received: bytearray = field(default_factory=bytearray)
    left_at: float | None = None
    """Loop time at which the client's FIN or RST was seen."""

    def __post_init__(self) -> None:
        self._pending = bytearray()
        self._changed = asyncio.Event()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._transport: asyncio.Transport
        self._is_lost = False

    async def send(self, data: bytes, *, gap_s: float = 0.0) -> None:
        """Write exactly these bytes, wait until they left, then for ``gap_s``. Raises PeerLeft."""
        if self._is_lost or self._transport.is_closing():
            raise PeerLeft
        self._transport.write(data)
        await self._can_write.wait()
        if gap_s:
            await asyncio.sleep(gap_s)

    @property
    def is_blocked(self) -> bool:
        """Whether the client takes nothing of what was sent last."""
        return not self._can_write.is_set()

    def close(self) -> None:
        """End with FIN after what was sent."""
        self._transport.close()

    def reset(self) -> None:
        """End with RST."""
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    @property
    def is_stuck(self) -> bool:
        """Whether the client's sockets are full."""
        return not self._can_write.is_set()

    def pause(self) -> None:
        """Read nothing more, as an engine that hangs."""
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()

    async def peer_left(self, deadline_s: float = DEADLINE_S) -> float:
        """Wait for the client's FIN or RST; return the loop time of it. Raises TimeoutError."""
        async with asyncio.timeout(deadline_s):
            while self.left_at is None:
                await self._change()
        return self.left_at

    async def received_bytes(self, count: int, deadline_s: float = DEADLINE_S) -> None:
        """Wait until ``count`` bytes in all have come. Raises TimeoutError."""
        async with asyncio.timeout(deadline_s):
            while len(self.received) < count:
                await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.engine.tls is None:  # asyncio's TLS pauses for ever with a limit of 0
            self._transport.set_write_buffer_limits(0)
        self.engine._started(self)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._pending += data
        self._changed.set()

    def eof_received(self) -> bool:
        self._leave()
        return self._transport.get_extra_info("ssl_object") is None  # half-closed clients still get replies

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._can_write.set()
        self._leave()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def _leave(self) -> None:
        if self.left_at is None:
            self.left_at = asyncio.get_running_loop().time()
        self._changed.set()

    async def _take(self, found: Callable[[bytearray], int]) -> bytes:
        """Take bytes up to where ``found`` says they end; it returns -1 while there are too few."""
        while (end := found(self._pending)) < 0:
            if self.left_at is not None:
                raise PeerLeft
            await self._change()
        data = bytes(self._pending[:end])
        del self._pending[:end]
        return data

    async def serve(self) -> None:
        """Parse requests one after another and run the script for each, until either side is done."""
        with contextlib.suppress(PeerLeft):
            while not self._is_lost and not self._transport.is_closing():
                request = await self._read_head()
                if not self.engine.is_at_head:
                    await self.read_body(request)
                self.engine.requests.append(request)
                await self.engine.script(request, self)

    async def _read_head(self) -> ParsedRequest:
        raw = await self._take(lambda data: _after(data, b"\r\n\r\n"))
        line, *lines = raw[:-4].split(b"\r\n")
        method, target, version = line.decode("latin-1").split(" ")
        split = [one.split(b":", 1) for one in lines]
        headers = [(name, value.strip()) for name, value in split]
        return ParsedRequest(method, target, version, headers, raw, connection=self)

    async def read_body(self, request: ParsedRequest) -> None:
        """Complete ``raw`` and ``body``; only needed by scripts that run at the head."""
        if request.header("Transfer-Encoding") is not None:
            size = -1
            while size != 0:
                line = await self._take(lambda data: _after(data, b"\r\n"))
                size = int(line.split(b";")[0], 16)
                part = await self._take(_counts(size + 2))
                request.raw += line + part
                request.body += part[:-2]
            return
        body = await self._take(_counts(int(request.header("Content-Length") or 0)))
        request.raw += body
        request.body += body


def _counts(wanted: int) -> Callable[[bytearray], int]:
    return lambda data: wanted if len(data) >= wanted else -1


def _after(data: bytearray, mark: bytes) -> int:
    start = data.find(mark)
    return -1 if start < 0 else start + len(mark)


Script = Callable[[ParsedRequest, EngineConnection], Awaitable[None]]


class FakeEngine:
    """The listening engine; an Endpoint, and an async context manager.

    With ``is_at_head`` the script runs as soon as the head of a request is there, before its body.
    """

    def __init__(
        self,
        script: Script,
        *,
        tls: SSLContext | None = None,
        is_at_head: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.script = script
        self.is_at_head = is_at_head
        self.host = host
        self.port = port
        self.requests: list[ParsedRequest] = []
        self.connections: list[EngineConnection] = []
        self.tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self._server: asyncio.Server | None = None

    def address(self, path: str = "/") -> tuple[str, int]:
        return self.host, self.port

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}"

    @property
    def open_connections(self) -> int:
        """How many clients have not left."""
        return sum(1 for one in self.connections if one.left_at is None)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: EngineConnection(self, len(self.connections)), self.host, self.port, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop_listening()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self.connections:
            connection._transport.abort()
        if self._failures:
            raise self._failures[0]

    def stop_listening(self) -> None:
        """Refuse new connections; the open ones go on."""
        if self._server is not None:
            self._server.close()

    def _started(self, connection: EngineConnection) -> None:
        self.connections.append(connection)
        task = asyncio.get_running_loop().create_task(connection.serve(), name="fake engine")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failures.append(failure)


async def eventually(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Wait until ``condition()`` is true. Raises TimeoutError."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 any condition, also of code that sets no event
            await asyncio.sleep(0.002)
