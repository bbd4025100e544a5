"""A node without its daemon: the real scheduler, dispatcher, ports and upstreams before fake engines."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

from pairproxy.clock import MonotonicClock
from pairproxy.config import Limits
from pairproxy.core.accounting.ledger import Ledger, RequestRecord
from pairproxy.core.commands import Command
from pairproxy.core.documents import (
    PROTOCOL,
    CatalogueEntry,
    EngineReport,
    EngineState,
    ReplicaState,
    StateDocument,
)
from pairproxy.core.errors import Unreachable
from pairproxy.core.events import CatalogueReported, EngineReported, Event, NodeLost, NodeReported
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, Rates, Replica
from pairproxy.core.residency import Residency
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher
from pairproxy.peers.exchange import Publisher
from pairproxy.proxy.catalogue import Catalogue
from pairproxy.proxy.client_port import ClientPort
from pairproxy.proxy.forward import Route
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.peer_port import PeerPort, ServeModels
from pairproxy.proxy.unloading import Unloading
from pairproxy.security import tls
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.upstreams import Reachable, Upstream
from tests.support.fake_engine import FakeEngine, Script, eventually

ENGINE = EngineId("engine")
MODEL = ModelName("m:1")
REPLICA = Replica(MODEL, "sha256:one")
FAST = Rates(prefill=1e6, decode=1e4, beta=0.1)

_sequence = itertools.count(1)


@cache
def identity(name: str) -> Identity:
    """A key of its own for each name, made once a session."""
    return load_or_create(Path(mkdtemp(prefix="pairproxy-test-")) / name)


class Address:
    """An endpoint at one port of loopback."""

    def __init__(self, port: int) -> None:
        self._port = port

    def address(self, path: str) -> tuple[str, int]:
        return "127.0.0.1", self._port


class Settling:
    """Stands for engine.settled(): returns when ``release`` is called."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self._released = asyncio.Event()

    async def __call__(self, engine: EngineId, others: int) -> None:
        self.calls.append(others)
        await self._released.wait()

    def release(self) -> None:
        self._released.set()


async def settled_at_once(engine: EngineId, others: int) -> None:
    """An engine that drops a request the moment its client is gone."""


class Node:
    """One node; an async context manager that owns all of its tasks."""

    def __init__(
        self,
        engine: Reachable,
        *,
        name: str = "anna",
        slots: int = 1,
        limits: Limits | None = None,
        rules: Rules | None = None,
        settle: Callable[[EngineId, int], Awaitable[None]] = settled_at_once,
        models: Iterable[Replica] = (REPLICA,),
        shows_headers: bool = False,
        kind: str = "ollama",
        catalogue: Iterable[CatalogueEntry] = (),
        is_merged: bool = True,
        engine_kind: str = "paced",
        continues: bool = False,
        serve_models: ServeModels | None = None,
    ) -> None:
        self.identity = identity(name)
        self.id = self.identity.device_id
        self.limits = limits or Limits()
        self.ledger = Ledger()
        self.scheduler = Scheduler(self.id, rules)
        self.dispatcher = Dispatcher(self.scheduler, MonotonicClock(), settle, self._spawn)
        self.residency = Residency(self.id)
        self.dispatcher.listen(self.ledger.record)
        self.dispatcher.listen(self.residency.heard)
        self.paired: dict[bytes, NodeId] = {}
        self.refusals: list[tuple[NodeId, bytes]] = []
        self.port = self.peer_port_number = 0
        self._engine = engine
        replicas = tuple((one, True) for one in models)
        report = EngineReport(ENGINE, engine_kind, "1", slots, replicas, tuple(catalogue))
        self._report = replace(report, continuing=frozenset(one.model for one in models if continues))
        self._is_merged, self._serve_models = is_merged, serve_models
        self._shows_headers = shows_headers
        self._kind = kind
        self._peers: dict[NodeId, Upstream] = {}
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def records(self) -> tuple[RequestRecord, ...]:
        """The ledger: one record per request that ended."""
        return self.ledger.records

    async def recorded(self, count: int = 1) -> tuple[RequestRecord, ...]:
        """Wait until ``count`` requests have ended."""
        await eventually(lambda: len(self.records) >= count)
        return self.records

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self.upstream = Upstream(self._engine, limits=self.limits)
        route = self._route()
        unloading = Unloading(self.residency, route, self._spawn)
        self.catalogue = Catalogue(
            self.scheduler, route, self.limits, self.dispatcher.now, is_merged=self._is_merged
        )
        self.client_port = ClientPort(
            self.id,
            ENGINE,
            self.dispatcher,
            route,
            self.limits,
            Gate("testhost"),
            unloading,
            self._kind,
            self.catalogue,
        )
        publisher = Publisher(self.scheduler, "test", self.dispatcher.now, 0.5)
        self.dispatcher.listen(publisher.heard)
        self.peer_port = PeerPort(
            self.dispatcher,
            route,
            self.limits,
            self.paired.get,
            publisher.stream,
            lambda _: "engine.test",
            self.residency,
            self.catalogue,
            publisher.refusal,
            self._serve_models,
            lambda: sum(self.scheduler.local.slots().values()),
        )
        (sock,) = bind("127.0.0.1", 0, "")
        self.port = port_of(sock)
        await self.client_port.start(sock)
        self.dispatcher.tell(EngineReported(self.dispatcher.now(), self._report))
        return self

    async def __aexit__(self, *failure: Any) -> None:
        await self.client_port.stop()
        await self.peer_port.stop()
        self.dispatcher.close()
        for task in self._tasks:
            task.cancel()
        for upstream in (self.upstream, *self._peers.values()):
            await upstream.close()
        await self._group.__aexit__(*failure)

    # --- peers ------------------------------------------------------------------------------------------

    async def open_peer_port(self, *trusted: "Node | Identity") -> int:
        """Listen for these peers by mutual TLS; returns the port."""
        known = [one.identity if isinstance(one, Node) else one for one in trusted]
        self.paired.update({one.certificate: one.device_id for one in known})
        (sock,) = bind("127.0.0.1", 0, "")
        self.peer_port_number = port_of(sock)
        context = tls.server_context(self.identity, [one.certificate for one in known])
        await self.peer_port.start(sock, context)
        return self.peer_port_number

    def reach(self, peer: Identity, port: int) -> None:
        """Send requests for this peer to a port of loopback, pinned."""
        context = tls.client_context(self.identity, peer.certificate)
        self._peers[peer.device_id] = Upstream(
            Address(port), limits=self.limits, tls=context, pin=peer.certificate
        )

    async def pair(self, other: "Node") -> None:
        """Let this node use ``other``, and hear of it now and on each change."""
        self.reach(other.identity, await other.open_peer_port(self))
        self.hear(other)
        loop = asyncio.get_running_loop()

        def changed(event: Event, commands: list[Command]) -> None:
            if not isinstance(event, NodeReported):
                loop.call_soon(self.hear, other)

        other.dispatcher.listen(changed)

    def hear(self, other: "Node") -> None:
        """Take in the other node's state document as it is now."""
        at = self.dispatcher.now()
        document = other.scheduler.document_for(self.id, "epoch", next(_sequence), "other", at)
        self.dispatcher.tell(NodeReported(at, document))
        if document.catalogue != self.scheduler.nodes.catalogues.content(document.node):
            self.dispatcher.tell(CatalogueReported(at, other.scheduler.local.catalogue()))

    def hear_of(self, peer: Identity, slots: int = 1, rates: Rates = FAST) -> None:
        """Take in a made-up state document of a peer that is no Node."""
        state = EngineState(ENGINE, "paced", "1", slots, 0, 0, (), (ReplicaState(REPLICA, True, rates),))
        document = StateDocument(
            peer.device_id, "raw", PROTOCOL, "epoch", next(_sequence), False, 0, engines=(state,)
        )
        self.dispatcher.tell(NodeReported(self.dispatcher.now(), document))

    def lose(self, peer: Identity) -> None:
        """Its heartbeat stopped."""
        self.dispatcher.tell(NodeLost(self.dispatcher.now(), peer.device_id))

    # --- what the parts are handed -----------------------------------------------------------------------

    def _route(self) -> Route:
        return Route(
            self._upstream,
            lambda place: place.node != self.id,
            self._shows_headers,
            lambda node, body: self.refusals.append((node, body)),
            self.scheduler.is_up,
            self.scheduler.is_lost,
            self.limits,
        )

    def _upstream(self, place: Place) -> Upstream:
        if place.node == self.id:
            return self.upstream
        if place.node not in self._peers:
            raise Unreachable("This node is not paired.")
        return self._peers[place.node]

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@contextlib.asynccontextmanager
async def node_before(script: Script, **options: Any) -> Any:
    """A fake engine with this script and a node before it: yields (node, engine)."""
    async with FakeEngine(script) as engine, Node(engine, **options) as node:
        yield node, engine
