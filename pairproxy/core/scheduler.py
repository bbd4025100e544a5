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

from collections.abc import Callable
from dataclasses import dataclass, replace

from pairproxy.core import replicas
from pairproxy.core.avoidance import Avoidance
from pairproxy.core.commands import BreakOff, Command, Dispatch, Enqueue, Refuse
from pairproxy.core.costs import Costs
from pairproxy.core.errors import Draining, NodeGone, QueueFull, QueueTimeout, SlotsTaken, UpstreamBusy
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    CatalogueReported,
    DrainEnded,
    DrainStarted,
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
from pairproxy.core.models import AttemptId, NodeId, Outcome, RequestId, StateDocument
from pairproxy.core.nodes import STALE_S, NodeTable
from pairproxy.core.planner import Placed, Planner, no_such_model
from pairproxy.core.pricing import KnownPlaces, Pricing
from pairproxy.core.queue import RequestQueue, Waiting
from pairproxy.core.running import Running, RunningTable

PROTOCOL = 1  # of the state document and of requests between nodes
MIN_WAKEUP_S = 0.01  # two wake-ups are never closer: rounding must not make the daemon spin


@dataclass(frozen=True, slots=True)
class Rules:
    """What a person can set about scheduling."""

    policy: str = "fastest-finish"
    queue_limit: int = 256
    queue_timeout_s: float = 600.0
    attempts: int = 3
    local_only: tuple[str, ...] = ()  # patterns of models whose requests stay on this node
    stale_s: float = STALE_S  # a node that was silent for so long gets nothing new


class Scheduler:
    """The pure scheduler of one node. State has one owner: only handle() changes it."""

    def __init__(self, own: NodeId, rules: Rules | None = None) -> None:
        self.own = own
        self.rules = rules or Rules()
        self.local = LocalEngines(own, Costs())
        self.nodes = NodeTable(self.rules.stale_s)
        self.running = RunningTable()
        self._avoidance = Avoidance()
        self._pricing = Pricing(self.local, self.nodes, self.running, self._avoidance)
        self.is_draining = False
        self._queue = RequestQueue(self.rules.queue_timeout_s)
        self._served: dict[RequestId, Waiting] = {}  # dispatched, not over
        self._planner = Planner(self.rules.policy, self._pricing)

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
        deadline = self._queue.next_deadline()
        if deadline is None:
            return None
        others = (self._avoidance.next_end(at), self.nodes.next_stale(at))
        return max(min([deadline, *(time for time in others if time is not None)]), at + MIN_WAKEUP_S)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    def places(self, at: float) -> KnownPlaces:
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
            catalogue=self.local.catalogue().content,
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
                if (running := self.running.get(attempt)) is not None and running.is_settling:
                    self.running.remove(attempt)
            case EngineReported(_, report):
                self.local.report(report)
            case EngineLost(_, engine):
                self.local.lose(engine)
            case SpeedMeasured(_, engine, model, usage):
                self.local.measured(engine, model, usage)
            case NodeReported(at, document):
                if self.nodes.report(document, at):
                    self._avoidance.hear(document)
            case CatalogueReported(_, catalogue):
                self.nodes.catalogues.hold(catalogue)
            case NodeLost(_, node):
                self._lose(node, commands)
            case DrainStarted():
                self.is_draining = True
            case DrainEnded():
                self.is_draining = True
                self._queue.close()
            case TimePassed():
                pass

    def _arrive(self, event: RequestArrived, commands: list[Command]) -> None:
        request = event.request
        if self.rules.policy == "local-only" or replicas.matches(request.model, self.rules.local_only):
            request = replace(request, local_only=True)
        waiting = Waiting(request, event.at)
        if self._is_here(request.id):
            commands.append(Refuse(request.id, SlotsTaken("This request is here already.")))
        elif self.is_draining:
            commands.append(Refuse(request.id, _stopping()))
        elif request.origin is not None:
            self._admit_guest(waiting, event.at, commands)
        elif not self._pricing.is_known(request):
            commands.append(Refuse(request.id, no_such_model(request.model)))
        elif len(self._queue) >= self.rules.queue_limit:
            full = f"{len(self._queue)} requests are waiting already; try again in a moment."
            error = QueueFull(full, retry_after_s=self._retry_after(event.at))
            commands.append(Refuse(request.id, error))
        else:
            self._queue.append(waiting)

    def _admit_guest(self, waiting: Waiting, at: float, commands: list[Command]) -> None:
        request = waiting.request
        if isinstance(admitted := self._planner.admit(waiting, at), Placed):
            self._dispatch(admitted, at, commands)
        else:
            commands.append(Refuse(request.id, admitted))

    def _abandon(self, event: RequestAbandoned) -> None:
        self._queue.remove(event.request)
        self._served.pop(event.request, None)
        running = self.running.of_request(event.request)
        if running is not None:
            self._release(running, event.settled)

    def _finish(self, event: AttemptFinished) -> None:
        running = self.running.get(event.attempt)
        if running is None or running.is_settling:
            return
        self._served.pop(event.attempt.request, None)
        model, usage = running.request.model, event.usage
        if event.outcome is Outcome.DONE:
            self.local.costs.learn_output(model, usage.output_tokens or 0)
            if running.place.node == self.own and running.first_byte_at is not None:
                ttft_s, alone_s = running.measured(usage, len(self.running.at_place(running.place)))
                self.local.learn(running.place.engine, model, usage, ttft_s, alone_s)
        self._release(running, event.settled)

    def _fail(self, event: AttemptFailed, commands: list[Command]) -> None:
        running = self.running.get(event.attempt)
        if running is None or running.is_settling:
            return
        waiting = self._served.pop(event.attempt.request)
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
            or not self._has_place(waiting, event.at)
        )
        if is_over:
            commands.append(Refuse(waiting.request.id, event.error))
        else:
            self._queue.put_back(waiting)

    def _lose(self, node: NodeId, commands: list[Command]) -> None:
        self.nodes.lose(node)
        error = NodeGone("The node stopped answering.")
        commands += [BreakOff(running.attempt, error) for running in self.running.at_node(node)]

    def _release(self, running: Running, settled: bool) -> None:
        if settled or running.place.node != self.own:
            self.running.remove(running.attempt)  # a peer's slot is its owner's to count
        else:
            running.is_settling = True

    # --- the plan ---------------------------------------------------------------------------------------

    def _plan(self, at: float, commands: list[Command]) -> None:
        placed, rest = self._planner.walk(self._queue, at)
        self._queue.keep(rest)
        for one in placed:
            self._dispatch(one, at, commands)
        for ahead, waiting in enumerate(rest):
            if not waiting.is_announced:
                waiting.is_announced = True
                commands.append(Enqueue(waiting.request.id, ahead))

    def _dispatch(self, placed: Placed, at: float, commands: list[Command]) -> None:
        waiting, pick = placed.waiting, placed.pick
        waiting.attempts += 1
        request, attempt = waiting.request, AttemptId(waiting.request.id, waiting.attempts)
        rates, is_cold = self._pricing.rates(pick.place, request.model), pick.load_s > 0.0
        self._served[request.id] = waiting
        self._pricing.runners.sent(pick.place, request)
        self.running.add(Running(attempt, request, pick.place, rates, at, pick.service_s, was_cold=is_cold))
        commands.append(Dispatch(attempt, placed.decision))

    # --- waiting too long -------------------------------------------------------------------------------

    def _refuse_overdue(self, at: float, commands: list[Command]) -> None:
        for waiting in self._queue.take_overdue(at, lambda waiting: self._has_place(waiting, at)):
            late = _stopping() if self._queue.is_closed else self._too_late(waiting, at)
            commands.append(Refuse(waiting.request.id, waiting.last_error or late))

    def _too_late(self, waiting: Waiting, at: float) -> QueueTimeout:
        why = "no slot came free for" if waiting.nowhere_since is None else "no node answers that has"
        sentence = f"Waited {at - waiting.arrived_at:.0f} s and {why} {waiting.request.model}."
        return QueueTimeout(sentence, retry_after_s=self._retry_after(at))

    def _has_place(self, waiting: Waiting, at: float) -> bool:
        """Whether any place works, free or not, that the request may still try."""
        return any(True for _ in self._pricing.places(waiting.request, waiting.excluded, at))

    def _is_here(self, request: RequestId) -> bool:
        """Whether a request by this id waits or holds a slot: a second one would be counted as the first."""
        holds_slot = any(running.attempt.request == request for running in self.running)
        return holds_slot or request in self._served or request in self._queue

    def _retry_after(self, at: float) -> int:
        """Whole seconds until a slot is expected to come free, at least one."""
        return max(1, round(self._planner.first_free_s(at)))


def _stopping() -> Draining:
    return Draining("This node is stopping and takes no new work. Start it again and send the request anew.")


Listener = Callable[[Event, list[Command]], None]
"""Somebody who hears every event and what it led to (the ledger)."""
