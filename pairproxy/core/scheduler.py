"""Scheduler.handle(event) -> commands: the queue at the origin, and the choice of a place for each request.

The rule, in the order of the code:

1. A request from a peer runs here, now, or is refused: it is never queued and never sent on.
2. A request of this machine waits in the one queue there is. On every event the plan walks the queue in
   its order (core.queue), and prices each request at every place that holds its replica: waiting + load +
   prefill + decode seconds. The policy picks one.
3. A pick that is free now is dispatched. A pick that is busy is only noted in the plan: the request stays
   queued, where it can still go anywhere. So a slow free node stays idle unless using it finishes sooner.
4. An engine never holds more of our requests than its slots; a slot is charged until its engine is known
   to be free again, also after the client left.
5. An attempt that failed before its first byte goes back to the head of the queue without that place. A
   refusal (the slot went to somebody else) blames nobody and is planned again.
"""

from collections.abc import Callable, Set
from random import Random
from typing import Final

from pairproxy.core.arrivals import Arrivals
from pairproxy.core.commands import Command, Dispatch, Enqueue, Refuse
from pairproxy.core.discipline import Finding
from pairproxy.core.documents import StateDocument
from pairproxy.core.endings import Endings
from pairproxy.core.errors import PairproxyError
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
    NodeForgotten,
    NodeLost,
    NodeReported,
    OfferChanged,
    ReplyBroken,
    RequestAbandoned,
    RequestArrived,
    RightsChanged,
    RulesChanged,
    SpeedMeasured,
)
from pairproxy.core.knowledge import Knowledge
from pairproxy.core.local import Told
from pairproxy.core.models import NodeId, Place, attempt_of
from pairproxy.core.planner import Placed
from pairproxy.core.pricing import KnownPlaces
from pairproxy.core.queue import Waiting
from pairproxy.core.rescue import Rescue
from pairproxy.core.rules import Rules
from pairproxy.core.running import Running
from pairproxy.core.sharing import Sharing
from pairproxy.core.silence import Silence

MIN_WAKEUP_S: Final = 0.01  # two wake-ups are never closer: rounding must not make the daemon spin


class Scheduler:
    """The pure scheduler of one node. State has one owner: only handle() changes it.

    ``random`` is for policies that draw; without one each node draws the same in each of its lives.
    """

    def __init__(self, own: NodeId, rules: Rules | None = None, random: Random | None = None) -> None:
        self.own = own
        self._knows = Knowledge(own, rules or Rules(), random)
        self._arrivals = Arrivals(self._knows)
        self._endings = Endings(self._knows)
        self._sharing = Sharing(self._knows)
        self._rescue = Rescue(self._knows)
        self._silence = Silence(self._knows)
        self.local = self._knows.local
        self.nodes = self._knows.nodes
        self.running = self._knows.running
        self.rights = self._knows.rights

    def handle(self, event: Event) -> list[Command]:
        """Take in what happened; answer what to do now, in order."""
        at = event.at
        self.running.count_time(at)
        self.local.foreign.count_time(at)
        commands: list[Command] = []
        self._take_in(event, commands)
        if len(self._knows.queue):
            commands += self._endings.overdue(at)
        self._sharing.before_plan(at)
        self._plan(at, commands)
        if moved := self._rescue.look(at):
            commands += moved
        if stuck := self._silence.look(at):
            commands += stuck
        self._sharing.after_plan(at)
        return commands

    @property
    def pressing(self) -> list[NodeId]:
        """Readers for whom the last event made news that cannot wait: a slot is wanted of them, or theirs.

        In the order of their names, so that a simulation takes the same course each time.
        """
        return sorted(self._sharing.pressing)

    @property
    def asked_for(self) -> Set[Place]:
        """Peers' places with a free slot that the plan wants and that is not promised to this node yet."""
        return self._knows.asking.places

    def next_wakeup(self, at: float) -> float | None:
        """When handle(TimePassed) is due if nothing else happens before; None: never."""
        knows = self._knows
        moves_at, silent_at = self._rescue.next_look(), self._silence.next_look()
        if moves_at is None and silent_at is None and not len(knows.queue) and not knows.promises.has_any:
            return None
        times = [knows.promises.next_end(at), moves_at, silent_at]
        if len(knows.queue):
            times += [knows.avoidance.next_end(at), knows.asking.next_end(at), knows.planner.settles_at]
            times += [self.nodes.next_stale(at), self.nodes.next_promise_end(at), knows.queue.next_deadline()]
        known = [time for time in times if time is not None]
        return max(min(known), at + MIN_WAKEUP_S) if known else None

    @property
    def rules(self) -> Rules:
        """What it goes by at present."""
        return self._knows.rules

    @property
    def is_draining(self) -> bool:
        """Whether this node takes no new work."""
        return self._knows.is_draining

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._knows.queue)

    @property
    def queued(self) -> list[Waiting]:
        """Those, the first to go first, as they were planned last."""
        return [*self._knows.queue]

    @property
    def findings(self) -> list[Finding]:
        """Which clients throw away what is cached, and where their prompts part; the costliest first."""
        return self._knows.discipline.findings()

    def is_up(self, place: Place) -> bool:
        """Whether the engine of a place answers the questions of its node, as far as is known."""
        return self._silence.is_up(place)

    def is_lost(self, place: Place) -> bool:
        """Whether the node of a place is another one, of which nothing is heard."""
        return place.node != self.own and self.nodes.epoch(place.node) is None

    def places(self, at: float) -> KnownPlaces:
        """Every place that takes work now: its slots, and its rates for each model it holds."""
        return self._knows.pricing.known_places(at)

    def document_for(
        self, reader: NodeId, epoch: str, sequence: int, name: str, at: float, told: Told = None
    ) -> StateDocument:
        """What this node publishes about itself to one peer. ``told``: see LocalEngines.states."""
        return self._sharing.document(reader, epoch, sequence, name, at, told)

    # --- events -----------------------------------------------------------------------------------------

    def _take_in(self, event: Event, commands: list[Command]) -> None:
        if isinstance(event, RequestArrived):
            self._arrive(event, commands)
        elif isinstance(event, AttemptFinished):
            self._finish(event)
        elif isinstance(event, FirstByteReceived):
            if (running := self.running.get(event.attempt)) is not None:
                self._begin(running, event.at, is_error=event.is_error)
        else:
            self._take_rare(event, commands)

    def _take_rare(self, event: Event, commands: list[Command]) -> None:
        match event:
            case RequestAbandoned():
                self._endings.abandoned(event)
            case AttemptFailed():
                commands += self._endings.failed(event)
            case ReplyBroken():
                commands += self._endings.broken(event)
            case EngineSettled():
                self._endings.settled(event)
            case DrainStarted() | DrainEnded():
                self._knows.is_draining = True
                if isinstance(event, DrainEnded):
                    self._knows.queue.close()
            case RightsChanged(_, rights):
                self.rights.follow(rights)
            case OfferChanged(_, withheld):
                self.local.withheld = withheld
            case RulesChanged(_, rules):
                self._knows.follow(rules)
            case _:
                self._take_news(event, commands)

    def _take_news(self, event: Event, commands: list[Command]) -> None:
        """Take in what became known; other events only let time pass."""
        match event:
            case EngineReported(_, report):
                self.local.report(report)
                self._knows.avoidance.forgive(Place(self.own, report.engine))
            case EngineLost(_, engine):
                self.local.lose(engine)
            case SpeedMeasured(_, engine, model, usage, company):
                self.local.measured(engine, model, usage, company)
            case NodeReported(at, document):
                self._hear(document, at, commands)
            case CatalogueReported(_, catalogue):
                self.nodes.catalogues.hold(catalogue)
            case NodeLost(_, node) | NodeForgotten(_, node):
                self.nodes.lose(node)
                commands += self._endings.lost(node)
                if isinstance(event, NodeForgotten):
                    self.nodes.forget(node)
        self._knows.count_places()

    def _arrive(self, event: RequestArrived, commands: list[Command]) -> None:
        if event.request.origin is None:
            self._knows.discipline.look(event.request)
        judged = self._arrivals.take_in(event)
        if isinstance(judged, Placed):
            self._sharing.used(judged.pick.place.engine, event.request, event.at)
            self._dispatch(judged, event.at, commands)
        elif isinstance(judged, PairproxyError):
            commands.append(Refuse(event.request.id, judged))

    def _begin(self, running: Running, at: float, *, is_error: bool = False) -> None:
        self._silence.heard(running, at)
        self.running.begin(running, at)
        self._knows.pricing.slots.begun(running)
        if not is_error:
            self._endings.begun(running)
        self._knows.avoidance.begun(running.place)

    def _finish(self, event: AttemptFinished) -> None:
        if (running := self.running.get(event.attempt)) is not None:
            if event.is_whole:
                self._begin(running, event.at)
                self.running.count_time(event.at)  # it was two events
            else:
                self._silence.heard(running, event.at)
            self._rescue.finished(running, event.usage.output_tokens or 0)
            self._endings.finished(event, running)

    def _hear(self, document: StateDocument, at: float, commands: list[Command]) -> None:
        life = self.nodes.epoch(document.node)
        if not self.nodes.report(document, at):
            return
        is_new_life = life is not None and life != document.epoch
        self._knows.avoidance.hear(document, self.own)
        self._sharing.hear(document, at, is_new=life is None, is_new_life=is_new_life)
        if is_new_life:
            commands += self._endings.restarted(document)

    # --- the plan ---------------------------------------------------------------------------------------

    def _plan(self, at: float, commands: list[Command]) -> None:
        if not len(self._knows.queue):
            self._knows.planner.rest(at)
            return
        placed, rest = self._knows.planner.walk(self._knows.queue.in_order(at), at)
        self._knows.queue.keep(rest, at)
        for one in placed:
            self._dispatch(one, at, commands)
        for ahead, waiting in enumerate(rest):
            if not waiting.is_announced:
                waiting.is_announced = True
                commands.append(Enqueue(waiting.request.id, ahead))

    def _dispatch(self, placed: Placed, at: float, commands: list[Command]) -> None:
        waiting, pick, pricing = placed.waiting, placed.pick, self._knows.pricing
        waiting.attempts += 1
        request, place = waiting.request, pick.place
        attempt, prefixes = attempt_of(request.id, waiting.attempts), self.local.prefixes
        rates, replica = pricing.held(place, request.model)
        self._knows.served[request.id] = waiting
        self._knows.chains.sent(request.id, place)
        pricing.sent(request, pick, at)
        running = Running(attempt, request, place, rates, at, pick.service_s)
        if place.node == self.own:
            running.held_blocks = prefixes.matched(place.engine, request.model, request.prefix)
        running.replica, running.was_cold, running.read_s = replica, pick.load_s > 0.0, pick.read_s
        running.begins_s = self._silence.begins_s(request, pick, rates)
        self.running.add(running)
        commands.append(Dispatch(attempt, placed.decision, self._silence.quiet_s(request, pick, rates)))


Listener = Callable[[Event, list[Command]], None]
"""Somebody who hears every event and what it led to (the ledger)."""
