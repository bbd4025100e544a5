"""Three real daemons, a cable between each two, and somebody who breaks both at random, by a seed."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from random import Random

from pairproxy.api.client import NoDaemon
from pairproxy.core.errors import PairproxyError
from pairproxy.security.identity import load_or_create
from pairproxy.security.peer_record import PeerRecord
from pairproxy.security.trust import TrustStore
from tests.support.cutting import Cable
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.free_ports import free_port

NAMES = "ABC"
SLOTS = 4
LOST_S = 5.0  # limits.node_lost_s
LONG_S = 8.0  # a fault that every node must notice
WATCHED_S = 0.2  # between two looks at whether it did


@dataclass
class Fault:
    """Something broken on purpose. ``nodes``: which node, or between which two."""

    kind: str
    nodes: frozenset[str]
    began_at: float
    ended_at: float = float("inf")
    is_long: bool = False  # so long that it must be noticed
    noticed_s: float | None = None


@dataclass
class Life:
    """One life of a daemon, and what its ledger held when it was looked at last."""

    node: Node
    number: int
    run: str
    asked: int = 0  # requests that clients sent to it
    records: dict[str, str] = field(default_factory=dict)  # request id -> outcome
    rss_bytes: int = 0
    descriptors: int = 0


class Cluster:
    """Nodes A, B and C; an async context manager around ``daemons``."""

    def __init__(self, daemons: Daemons, *, continuation: bool = False) -> None:
        self.daemons = daemons
        self._routing = {"continuation": continuation}
        self.lives: dict[str, Life] = {}
        self.past: list[Life] = []
        self.up: set[str] = set()  # nodes that were not killed, or are there again
        self.faults: list[Fault] = []
        self.cables: dict[tuple[str, str], Cable] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Cluster"]:
        """Cables, trust by way of them, and three daemons that hear each other."""
        ports = {name: free_port() for name in NAMES}
        async with contextlib.AsyncExitStack() as stack:
            for one, other in permutations(NAMES, 2):
                cable = self.cables[one, other] = Cable(ports[other])
                await stack.enter_async_context(cable)
            homes = {name: self._home(name, port) for name, port in ports.items()}
            identities = {name: load_or_create(home) for name, home in homes.items()}
            for (one, other), cable in self.cables.items():
                trust = TrustStore(homes[one], identities[one].device_id)
                trust.load()
                who, address = identities[other], f"127.0.0.1:{cable.port}"
                trust.add(PeerRecord(who.device_id, other, who.certificate, True, True, (address,)))
            await asyncio.gather(*(self.start(name) for name in NAMES))
            await self.until_whole()
            yield self

    def _home(self, name: str, peer_port: int) -> Path:
        peers = {"listen": f"127.0.0.1:{peer_port}", "discovery": False}
        paced = {"decode": 100.0}
        return self.daemons.home(name, settings(slots=SLOTS, paced=paced, peers=peers, routing=self._routing))

    async def start(self, name: str) -> None:
        """Begin another life of a node."""
        before = self.lives.get(name)
        node = self.daemons.launch(name)
        number = before.number + 1 if before else 0
        self.lives[name] = Life(node, number, f"chaos-{name}-{number}")
        await self.until(lambda: self._is_ready(node), f"{name} starts")
        self.up.add(name)

    async def until(self, ask: Callable[[], object], what: str) -> None:
        """Wait in a thread, as the cables are carried by this loop."""
        await asyncio.to_thread(until, lambda: ask() or None, what, 60.0)

    @staticmethod
    def _is_ready(node: Node) -> bool:
        assert node.process.poll() is None, node.log
        with contextlib.suppress(NoDaemon):
            return node.file.pid == node.pid and bool(node.status())
        return False

    async def until_whole(self) -> None:
        """Every node sees all others up, with their models."""
        for life in self.lives.values():
            await self.until(lambda life=life: self._sees_all(life.node), f"{life.node.name} sees all")  # type: ignore[misc]

    @staticmethod
    def _sees_all(node: Node) -> bool:
        nodes = node.status().nodes
        return len(nodes) == len(NAMES) and all(
            one.is_up and any(engine.replicas for engine in one.engines) for one in nodes
        )

    async def look(self, name: str) -> None:
        """Take down what a node's ledger holds."""
        life = self.lives[name]
        with contextlib.suppress(PairproxyError):
            report = await asyncio.to_thread(life.node.report, life.run)
            ids = [record.request for record in report.records]
            assert len(ids) == len(set(ids)), "a request has two records"
            life.records = {record.request: record.outcome for record in report.records}

    def touching(self, nodes: Iterable[str], since: float, till: float) -> list[Fault]:
        """The faults of these nodes, or between them, that can have broken something at that time."""
        wanted = set(nodes)
        return [
            fault
            for fault in self.faults
            if fault.nodes <= wanted and fault.began_at <= till and fault.ended_at + LOST_S >= since
        ]


class Nemesis:
    """Breaks a cluster: one fault of a node and one of a cable at a time."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._over = asyncio.Event()

    def end(self) -> None:
        """Let run() return once what is broken now is mended."""
        self._over.set()

    async def run(self) -> None:
        """Go on until it is to end."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._for_ever(self._kill, self._stop))
            group.create_task(self._for_ever(self._cut, self._reset))

    async def _for_ever(self, *ways: Callable[[], object]) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), self._random.uniform(0.5, 3.0))
                return
            await self._random.choice(ways)()  # type: ignore[misc]

    @contextlib.asynccontextmanager
    async def _fault(self, kind: str, nodes: Iterable[str], *, is_long: bool) -> AsyncIterator[None]:
        fault = Fault(kind, frozenset(nodes), time.monotonic(), is_long=is_long)
        self._cluster.faults.append(fault)
        watching = asyncio.create_task(self._watch(fault)) if is_long else None
        try:
            yield
        finally:
            fault.ended_at = time.monotonic()
            if watching is not None:
                watching.cancel()
                await asyncio.wait([watching])

    async def _watch(self, fault: Fault) -> None:
        """Note when the other side sees the node down."""
        lives = self._cluster.lives
        observer = min(set(NAMES) - fault.nodes if len(fault.nodes) == 1 else fault.nodes)
        watched = max(fault.nodes - {observer})
        node, other = lives[observer].node, lives[watched].node.id
        while True:
            with contextlib.suppress(NoDaemon, StopIteration):
                seen = await asyncio.to_thread(lambda: next((
                    one.is_up for one in node.status().nodes if one.node == other), True))  # fmt: skip
                if not seen:
                    fault.noticed_s = time.monotonic() - fault.began_at
                    return
            await asyncio.sleep(WATCHED_S)

    async def _kill(self) -> None:
        name = self._random.choice(NAMES)
        cluster = self._cluster
        await cluster.look(name)
        life = cluster.lives[name]
        async with self._fault("kill -9", name, is_long=False):
            cluster.up.discard(name)
            await asyncio.to_thread(life.node.kill)
            cluster.past.append(life)
            await asyncio.sleep(self._random.choice([0.0, 0.5, 2.0]))
            await cluster.start(name)

    async def _stop(self) -> None:
        name = self._random.choice(NAMES)
        node = self._cluster.lives[name].node
        for_s = self._random.choice([0.5, 2.0, LONG_S])
        async with self._fault("SIGSTOP", name, is_long=for_s == LONG_S):
            node.send(signal.SIGSTOP)
            try:
                await asyncio.sleep(for_s)
            finally:
                node.send(signal.SIGCONT)

    async def _cut(self) -> None:
        one, other = self._random.sample(NAMES, 2)
        for_s = self._random.choice([0.5, 2.0, LONG_S])
        is_one_way = self._random.random() < 0.3
        cables = self._cluster.cables
        kind = "one-way partition" if is_one_way else "silent partition"
        async with self._fault(kind, (one, other), is_long=for_s == LONG_S and not is_one_way):
            cables[one, other].silence(there=True, back=not is_one_way)
            cables[other, one].silence(there=not is_one_way, back=True)
            try:
                await asyncio.sleep(for_s)
            finally:
                cables[one, other].mend()
                cables[other, one].mend()

    async def _reset(self) -> None:
        one, other = self._random.sample(NAMES, 2)
        async with self._fault("reset", (one, other), is_long=False):
            cables = [self._cluster.cables[one, other], self._cluster.cables[other, one]]
            for cable in cables:
                cable.reset()
            try:
                await asyncio.sleep(self._random.choice([0.0, 1.0, 3.0]))
            finally:
                for cable in cables:
                    cable.mend()
