"""One life of a node in the storm (experiments.protocol): a real Scheduler, its ports, engines that count."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pairproxy.core.commands import Command
from pairproxy.core.documents import EngineReport, StateDocument
from pairproxy.core.events import EngineReported, Event, SpeedMeasured
from pairproxy.core.models import (
    AttemptId,
    Dialect,
    EngineId,
    NodeId,
    Place,
    Rates,
    Replica,
    Request,
    RequestId,
    Usage,
)
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler
from pairproxy.core.workload import ENGINE, MODEL

TOKENS = 512  # of the request by which an engine is measured
QUEUED = 64  # at one origin; the storm also sees full queues


@dataclass(slots=True, eq=False)
class Connection:
    """An attempt under way from its origin to a peer."""

    origin: "Life"
    attempt: AttemptId
    place: Place
    is_open: bool = True
    is_begun: bool = False

    @property
    def guest(self) -> RequestId:
        """The request as the peer port of its owner names it."""
        return RequestId(f"{self.origin.id}-{self.attempt.request}-{self.attempt.number}")


@dataclass(slots=True, eq=False)
class Work:
    """What an engine does for one attempt of its own daemon."""

    attempt: AttemptId
    engine: EngineId
    connection: Connection | None  # None: a client's of this node
    is_given_up: bool = False
    is_begun: bool = False


Perform = Callable[["Life", Command, float], None]
"""Carries out a command of a life."""


@dataclass(slots=True, eq=False)
class Life:
    """A daemon from its start to its end. ``told`` hears the events that come of commands."""

    id: NodeId
    epoch: int
    slots: int
    rates: Rates
    perform: Perform
    scheduler: Scheduler = field(init=False)
    is_over: bool = False
    sequence: int = 0
    alarm: float | None = None
    will_publish: bool = False
    works: dict[AttemptId, Work] = field(default_factory=dict)
    out: dict[AttemptId, Connection] = field(default_factory=dict)
    guests: dict[RequestId, Connection] = field(default_factory=dict)
    clients: set[RequestId] = field(default_factory=set)  # requests that arrived here and are not over
    heard_at: dict[NodeId, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.id, Rules(queue_limit=QUEUED, queue_timeout_s=60.0))

    def begin(self, at: float) -> None:
        """Find out about the own engine."""
        usage = Usage(
            prompt_tokens=TOKENS,
            output_tokens=TOKENS,
            prefill_s=TOKENS / self.rates.prefill,
            decode_s=TOKENS / self.rates.decode,
        )
        self.tell(SpeedMeasured(at, ENGINE, MODEL, usage))
        self.tell(self.probed(at))

    def probed(self, at: float) -> EngineReported:
        """What the monitor of its engine says."""
        replica = Replica(MODEL, "sha256:0")
        return EngineReported(at, EngineReport(ENGINE, "paced", "", self.slots, ((replica, True),)))

    def tell(self, event: Event) -> list[Command]:
        """Tell the scheduler, and do what it says."""
        commands = self.scheduler.handle(event)
        for command in commands:
            self.perform(self, command, event.at)
        return commands

    def document(self, reader: NodeId, at: float) -> StateDocument:
        """What it says of itself to a reader."""
        self.sequence += 1
        return self.scheduler.document_for(reader, str(self.epoch), self.sequence, self.id, at)

    def held(self, engine: EngineId) -> int:
        """Slots of an engine that hold something."""
        return sum(work.engine == engine for work in self.works.values())

    def faults(self, at: float) -> list[str]:
        """What is wrong with its books, compared with what really runs."""
        own = {running.attempt for running in self.scheduler.running if running.place.node == self.id}
        there = {running.attempt for running in self.scheduler.running if running.place.node != self.id}
        found = []
        if own != set(self.works):
            found.append(f"{self.id}: {len(own)} counted as running here, {len(self.works)} run")
        if there != set(self.out):
            found.append(
                f"{self.id}: {len(there)} counted as running at peers, {len(self.out)} are under way"
            )
        live = [work.attempt.request for work in self.works.values() if not work.is_given_up]
        live += [attempt.request for attempt in self.out]
        if len(live) != len(set(live)):
            found.append(f"{self.id}: a request runs twice")
        if (self.scheduler.next_wakeup(at) or at + 1.0) <= at:
            found.append(f"{self.id}: wants to be woken in the past")
        return found


def request(
    name: RequestId, tokens: int, limit: int | None, client: str, origin: NodeId | None = None
) -> Request:
    """A request as a port hands it in; ``origin``: the peer that sent it."""
    return Request(
        id=name,
        model=MODEL,
        dialect=Dialect.OPENAI,
        path="/v1/chat/completions",
        is_streaming=True,
        prompt_tokens=tokens,
        max_output_tokens=limit,
        client=origin or client,
        origin=origin,
        engine=ENGINE,
    )
