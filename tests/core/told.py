"""Short words for a conversation with a scheduler: tell it an event, see its commands."""

from random import Random
from typing import Any

from pairproxy.core.commands import Command, Dispatch, Enqueue, Refuse
from pairproxy.core.documents import EngineReport, EngineState, ReplicaState, StateDocument
from pairproxy.core.errors import PairproxyError
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    EngineReported,
    EngineSettled,
    Event,
    FirstByteReceived,
    NodeLost,
    NodeReported,
    RequestAbandoned,
    RequestArrived,
    SpeedMeasured,
    TimePassed,
)
from pairproxy.core.models import (
    AttemptId,
    Dialect,
    EngineId,
    ModelName,
    NodeId,
    Outcome,
    Place,
    Rates,
    Replica,
    Request,
    RequestId,
    Usage,
)
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
GPU = EngineId("gpu")
M = ModelName("m:latest")
FAST = Rates(prefill=1000.0, decode=100.0, beta=0.15)
SLOW = Rates(prefill=250.0, decode=25.0, beta=0.15)


def at(node: NodeId, engine: EngineId = GPU) -> Place:
    """An engine of a node."""
    return Place(node, engine)


def ask(
    name: str,
    *,
    prompt: int = 100,
    limit: int | None = 100,
    model: ModelName = M,
    origin: NodeId | None = None,
    engine: EngineId | None = None,
    local_only: bool = False,
    path: str = "/v1/chat/completions",
    **facts: Any,
) -> Request:
    """A request by this id: 1.1 s of work on FAST, 4.4 s on SLOW. ``facts`` are the request's."""
    return Request(
        RequestId(name), model, Dialect.OPENAI, path, True, prompt, limit,
        origin=origin, engine=engine, local_only=local_only, **facts,
    )  # fmt: skip


def report(
    slots: int = 1,
    *,
    engine: EngineId = GPU,
    identity: str = "sha256:1",
    model: ModelName = M,
    kind: str = "paced",
    **facts: Any,
) -> EngineReport:
    """What probing an engine of this node told; ``facts`` are the replica's."""
    return EngineReport(engine, kind, "1", slots, ((Replica(model, identity, **facts), True),))


def document(
    node: NodeId,
    *,
    slots: int = 1,
    frees: tuple[float, ...] = (),
    rates: Rates = FAST,
    epoch: str = "1",
    sequence: int = 1,
    draining: bool = False,
    identity: str = "sha256:1",
    loaded: bool = True,
    model: ModelName = M,
    kind: str = "paced",
    version: str = "1",
    continues: bool = False,
    **facts: Any,
) -> StateDocument:
    """What a node publishes; ``frees``: seconds until each slot busy with others' requests is free.

    ``facts`` are the replica's.
    """
    replicas = (ReplicaState(Replica(model, identity, **facts), loaded, rates, continues),)
    engine = EngineState(GPU, kind, version, slots, len(frees), 0, frees, replicas)
    return StateDocument(node, node, 1, epoch, sequence, draining, 0, (engine,))


class Told:
    """The scheduler of node A, whose one engine runs at ``speed``; each method returns the commands."""

    def __init__(
        self,
        *,
        slots: int = 1,
        speed: Rates | None = SLOW,
        rules: Rules | None = None,
        random: Random | None = None,
    ) -> None:
        self.scheduler = Scheduler(A, rules, random)
        self.at = 0.0
        if speed is not None:
            usage = Usage(
                prompt_tokens=1000,
                output_tokens=1000,
                prefill_s=1000 / speed.prefill,
                decode_s=1000 / speed.decode,
            )
            self.tell(SpeedMeasured(self.at, GPU, M, usage))
            self.tell(EngineReported(self.at, report(slots)))

    def tell(self, event: Event) -> list[Command]:
        """Tell any event."""
        return self.scheduler.handle(event)

    def passes(self, seconds: float) -> list[Command]:
        """Time goes on."""
        self.at += seconds
        return self.tell(TimePassed(self.at))

    def wakes(self) -> list[Command]:
        """Time goes on to when the scheduler wanted to be woken."""
        wakeup = self.scheduler.next_wakeup(self.at)
        assert wakeup is not None
        self.at = wakeup
        return self.tell(TimePassed(self.at))

    def arrives(self, request: Request) -> list[Command]:
        """Somebody asks."""
        return self.tell(RequestArrived(self.at, request))

    def begins(self, name: str, number: int = 1, *, is_error: bool = False) -> list[Command]:
        """The first byte of a reply is here."""
        return self.tell(FirstByteReceived(self.at, AttemptId(RequestId(name), number), is_error))

    def finishes(
        self,
        name: str,
        number: int = 1,
        *,
        outcome: Outcome = Outcome.DONE,
        tokens: int | None = None,
        settled: bool = True,
    ) -> list[Command]:
        """A reply ends."""
        attempt = AttemptId(RequestId(name), number)
        return self.tell(AttemptFinished(self.at, attempt, outcome, Usage(output_tokens=tokens), settled))

    def fails(
        self, name: str, error: PairproxyError, number: int = 1, *, settled: bool = True
    ) -> list[Command]:
        """An attempt ends before its first byte."""
        return self.tell(AttemptFailed(self.at, AttemptId(RequestId(name), number), error, settled))

    def leaves(self, name: str, *, settled: bool = True) -> list[Command]:
        """The client hangs up."""
        return self.tell(RequestAbandoned(self.at, RequestId(name), settled))

    def settles(self, name: str, number: int = 1) -> list[Command]:
        """The engine is free of an attempt that was given up."""
        return self.tell(EngineSettled(self.at, AttemptId(RequestId(name), number)))

    def hears(self, told: StateDocument) -> list[Command]:
        """A peer's document arrives."""
        return self.tell(NodeReported(self.at, told))

    def loses(self, node: NodeId) -> list[Command]:
        """A peer is gone."""
        return self.tell(NodeLost(self.at, node))


def sent(commands: list[Command]) -> list[tuple[str, NodeId]]:
    """(request, node) of each dispatch, in order."""
    return [(one.attempt.request, one.decision.place.node) for one in commands if isinstance(one, Dispatch)]


def only_dispatch(commands: list[Command]) -> Dispatch:
    """The one command, which is a dispatch."""
    (command,) = commands
    assert isinstance(command, Dispatch)
    return command


def refused(commands: list[Command]) -> list[tuple[str, type[PairproxyError]]]:
    """(request, kind of error) of each refusal, in order."""
    return [(one.request, type(one.error)) for one in commands if isinstance(one, Refuse)]


def queued(commands: list[Command]) -> list[tuple[str, int]]:
    """(request, how many stand before it) of each request that is kept waiting."""
    return [(one.request, one.ahead) for one in commands if isinstance(one, Enqueue)]
