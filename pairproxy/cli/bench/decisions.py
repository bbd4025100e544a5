"""What deciding costs: the scheduler with a full queue, and a daemon with nothing to do."""

import asyncio
import time
from statistics import mean

import psutil

from pairproxy.cli.bench.legs import Bench
from pairproxy.cli.bench.rig import Rig, equal
from pairproxy.cli.bench.tables import Row
from pairproxy.core.commands import Command, Dispatch
from pairproxy.core.documents import EngineState, ReplicaState, StateDocument
from pairproxy.core.events import AttemptFinished, Event, NodeReported, RequestArrived
from pairproxy.core.models import AttemptId, EngineId, NodeId, Outcome, Rates, Replica, RequestId, Usage
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler
from pairproxy.core.simulated_request import request_of
from pairproxy.core.workload import MODEL, SimRequest

QUEUED = 256  # requests: the usual limit
SLOTS = 4  # of each node
TURNS = 40  # a request comes and a reply ends, as often as it takes for a steady mean
IDLE_S = 10.0  # watched
CORE_PART = 0.005  # of a core that an idle daemon may take


def decisions() -> list[Row]:
    """Milliseconds of processor time to hear of an arrival or an end, and to plan, with a full queue."""
    return [
        Row(f"{QUEUED} queued, {nodes} nodes: a decision", decision_s(nodes) * 1e3, "<", target, "ms")
        for nodes, target in ((8, 5.0), (32, 20.0))
    ]


def decision_s(nodes: int) -> float:
    """The mean, in seconds, over TURNS arrivals and as many ends of replies."""
    full = _Full(nodes)
    return mean(full.arrive() + full.end_one() for _ in range(TURNS)) / 2


class _Full:
    """An origin whose peers are all busy with its requests, and as many wait as may."""

    def __init__(self, nodes: int) -> None:
        self._at = 0.0
        self._asked = 0
        self._running: list[AttemptId] = []
        self._scheduler = Scheduler(NodeId("origin"), Rules(queue_limit=QUEUED + 1))
        for number in range(nodes):
            self._tell(NodeReported(self._at, _document(number)))
        for _ in range(nodes * SLOTS + QUEUED - 1):
            self.arrive()

    def arrive(self) -> float:
        """One more request, each of another length; seconds of processor time that it takes to plan it."""
        self._asked += 1
        wanted = SimRequest(self._at, NodeId("origin"), 200 + 37 * self._asked % 3000, 300)
        return self._tell(RequestArrived(self._at, request_of(RequestId(f"r{self._asked}"), wanted)))

    def end_one(self) -> float:
        """A reply ends; seconds of processor time to decide what goes next."""
        self._at += 0.05
        attempt = self._running.pop(0)
        usage = Usage(prompt_tokens=500, output_tokens=300)
        return self._tell(AttemptFinished(self._at, attempt, Outcome.DONE, usage))

    def _tell(self, event: Event) -> float:
        began = time.thread_time()  # not the clock on the wall: others may use this machine
        commands: list[Command] = self._scheduler.handle(event)
        took = time.thread_time() - began
        self._running += [one.attempt for one in commands if isinstance(one, Dispatch)]
        return took


def _document(number: int) -> StateDocument:
    speed = 1.0 + number % 4
    replica = ReplicaState(Replica(MODEL, "sha256:0"), True, Rates(500.0 * speed, 30.0 * speed, 0.15))
    engine = EngineState(EngineId("gpu"), "paced", "", SLOTS, 0, 0, (), (replica,))
    node = f"{number:02d}-node"
    return StateDocument(NodeId(node), node, 1, "1", 1, False, 0, (engine,))


async def idle() -> Row:
    """The part of a core that one of three connected daemons takes while nobody asks."""
    async with Bench.of(Rig(equal(3)), "fastest-finish") as bench:
        processes = [psutil.Process(node.process.pid) for node in bench.nodes]
        before = sum(map(_cpu_s, processes))
        await asyncio.sleep(IDLE_S)
        used = (sum(map(_cpu_s, processes)) - before) / len(processes) / IDLE_S
    return Row("an idle daemon of three: of a core", used, "<", CORE_PART, "%")


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
