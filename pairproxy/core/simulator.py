"""Replays a workload on a virtual clock: every node runs the production scheduler, only its GPU is simulated.

    requests -> Scheduler + Ledger of each node -> commands -> SimulatedGpu, or a peer's Scheduler
                    ^                                              |
                    '-- state documents, refusals, first bytes, ends, each after the network's delay

Nothing sleeps, and nothing is random but the phases of the heartbeats and what the network loses: the same
input gives the same result.
"""

from collections.abc import Sequence
from functools import partial
from random import Random

from pairproxy.core.commands import BreakOff, Command, Dispatch, Refuse
from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import Moved, NodeGone, PairproxyError, SlotsTaken, Unreachable
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
from pairproxy.core.models import AttemptId, EngineId, NodeId, Outcome, Place, RequestId, Usage
from pairproxy.core.rules import Rules
from pairproxy.core.simulated_gpu import Phase, Reached
from pairproxy.core.simulated_network import SimulatedNetwork
from pairproxy.core.simulated_node import SimulatedNode
from pairproxy.core.simulated_request import (
    as_its_origin_reads,
    ended_by,
    guest_name,
    index_of,
    name_of,
    phase_events,
    request_of,
)
from pairproxy.core.virtual_clock import VirtualClock
from pairproxy.core.workload import Network, SimNode, SimRequest, SimResult, check_workload

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

    A burst is requests with the same ``at``, a chain requests each ``after`` the one before. The policy is in
    the ``rules``; one node alone is the same call with that node, and the requests asked there (alone() of
    core.experiments.measures). ``knows_speeds``: each engine was measured before the first arrival; else it
    starts at the prior of its kind.

    Raises ValueError for names that clash, an origin that is unknown or will be lost, or a request that
    follows a later one; RuntimeError if an engine is given more than its slots or a request can never end:
    both are faults of the scheduler.
    """
    check_workload(nodes, requests)
    world = _World(nodes, requests, rules or Rules(), seed, network or Network())
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
        seed: int,
        network: Network,
    ) -> None:
        self._clock = VirtualClock()
        self._nodes = {sim.node: SimulatedNode(sim, rules, self._clock, self._reach, seed) for sim in nodes}
        self._wire = SimulatedNetwork(network, self._clock, Random(seed), self._hear)
        self._requests = requests
        self._network = network
        self._to_come = len(requests)
        self._followers: dict[RequestId, list[int]] = {}
        self._to_end: list[int] = []  # per request, how many that it follows have not ended
        self._cached = [0] * len(requests)
        self._order: list[tuple[int, NodeId]] = []
        self._refused = 0

    def introduce(self, knows_speeds: bool) -> None:
        """Let every node know its engines, then its peers; put the workload on the agenda."""
        at = min(request.at for request in self._requests) - INTRODUCTION_S
        for node in self._nodes.values():
            for event in node.introduction(at, knows_speeds):
                self._tell(node, event)
            self._wire.begin_heartbeat(node, self._nodes.values(), at)
            if node.sim.lost_at is not None:
                self._clock.at(node.sim.lost_at, partial(self._lose, node))
            node.plan_slowdowns()
        for index, request in enumerate(self._requests):
            for before in request.waits_for:
                self._followers.setdefault(name_of(before), []).append(index)
            self._to_end.append(len(request.waits_for))
            if not request.waits_for:
                self._clock.at(request.at, partial(self._arrive, index))

    def run(self) -> None:
        """Work off the agenda until every request has ended."""
        while self._to_come or any(node.has_open_requests for node in self._nodes.values()):
            if self._clock.is_idle:
                raise RuntimeError("a request is neither queued nor running, so it can never end")
            self._clock.step()

    def result(self) -> SimResult:
        """What came of it."""
        nodes = self._nodes.values()
        found = {one.id: one for node in nodes for one in node.ledger.records if one.origin is None}
        records = tuple(found[name_of(index)] for index in range(len(self._requests)))
        return SimResult(
            records=records,
            order=tuple(self._order),
            refused=self._refused,
            most_in_flight={place: most for node in nodes for place, most in node.most_in_flight()},
            cached_tokens=tuple(self._cached),
            prompt_tokens=tuple(request.prompt_tokens for request in self._requests),
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
        if commands or not isinstance(event, NodeReported | TimePassed):
            self._wire.will_publish(node, self._nodes.values(), event.at)
        self._wire.press(node, self._nodes, event.at)
        for ended in ended_by(event, commands):
            for index in self._followers.pop(ended, ()):
                self._to_end[index] -= 1
                wanted = self._requests[index]
                if not self._to_end[index]:
                    self._clock.at(max(event.at + wanted.think_s, wanted.at), partial(self._arrive, index))

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
                fail = partial(self._fail, self._nodes[origin], attempt, as_its_origin_reads(error))
                self._wire.refuse(node, self._nodes[origin], fail, at)
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
            self._wire.later(at, partial(self._visit, node, attempt, place))

    def _workload(self, node: SimulatedNode, attempt: AttemptId) -> SimRequest:
        return self._requests[self._index(node, attempt)]

    def _index(self, node: SimulatedNode, attempt: AttemptId) -> int:
        _, at_origin = node.guests.get(attempt.request, (node.id, attempt))
        return index_of(at_origin.request)

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
        if attempt is None or place is None or place.node == node.id:
            self._abandon(node, request, attempt, at)
        else:
            self._tell(node, RequestAbandoned(at, request))
            self._hang_up(node, attempt, place, at)

    def _abandon(self, node: SimulatedNode, request: RequestId, attempt: AttemptId | None, at: float) -> None:
        engine = node.engine_of(attempt) if attempt is not None else None
        node.guests.pop(request, None)
        self._tell(node, RequestAbandoned(at, request, settled=engine is None))
        if attempt is not None and engine is not None:
            self._hang_up(node, attempt, Place(node.id, engine), at)

    def _hang_up(self, node: SimulatedNode, attempt: AttemptId, place: Place, at: float) -> None:
        """Give up an attempt; its engine goes on for a while."""
        if place.node == node.id:
            node.settling.add(attempt)
            self._clock.at(at + self._network.settle_s, partial(self._settle, node, attempt))
        else:
            guest = guest_name(node.id, attempt)
            self._wire.later(at, partial(self._abandon, self._nodes[place.node], guest, AttemptId(guest, 1)))

    def _settle(self, node: SimulatedNode, attempt: AttemptId, at: float) -> None:
        node.stop(at, attempt)
        if attempt in node.settling:
            node.settling.remove(attempt)
            self._tell(node, EngineSettled(at, attempt))

    def _reach(self, node: SimulatedNode, engine: EngineId, reached: Reached) -> None:
        at, attempt, phase, cached = reached
        told = cached if node.engines[engine].tells_cached else None
        if phase is Phase.LOAD:
            if attempt not in node.settling:
                self._cached[self._index(node, attempt)] = cached
            if not node.engines[engine].is_loaded:
                self._tell(node, EngineReported(at, node.report(node.engines[engine], at)))
        elif attempt in node.settling:
            if phase is Phase.DECODE:
                node.settling.remove(attempt)
                self._tell(node, EngineSettled(at, attempt))
        elif attempt.request in node.guests:
            origin, at_origin = node.guests[attempt.request]
            self._wire.later(at, partial(self._answer, self._nodes[origin], at_origin, phase, told))
            for event in phase_events(at, attempt, phase, self._workload(node, attempt), told):
                self._tell(node, event)
            if phase is Phase.DECODE:
                del node.guests[attempt.request]
        else:
            self._answer(node, attempt, phase, told, at)

    def _answer(
        self, node: SimulatedNode, attempt: AttemptId, phase: Phase, cached: int | None, at: float
    ) -> None:
        """The origin sees the first byte or the end of a reply."""
        if attempt not in node.running:
            return
        wanted = self._workload(node, attempt)
        if phase is Phase.DECODE:
            del node.running[attempt]
        elif wanted.is_streaming:
            node.begun.add(attempt)
        for event in phase_events(at, attempt, phase, wanted, cached):
            self._tell(node, event)

    def _visit(self, origin: SimulatedNode, attempt: AttemptId, place: Place, at: float) -> None:
        """A request comes to a peer."""
        peer = self._nodes[place.node]
        if peer.is_lost or self._wire.is_cut():
            error = Unreachable("Nothing answers at the node. See whether it runs.")
            self._wire.later(at, partial(self._fail, origin, attempt, error))
            return
        guest = guest_name(origin.id, attempt)
        peer.guests[guest] = (origin.id, attempt)
        wanted = self._requests[index_of(attempt.request)]
        self._tell(peer, RequestArrived(at, request_of(guest, wanted, origin.id, place.engine)))

    def _fail(self, node: SimulatedNode, attempt: AttemptId, error: PairproxyError, at: float) -> None:
        """An attempt broke off, as its origin sees it."""
        if (place := node.running.pop(attempt, None)) is None:
            return
        if isinstance(error, Moved | NodeGone) and not self._nodes[place.node].is_lost:
            self._hang_up(node, attempt, place, at)
        if attempt in node.begun:
            self._tell(node, AttemptFinished(at, attempt, Outcome.TRUNCATED, Usage()))
        else:
            self._tell(node, AttemptFailed(at, attempt, error, settled=attempt not in node.settling))

    def _lose(self, node: SimulatedNode, at: float) -> None:
        node.is_lost = True
        self._wire.fall_silent(node, self._nodes.values(), at)

    def _hear(self, node: SimulatedNode, news: StateDocument | NodeId, at: float) -> None:
        """A document of a peer, or the end of patience with a silent one."""
        self._tell(node, NodeReported(at, news) if isinstance(news, StateDocument) else NodeLost(at, news))
