"""Replays a workload on a virtual clock: every node runs the production scheduler, only its GPU is simulated.

    requests -> Scheduler + Ledger of each node -> commands -> SimulatedGpu, or a peer's Scheduler
                    ^                                              |
                    '-- state documents, refusals, first bytes, ends, each after the network's delay

Nothing sleeps, and nothing is random but the phases of the heartbeats: the same input gives the same result.
"""

from collections.abc import Sequence
from functools import partial
from random import Random

from pairproxy.core.accounting.ledger import RequestRecord
from pairproxy.core.commands import BreakOff, Command, Dispatch, Refuse
from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import PairproxyError, SlotsTaken, Unreachable
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    EngineReported,
    EngineSettled,
    Event,
    NodeLost,
    NodeReported,
    RequestAbandoned,
    RequestArrived,
    TimePassed,
)
from pairproxy.core.knowledge import Rules
from pairproxy.core.models import AttemptId, EngineId, NodeId, Outcome, Place, RequestId, Usage
from pairproxy.core.simulated_gpu import Phase, Reached
from pairproxy.core.simulated_node import SimulatedNode
from pairproxy.core.simulated_request import (
    as_its_origin_reads,
    guest_name,
    index_of,
    name_of,
    phase_event,
    request_of,
)
from pairproxy.core.virtual_clock import Act, VirtualClock
from pairproxy.core.workload import Network, SimNode, SimRequest, SimResult

INTRODUCTION_S = 1.0  # before the first arrival the nodes get to know each other


def simulate(
    nodes: Sequence[SimNode],
    requests: Sequence[SimRequest],
    rules: Rules | None = None,
    seed: int = 0,
    *,
    network: Network | None = None,
    knows_speeds: bool = True,
) -> SimResult:
    """Run the requests through the nodes' schedulers until every one has ended.

    ``knows_speeds``: each engine was measured before the first arrival; else it starts at the prior of its
    kind. Raises ValueError for names that clash or an origin that is unknown or will be lost; RuntimeError
    if an engine is given more than its slots or a request can never end: both are faults of the scheduler.
    """
    origins = {request.origin for request in requests}
    if not requests or not origins <= {sim.node for sim in nodes if sim.lost_at is None}:
        raise ValueError("requests must arrive, at nodes that are there and stay")
    if len({sim.node[:8] for sim in nodes}) < len(nodes):
        raise ValueError("the names of the nodes must differ in their first eight characters")
    world = _World(nodes, requests, rules or Rules(), Random(seed), network or Network())
    world.introduce(knows_speeds)
    world.run()
    return world.result()


class _World:
    """All nodes and what is under way between them."""

    def __init__(
        self,
        nodes: Sequence[SimNode],
        requests: Sequence[SimRequest],
        rules: Rules,
        random: Random,
        network: Network,
    ) -> None:
        self._clock = VirtualClock()
        self._nodes = {sim.node: SimulatedNode(sim, rules, self._clock, self._reach) for sim in nodes}
        self._requests = requests
        self._network = network
        self._random = random
        self._to_come = len(requests)
        self._order: list[tuple[int, NodeId]] = []
        self._refused = 0

    def introduce(self, knows_speeds: bool) -> None:
        """Let every node know its engines, then its peers; put the workload on the agenda."""
        at = min(request.at for request in self._requests) - INTRODUCTION_S
        for node in self._nodes.values():
            for event in node.introduction(at, knows_speeds):
                self._tell(node, event)
            beat_at = at + self._random.uniform(0.0, self._network.heartbeat_s)
            self._clock.at(beat_at, partial(self._beat, node), is_heartbeat=True)
            if node.sim.lost_at is not None:
                self._clock.at(node.sim.lost_at, partial(self._lose, node))
        for index, request in enumerate(self._requests):
            self._clock.at(request.at, partial(self._arrive, index))

    def run(self) -> None:
        """Work off the agenda until every request has ended."""
        while self._to_come or any(node.has_open_requests for node in self._nodes.values()):
            if self._clock.is_idle:
                raise RuntimeError("a request is neither queued nor running, so it can never end")
            self._clock.step()

    def result(self) -> SimResult:
        """What came of it."""
        found: dict[RequestId, RequestRecord] = {}
        for node in self._nodes.values():
            found |= {record.id: record for record in node.ledger.records if record.origin is None}
        records = tuple(found[name_of(index)] for index in range(len(self._requests)))
        return SimResult(
            records=records,
            order=tuple(self._order),
            refused=self._refused,
            most_in_flight={
                Place(node.id, engine): gpu.most_in_flight
                for node in self._nodes.values()
                for engine, gpu in node.gpus.items()
            },
        )

    def _tell(self, node: SimulatedNode, event: Event) -> None:
        if node.is_lost:
            return
        commands = node.scheduler.handle(event)
        node.ledger.record(event, commands)
        for command in commands:
            self._perform(node, command, event.at)
        wakeup = node.scheduler.next_wakeup(event.at)
        if wakeup is not None and wakeup != node.next_alarm:
            self._clock.at(wakeup, partial(self._wake, node))
        node.next_alarm = wakeup
        if (commands or not isinstance(event, NodeReported | TimePassed)) and not node.will_publish:
            node.will_publish = True
            self._clock.at(
                event.at + self._network.coalesce_s, partial(self._publish, node), is_heartbeat=True
            )

    def _wake(self, node: SimulatedNode, at: float) -> None:
        if node.next_alarm == at:
            node.next_alarm = None
            self._tell(node, TimePassed(at))

    def _perform(self, node: SimulatedNode, command: Command, at: float) -> None:
        match command:
            case Dispatch(attempt, decision):
                self._send(node, attempt, decision.place, at)
            case Refuse(request, error) if request in node.guests:
                origin, attempt = node.guests.pop(request)
                self._refused += isinstance(error, SlotsTaken)
                self._later(at, partial(self._fail, self._nodes[origin], attempt, as_its_origin_reads(error)))
            case BreakOff(attempt, error):
                self._fail(node, attempt, error, at)
            case _:
                pass  # Enqueue, or Refuse to a client: the ledger has it

    def _send(self, node: SimulatedNode, attempt: AttemptId, place: Place, at: float) -> None:
        if attempt.request not in node.guests:
            self._order.append((index_of(attempt.request), place.node))
            node.running[attempt] = place
        if place.node == node.id:
            node.start(at, attempt, place.engine, self._workload(node, attempt))
        else:
            self._later(at, partial(self._visit, node, attempt, place))

    def _workload(self, node: SimulatedNode, attempt: AttemptId) -> SimRequest:
        _, at_origin = node.guests.get(attempt.request, (node.id, attempt))
        return self._requests[index_of(at_origin.request)]

    # --- clients

    def _arrive(self, index: int, at: float) -> None:
        self._to_come -= 1
        wanted = self._requests[index]
        node = self._nodes[wanted.origin]
        self._tell(node, RequestArrived(at, request_of(name_of(index), wanted)))
        if wanted.leaves_after_s is not None:
            self._clock.at(at + wanted.leaves_after_s, partial(self._leave, node, name_of(index)))

    def _leave(self, node: SimulatedNode, request: RequestId, at: float) -> None:
        """The client, or the origin in its place, hangs up."""
        attempt = next((attempt for attempt in node.running if attempt.request == request), None)
        place = node.running.pop(attempt) if attempt is not None else None
        if attempt is None or place is None:
            self._abandon(node, request, None, at)
        elif place.node == node.id:
            self._abandon(node, request, attempt, at)
        else:
            self._tell(node, RequestAbandoned(at, request))
            guest = guest_name(node.id, attempt)
            self._later(at, partial(self._abandon, self._nodes[place.node], guest, AttemptId(guest, 1)))

    def _abandon(self, node: SimulatedNode, request: RequestId, attempt: AttemptId | None, at: float) -> None:
        is_running = attempt is not None and node.engine_of(attempt) is not None
        node.guests.pop(request, None)
        self._tell(node, RequestAbandoned(at, request, settled=not is_running))
        if attempt is not None and is_running:
            node.settling.add(attempt)
            self._clock.at(at + self._network.settle_s, partial(self._settle, node, attempt))

    def _settle(self, node: SimulatedNode, attempt: AttemptId, at: float) -> None:
        node.stop(at, attempt)
        if attempt in node.settling:
            node.settling.remove(attempt)
            self._tell(node, EngineSettled(at, attempt))

    # --- GPUs ---------------------------------------------------------------------------------------------

    def _reach(self, node: SimulatedNode, engine: EngineId, reached: Reached) -> None:
        at, attempt, _ = reached
        if reached.phase is Phase.LOAD:
            if not node.engines[engine].is_loaded:
                self._tell(node, EngineReported(at, node.report(node.engines[engine], at)))
        elif attempt in node.settling:
            if reached.phase is Phase.DECODE:
                node.settling.remove(attempt)
                self._tell(node, EngineSettled(at, attempt))
        elif attempt.request in node.guests:
            origin, at_origin = node.guests[attempt.request]
            self._later(at, partial(self._answer, self._nodes[origin], at_origin, reached.phase))
            self._tell(node, phase_event(at, attempt, reached.phase, self._workload(node, attempt)))
            if reached.phase is Phase.DECODE:
                del node.guests[attempt.request]
        else:
            self._answer(node, attempt, reached.phase, at)

    def _answer(self, node: SimulatedNode, attempt: AttemptId, phase: Phase, at: float) -> None:
        """The origin sees the first byte or the end of a reply."""
        if attempt not in node.running:
            return
        if phase is Phase.PREFILL:
            node.begun.add(attempt)
        else:
            del node.running[attempt]
        self._tell(node, phase_event(at, attempt, phase, self._workload(node, attempt)))

    # --- between nodes --------------------------------------------------------------------------------------

    def _later(self, at: float, act: Act, *, is_heartbeat: bool = False) -> None:
        self._clock.at(at + self._network.delay_s, act, is_heartbeat=is_heartbeat)

    def _visit(self, origin: SimulatedNode, attempt: AttemptId, place: Place, at: float) -> None:
        """A request comes to a peer."""
        peer = self._nodes[place.node]
        if peer.is_lost:
            error = Unreachable("Nothing answers at the node. See whether it runs.")
            self._later(at, partial(self._fail, origin, attempt, error))
            return
        guest = guest_name(origin.id, attempt)
        peer.guests[guest] = (origin.id, attempt)
        wanted = self._requests[index_of(attempt.request)]
        self._tell(peer, RequestArrived(at, request_of(guest, wanted, origin.id, place.engine)))

    def _fail(self, node: SimulatedNode, attempt: AttemptId, error: PairproxyError, at: float) -> None:
        """An attempt broke off, as its origin sees it."""
        if node.running.pop(attempt, None) is None:
            return
        if attempt in node.begun:
            self._tell(node, AttemptFinished(at, attempt, Outcome.TRUNCATED, Usage()))
        else:
            self._tell(node, AttemptFailed(at, attempt, error))

    def _publish(self, node: SimulatedNode, at: float) -> None:
        node.will_publish = False
        for peer in self._nodes.values():
            if peer is not node and not node.is_lost:
                node.published += 1
                document = node.scheduler.document_for(peer.id, "1", node.published, node.id, at)
                self._later(at, partial(self._hear, peer, document), is_heartbeat=True)

    def _beat(self, node: SimulatedNode, at: float) -> None:
        self._publish(node, at)
        self._clock.at(at + self._network.heartbeat_s, partial(self._beat, node), is_heartbeat=True)

    def _lose(self, node: SimulatedNode, at: float) -> None:
        node.is_lost = True
        for peer in self._nodes.values():
            self._clock.at(at + self._network.lost_after_s, partial(self._hear, peer, node.id))

    def _hear(self, node: SimulatedNode, news: StateDocument | NodeId, at: float) -> None:
        """A document of a peer, or the end of patience with a silent one."""
        self._tell(node, NodeReported(at, news) if isinstance(news, StateDocument) else NodeLost(at, news))
