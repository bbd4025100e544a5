"""Legs: one workload, once, on a private cluster of paced engines, and what every engine says afterwards."""

import asyncio
import http.client
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import msgspec

from pairproxy.cli.bench.asking import Line, Reply, ask_all
from pairproxy.cli.bench.rig import Rig
from pairproxy.cli.bench.workloads import Workload
from pairproxy.cli.demo.cluster import Cluster, DemoNode
from pairproxy.core.accounting.services import percentile
from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import NodeId

LOG_LINES = 30  # a traceback
PAUSE_S = 0.3  # between legs: what is free again has been told to all, at 50 ms a document


@dataclass(frozen=True, slots=True)
class Leg:
    """One workload done once. Times are seconds in the workload's own time, fast-forward undone."""

    replies: tuple[Reply, ...]

    @property
    def makespan_s(self) -> float:
        """From the first request to the end of the last reply."""
        return max(one.ended_s for one in self.replies) - min(one.asked_s for one in self.replies)

    @property
    def ttfts_s(self) -> tuple[float, ...]:
        """Of each request."""
        return tuple(one.ttft_s for one in self.replies)

    def ttft(self, part: float) -> float:
        """The percentile of it, ``part`` in [0, 1]."""
        return percentile(self.ttfts_s, part) or 0.0

    def latency(self, part: float) -> float:
        """The percentile of the time from asking to the end of the reply."""
        return percentile([one.ended_s - one.asked_s for one in self.replies], part) or 0.0

    @property
    def mean_latency_s(self) -> float:
        """Of a request, or of a step of a chain."""
        return sum(one.ended_s - one.asked_s for one in self.replies) / len(self.replies)

    @property
    def hit_rate(self) -> float:
        """The part of all prompt tokens that engines found in their caches, by their own account."""
        return sum(one.cached_tokens for one in self.replies) / max(
            sum(one.prompt_tokens for one in self.replies), 1
        )

    @property
    def refused(self) -> float:
        """Attempts that were not the last of their request, of all attempts."""
        attempts = sum(one.attempts for one in self.replies)
        return (attempts - len(self.replies)) / attempts

    @property
    def per_node(self) -> Counter[str]:
        """Replies by the name of the node."""
        return Counter(one.node for one in self.replies)


class Bench:
    """A running cluster; an async context manager. Engines are paced ones (of()), or real ones."""

    def __init__(
        self, settings: Mapping[str, str], fast_forward: float = 1.0, *, is_real: bool = False
    ) -> None:
        """``settings``: as Cluster takes them. Real engines are told how long a reply may be (Line)."""
        self._cluster = Cluster(settings)
        self._fast_forward = fast_forward
        self._is_real = is_real
        self._model = ""
        self._legs = 0
        self._names: dict[str, str] = {}

    @classmethod
    def of(cls, rig: Rig, policy: str) -> "Bench":
        """The paced nodes of a rig under one policy."""
        return cls(rig.settings(policy), rig.fast_forward)

    async def __aenter__(self) -> "Bench":
        await self._cluster.__aenter__()
        status = await asyncio.to_thread(self._cluster.status, self.nodes[0])
        self._names = {node.node: node.name for node in status.nodes}
        self._model = next(node for node in status.nodes if node.is_self).engines[0].replicas[0].model
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self._cluster.__aexit__(*problem)

    @property
    def nodes(self) -> Sequence[DemoNode]:
        """The daemons."""
        return self._cluster.nodes

    async def run(self, workload: Workload, *, alone: str | None = None, hands_over: bool = False) -> Leg:
        """One leg on all nodes, or on the one that is named, or handed over to them as routers do (Line).

        Raises PairproxyError, alone or in a group.
        """
        self._legs += 1
        ports = {NodeId(node.name): port_of(node) for node in self.nodes}
        if alone is not None:
            ports = dict.fromkeys(ports, ports[NodeId(alone)])
        line = Line(
            ports=ports,
            model=self._model,
            run=f"leg-{self._legs}",
            nonce=secrets.token_hex(4),
            fast_forward=self._fast_forward,
            is_local_only=alone is not None,
            is_limited=self._is_real,
            hands_over=hands_over,
        )
        try:
            replies = await ask_all(workload.requests, line)
        except* PairproxyError as errors:
            if faults := await asyncio.to_thread(self._faults):
                raise PairproxyError(faults) from errors
            raise
        await asyncio.sleep(PAUSE_S)
        await asyncio.to_thread(self._check_engines)
        return Leg(tuple(replace(one, node=self._names.get(one.node, one.node)) for one in replies))

    def _faults(self) -> str:
        """The last fault in the log of a daemon that has one: the log goes with the cluster. "": none has."""
        for node in self.nodes:
            log = (node.home / "log").read_text(errors="replace").splitlines()
            if fault := _last_fault(log):
                return "\n".join((f"{node.name} has a fault, please report it:", *fault[-LOG_LINES:]))
        return ""

    def _check_engines(self) -> None:
        """No engine ever held more than its slots: each says so itself. Raises PairproxyError."""
        for node in self.nodes:
            props = ask_json(port_of(node), "/props")
            held, slots = props.get("most_at_once", 0), props["total_slots"]  # others do not tell the first
            if held > slots:
                raise PairproxyError(
                    f"The engine of {node.name} was given {held} requests at once and has {slots} slots: "
                    "a fault of the scheduler. Please report it."
                )


def _last_fault(log: Sequence[str]) -> Sequence[str]:
    """The lines of its last traceback, down to the error; none if there is none.

    A logged one is indented, and lines for requests may follow.
    """
    begins = [number for number, line in enumerate(log) if line.lstrip().startswith("Traceback")]
    if not begins:
        return ()
    first = begins[-1]
    inner = log[first][: -len(log[first].lstrip())] + " "
    inside = list(takewhile(lambda line: line.startswith(inner), log[first + 1 :]))
    return log[first : first + len(inside) + 2]


def port_of(node: DemoNode) -> int:
    """The client port of a node's only engine."""
    return next(iter(node.file.client_ports.values()))


def ask_json(port: int, path: str) -> Mapping[str, int]:
    """What an engine answers on a path that is passed on to it untouched."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10.0)
    try:
        connection.request("GET", path)
        answer: Mapping[str, int] = msgspec.json.decode(connection.getresponse().read())
        return answer
    finally:
        connection.close()
