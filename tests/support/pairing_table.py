"""A machine that waits for a code, one that may type it, and connections that nobody speaks for."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from pairproxy.core.handshake_steps import Failed
from pairproxy.peers.pairing import Exchange
from pairproxy.peers.pairing_frames import read_frame
from pairproxy.peers.pairing_host import PairingPort, opened
from pairproxy.peers.pairing_joiner import join
from pairproxy.peers.pairing_mdns import Candidate
from pairproxy.security.pairing import Secret, new_code, read_secret
from tests.support.pairing import is_stranger, me_of
from tests.support.running import run_async

WAIT_S = 10.0


class Table:
    """Anna waits, Ben may join, and strangers may connect."""

    def __init__(self, directory: Path) -> None:
        self.anna, self.ben = me_of(directory, "anna"), me_of(directory, "ben")
        self.secret = new_code()
        self.failures: list[Failed] = []
        self.told: list[str] = []
        self.was_forgotten = False
        self.port: PairingPort

    async def exchange(self, text: str | None = None) -> Exchange:
        """Ben types a code (the right one); the exchange that settled."""

        async def only() -> AsyncGenerator[Candidate, None]:
            yield Candidate(("127.0.0.1",), self.port.port)

        return await join(self.ben, read_secret(text or self.secret.text), only(), self.told.append)

    async def join(self, text: str | None = None) -> str:
        """Ben types a code (the right one); the name that he has stored then."""
        exchange = await self.exchange(text)
        assert exchange.record is not None
        await exchange.close()
        return exchange.record.name

    async def pair(self) -> Exchange:
        """Ben types the right code while Anna waits; her exchange, its connection closed."""
        on_ben, on_anna = await asyncio.gather(self.exchange(), self.port.paired())
        await asyncio.gather(on_ben.close(), on_anna.close())
        return on_anna

    async def raw(self) -> "Raw":
        """A connection that nobody speaks for."""
        return Raw(*await asyncio.open_connection("127.0.0.1", self.port.port))

    async def turn(self, message: bytes) -> "tuple[Raw, bytes | None]":
        """A connection that has sent ``message`` and was not told that another one has the turn."""
        async with asyncio.timeout(WAIT_S):
            while True:
                raw = await self.raw()
                raw.send(message)
                answer = await raw.hear()
                if answer != b"Rbusy":
                    return raw, answer
                await raw.close()

    def run(
        self,
        act: Callable[["Table"], Awaitable[None]],
        *,
        step_s: float = 5.0,
        secret: Secret | None = None,
    ) -> None:
        """Open the port, let ``act`` happen, close it."""

        async def whole() -> None:
            self.secret = secret or self.secret
            async with opened(self.anna, self.secret, self.failures.append, step_s=step_s) as self.port:
                await act(self)

        run_async(whole(), timeout=40.0)

    @property
    def is_nothing_kept(self) -> bool:
        return is_stranger(self.anna, self.ben) and is_stranger(self.ben, self.anna)


class Raw:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: bytes) -> None:
        self._writer.write(len(message).to_bytes(2, "big") + message)

    def send_bytes(self, content: bytes) -> None:
        self._writer.write(content)

    async def hear(self) -> bytes | None:
        return await read_frame(self._reader, WAIT_S)

    async def until_closed(self) -> bytes:
        """All that still comes, up to the end of the connection."""
        async with asyncio.timeout(WAIT_S):
            return await self._reader.read(-1)

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
