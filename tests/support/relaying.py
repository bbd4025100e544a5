"""The client's side of a relay, and the shortest way from a script to a reply."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pairproxy.config import Limits
from pairproxy.upstreams import FunctionSink, Outgoing, Reply, Upstream
from tests.support.fake_engine import FakeEngine, Script

LIMITS = Limits()
GET = Outgoing("GET", "/", ((b"Host", b"engine"),))


def post(body: bytes, target: str = "/api/chat") -> Outgoing:
    """A POST with its Content-Length."""
    return Outgoing("POST", target, ((b"Host", b"engine"), (b"Content-Length", b"%d" % len(body))), body)


class Sink:
    """A client that takes everything; ``capacity`` bytes fit until somebody calls ``take``."""

    def __init__(self, capacity: int | None = None) -> None:
        self.writes: list[bytes] = []
        self.parts: list[bytes] = []
        self.waiting = 0
        self.drains = 0
        self._capacity = capacity
        self._taken = asyncio.Event()

    @property
    def raw(self) -> bytes:
        return b"".join(self.writes)

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        if self._capacity is not None:
            self.waiting += len(data)

    def buffered(self) -> int:
        return self.waiting

    async def drain(self) -> None:
        self.drains += 1
        self._taken.clear()
        await self._taken.wait()

    def take(self) -> None:
        """The client read all that waited."""
        self.waiting = 0
        self._taken.set()

    async def relay(self, reply: Reply) -> None:
        await reply.relay(FunctionSink(self.write, self.parts.append, self.drain, self.buffered))


@contextlib.asynccontextmanager
async def upstream_of(engine: FakeEngine, limits: Limits = LIMITS) -> AsyncIterator[Upstream]:
    """An upstream on a fake engine, closed at the end."""
    upstream = Upstream(engine, limits=limits)
    try:
        yield upstream
    finally:
        await upstream.close()


@contextlib.asynccontextmanager
async def serving(script: Script, limits: Limits = LIMITS) -> AsyncIterator[tuple[FakeEngine, Upstream]]:
    """A fake engine with this script, and an upstream on it."""
    async with FakeEngine(script) as engine, upstream_of(engine, limits) as upstream:
        yield engine, upstream
