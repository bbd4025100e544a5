"""Scheduler.handle(event) -> commands: the queue at the origin, and the choice of a place for each request.

The rule, in the order of the code:

1. A request from a peer runs here, now, or is refused: it is never queued and never sent on.
2. A request of this machine waits in the one queue there is. On every event the plan walks the queue,
   oldest first, and prices each request at every place that holds its replica: waiting + load + prefill +
   decode seconds. The policy picks one.
3. A pick that is free now is dispatched. A pick that is busy is only noted in the plan: the request stays
   queued, where it can still go anywhere. So a slow free node stays idle unless using it finishes sooner.
4. An engine never holds more of our requests than its slots; a slot is charged until its engine is known
   to be free again, also after the client left.
5. An attempt that failed before its first byte goes back to the head of the queue without that place. A
   refusal (the slot went to somebody else) blames nobody and is planned again.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pairproxy.core.avoidance import Avoidance
from pairproxy.core.commands import BreakOff, Command, Dispatch, Enqueue, Refuse
from pairproxy.core.costs import Costs
from pairproxy.core.errors import (
    Draining,
    ModelNotFound,
    NodeGone,
    PairproxyError,
    QueueFull,
    QueueTimeout,
    SlotsTaken,
    UpstreamBusy,
)
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    EngineLost,
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
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import (
    AttemptId,
    Candidate,
    Decision,
    ModelName,
    NodeId,
    Outcome,
    Place,
    Rates,
    Request,
    RequestId,
    StateDocument,
)
from pairproxy.core.nodes import NodeTable
from pairproxy.core.policies import POLICIES
from pairproxy.core.pricing import Pricing
from pairproxy.core.running import Running, RunningTable

PROTOCOL = 1  # of the state document and of requests between nodes
MIN_WAKEUP_S = 0.01  # two wake-ups are never closer: rounding must not make the daemon spin
NOWHERE_S = 10.0  # how long a request waits for a model that some node had and none has now


@dataclass(frozen=True, slots=True)
class Rules:
    """What a person can set about scheduling."""

    policy: str = "fastest-finish"
    queue_limit: int = 256
    queue_timeout_s: float = 600.0
    attempts: int = 3


@dataclass(slots=True)
class _Waiting:
    request: Request
    arrived_at: float
    attempts: int = 0  # dispatched so far
    failures: int = 0
    excluded: set[Place] = field(default_factory=set)
    last_error: PairproxyError | None = None
    is_announced: bool = False  # whether Enqueue was said


class Scheduler:
    """The pure scheduler of one node. State has one owner: only handle() changes it."""

    def __init__(self, own: NodeId, rules: Rules | None = None) -> None:
        self.own = own
        self.rules = rules or Rules()
        self.local = LocalEngines(own, Costs())
        self.nodes = NodeTable()
        self.running = RunningTable()
        self._avoidance = Avoidance()
        self._pricing = Pricing(self.local, self.nodes, self.running, self._avoidance)
        self.is_draining = False
        self._queue: deque[_Waiting] = deque()
        self._served: dict[RequestId, _Waiting] = {}  # dispatched, not over
        self._turn = 0

    # --- the entrance -----------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Command]:
        """Take in what happened; answer what to do now, in order."""
        self.running.count_time(event.at)
        commands: list[Command] = []
        self._take_in(event, commands)
        self._refuse_overdue(event.at, commands)
        self._plan(event.at, commands)
        return commands

    def next_wakeup(self, at: float) -> float | None:
        """When handle(TimePassed) is due if nothing else happens before; None: never."""
        if not self._queue:
            return None
        times = [waiting.arrived_at + self._patience_s(waiting.request, at) for waiting in self._queue]
        times += [time for time in (self._avoidance.next_end(at), self.nodes.next_stale(at)) if time]
        return max(min(times), at + MIN_WAKEUP_S)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    def places(self, at: float) -> dict[Place, tuple[int, dict[ModelName, Rates]]]:
        """Every place that takes work now: its slots, and its rates for each model it holds."""
        return self._pricing.known_places(at)

    def document_for(self, reader: NodeId, epoch: str, sequence: int, name: str, at: float) -> StateDocument:
        """What this node publishes about itself to one peer."""
        return StateDocument(
            node=self.own,
            name=name,
            protocol=PROTOCOL,
            epoch=epoch,
            sequence=sequence,
            is_draining=self.is_draining,
            waiting=len(self._queue),
            engines=self.local.states(self.running, reader, at),
        )

    # --- events -----------------------------------------------------------------------------------------

    def _take_in(self, event: Event, commands: list[Command]) -> None:
        match event:
            case RequestArrived():
                self._arrive(event, commands)
            case RequestAbandoned():
                self._abandon(event)
            case FirstByteReceived(at, attempt):
                if (running := self.running.get(attempt)) is not None:
                    running.first_byte_at = at
                    self._avoidance.forgive(running.place)
            case AttemptFinished():
                self._finish(event)
            case AttemptFailed():
                self._fail(event, commands)
            case EngineSettled(_, attempt):
                self.running.remove(attempt)
            case EngineReported(_, report):
                self.local.report(report)
            case EngineLost(_, engine):
                self.local.lose(engine)
            case SpeedMeasured(_, engine, model, usage):
                self.local.costs.learn(engine, model, usage, usage.prefill_s or 0.0, usage.decode_s or 0.0)
            case NodeReported(at, document):
                if self.nodes.report(document, at):
                    self._avoidance.hear(document)
            case NodeLost(_, node):
                self._lose(node, commands)
            case TimePassed():
                pass

    def _arrive(self, event: RequestArrived, commands: list[Command]) -> None:
        request = event.request
        waiting = _Waiting(request, event.at)
        if request.origin is not None:
            self._admit_guest(waiting, event.at, commands)
        elif not self._pricing.is_known(request):
            commands.append(Refuse(request.id, _no_such_model(request.model)))
        elif len(self._queue) >= self.rules.queue_limit:
            sentence = f"{len(self._queue)} requests are waiting already; try again in a moment."
            commands.append(
                Refuse(request.id, QueueFull(sentence, retry_after_s=self._retry_after(event.at)))
            )
        else:
            self._queue.append(waiting)

    def _admit_guest(self, waiting: _Waiting, at: float, commands: list[Command]) -> None:
        request = waiting.request
        if self.is_draining:
            commands.append(Refuse(request.id, Draining("This node takes no new work.")))
            return
        candidates = self._pricing.candidates(request, (), self._pricing.occupancies(at), at)
        free = [candidate for candidate in candidates if candidate.is_free]
        if not candidates:
            commands.append(Refuse(request.id, _no_such_model(request.model)))
        elif not free:
            commands.append(Refuse(request.id, SlotsTaken("All slots of this node are in use.")))
        else:
            self._dispatch(waiting, free, *self._pick(free), at, commands)

    def _abandon(self, event: RequestAbandoned) -> None:
        self._queue = deque(waiting for waiting in self._queue if waiting.request.id != event.request)
        self._served.pop(event.request, None)
        running = self.running.of_request(event.request)
        if running is not None:
            self._release(running, event.settled)

    def _finish(self, event: AttemptFinished) -> None:
        running = self.running.get(event.attempt)
        if running is None or running.is_settling:
            return
        self._served.pop(event.attempt.request, None)
        if (
            running.place.node == self.own
            and event.outcome is Outcome.DONE
            and running.first_byte_at is not None
        ):
            ttft_s = running.first_byte_at - running.dispatched_at
            self.local.costs.learn(
                running.place.engine, running.request.model, event.usage, ttft_s, running.alone_s
            )
        elif event.usage.output_tokens:
            self.local.costs.learn_output(running.request.model, event.usage.output_tokens)
        self._release(running, event.settled)

    def _fail(self, event: AttemptFailed, commands: list[Command]) -> None:
        running = self.running.get(event.attempt)
        waiting = self._served.pop(event.attempt.request, None)
        if running is None or waiting is None:
            return
        self._release(running, event.settled)
        if running.place.node != self.own or isinstance(event.error, UpstreamBusy):
            self._avoidance.blame(running.place, event.error, event.at)  # the monitor judges our own engines
        waiting.last_error = event.error
        if not isinstance(event.error, SlotsTaken):
            waiting.failures += 1
            waiting.excluded.add(running.place)
        is_over = (
            waiting.request.origin is not None
            or not event.error.may_retry
            or waiting.failures >= self.rules.attempts
            or not any(True for _ in self._pricing.places(waiting.request, waiting.excluded, event.at))
        )
        if is_over:
            commands.append(Refuse(waiting.request.id, event.error))
        else:
            waiting.is_announced = False
            self._queue.appendleft(waiting)

    def _lose(self, node: NodeId, commands: list[Command]) -> None:
        self.nodes.lose(node)
        for running in self.running.at_node(node):
            if not running.is_settling:
                commands.append(BreakOff(running.attempt, NodeGone("The node stopped answering.")))

    def _release(self, running: Running, settled: bool) -> None:
        if settled or running.place.node != self.own:
            self.running.remove(running.attempt)  # a peer's slot is its owner's to count
        else:
            running.is_settling = True

    # --- the plan ---------------------------------------------------------------------------------------

    def _plan(self, at: float, commands: list[Command]) -> None:
        occupancies = self._pricing.occupancies(at)
        still_waiting: deque[_Waiting] = deque()
        while self._queue and any(occupancy.wait_s <= 0.0 for occupancy in occupancies.values()):
            waiting = self._queue.popleft()
            candidates = self._pricing.candidates(waiting.request, waiting.excluded, occupancies, at)
            if not candidates:
                still_waiting.append(waiting)
                continue
            pick, reason = self._pick(candidates)
            if pick.is_free:
                self._dispatch(waiting, candidates, pick, reason, at, commands)
            else:
                still_waiting.append(waiting)
            occupancies[pick.place].take(pick.service_s)
        self._queue = still_waiting + self._queue
        for ahead, waiting in enumerate(self._queue):
            if not waiting.is_announced:
                waiting.is_announced = True
                commands.append(Enqueue(waiting.request.id, ahead))

    def _pick(self, candidates: list[Candidate]) -> tuple[Candidate, str]:
        return POLICIES[self.rules.policy](candidates, self._turn)

    def _dispatch(
        self,
        waiting: _Waiting,
        candidates: list[Candidate],
        pick: Candidate,
        reason: str,
        at: float,
        commands: list[Command],
    ) -> None:
        self._turn += 1
        waiting.attempts += 1
        attempt = AttemptId(waiting.request.id, waiting.attempts)
        self._served[waiting.request.id] = waiting
        rates = self._pricing.rates(pick.place, waiting.request.model)
        self.running.add(Running(attempt, waiting.request, pick.place, rates, at, pick.service_s))
        decision = Decision(pick.place, self.rules.policy, reason, tuple(candidates))
        commands.append(Dispatch(attempt, decision))

    # --- waiting too long -------------------------------------------------------------------------------

    def _patience_s(self, request: Request, at: float) -> float:
        """How long a request may wait: long where a place works, short where none has its model now."""
        here = any(True for _ in self._pricing.places(request, (), at))
        return self.rules.queue_timeout_s if here else min(NOWHERE_S, self.rules.queue_timeout_s)

    def _refuse_overdue(self, at: float, commands: list[Command]) -> None:
        kept: deque[_Waiting] = deque()
        for waiting in self._queue:
            waited_s = at - waiting.arrived_at
            if waited_s < NOWHERE_S or waited_s < self._patience_s(waiting.request, at):
                kept.append(waiting)
                continue
            sentence = f"Waited {waited_s:.0f} s and no slot came free for {waiting.request.model}."
            error = waiting.last_error or QueueTimeout(sentence, retry_after_s=self._retry_after(at))
            commands.append(Refuse(waiting.request.id, error))
        self._queue = kept

    def _retry_after(self, at: float) -> int:
        """Whole seconds until a slot is expected to come free, at least one."""
        waits = [occupancy.wait_s for occupancy in self._pricing.occupancies(at).values()]
        return max(1, round(min(waits, default=1.0)))


def _no_such_model(model: ModelName) -> ModelNotFound:
    return ModelNotFound(f"No node has the model {model!r}. See `pairproxy status` for what is there.")


Listener = Callable[[Event, list[Command]], None]
"""Somebody who hears every event and what it led to (the ledger)."""
