"""Copies between two stand-ins for Ollama, with the real peer port and the pinned connection between them."""

import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from pairproxy.api.replication import CopyProgress
from pairproxy.clock import MonotonicClock
from pairproxy.config import Limits
from pairproxy.core.models import ModelName, NodeId
from pairproxy.replicating.copying import Copying
from pairproxy.replicating.holding import Holding
from pairproxy.replicating.ollama import Ollama
from pairproxy.replicating.source import Source
from pairproxy.security import tls
from pairproxy.upstreams import Reachable, Upstream
from tests.support.fake_engine import FakeEngine
from tests.support.node import Address, Node, identity
from tests.support.ollama_store import OllamaStore

WEIGHTS = random.Random(7).randbytes(3_000_000)  # three seconds at 1 MB/s; twelve parts for a stand-in


def yes(*_: object) -> bool:
    """Whatever is asked."""
    return True


def no(*_: object) -> bool:
    """Whatever is asked."""
    return False


@contextlib.asynccontextmanager
async def ollama_of(store: OllamaStore) -> AsyncIterator[tuple[Ollama, FakeEngine]]:
    """A store as the daemon asks it."""
    async with FakeEngine(store.script) as engine, reached(engine) as upstream:
        yield Ollama(upstream), engine


@contextlib.asynccontextmanager
async def reached(endpoint: Reachable) -> AsyncIterator[Upstream]:
    """An upstream, closed at the end."""
    upstream = Upstream(endpoint, limits=Limits())
    try:
        yield upstream
    finally:
        await upstream.close()


@contextlib.asynccontextmanager
async def holder(
    store: OllamaStore, may_use: Callable[[NodeId, ModelName], bool] = yes
) -> AsyncIterator[Upstream]:
    """Anna, who has ``store``, as her peer ben reaches her."""
    anna, ben = identity("anna"), identity("ben")
    async with ollama_of(store) as (ollama, engine):
        holding = Holding(lambda: [ollama], may_use, no, MonotonicClock().now)
        async with Node(engine, name="anna", serve_models=holding.answer) as node:
            port = await node.open_peer_port(ben)
            context = tls.client_context(ben, anna.certificate)
            upstream = Upstream(Address(port), limits=Limits(), tls=context, pin=anna.certificate)
            try:
                yield upstream
            finally:
                await upstream.close()


@dataclass
class Heard:
    """Takes the lines of a copy."""

    lines: list[CopyProgress] = field(default_factory=list)
    on_line: Callable[[CopyProgress], None] = lambda line: None
    came_bytes: int = 0  # from the holder

    async def __call__(self, line: CopyProgress) -> None:
        self.lines.append(line)
        self.on_line(line)

    @property
    def last(self) -> CopyProgress:
        return self.lines[-1]


async def copied(
    upstream: Upstream, ben: OllamaStore, model: str = "m:1", heard: Heard | None = None, limit: int = 0
) -> CopyProgress:
    """Copy a model to ben's store; the last line."""
    heard = heard or Heard()
    async with ollama_of(ben) as (ollama, _):
        source = Source("anna", upstream, model, no, limit)
        try:
            await Copying("BEN", ollama, model, source).run(heard)
        finally:
            heard.came_bytes = source.came_bytes
    return heard.last
