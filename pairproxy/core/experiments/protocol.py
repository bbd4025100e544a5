"""E10: any number of random events between real schedulers, over a network that loses, doubles and delays.

    result = storm(seed=7, events=100_000)
    assert not result.broken

Clients come and go, slots come and go, connections break, documents are lost, come twice or late, daemons end
and start again with a new epoch, pairs of nodes do not hear each other for seconds. After the last event the
weather calms down, and whatever is still open has to end.
"""

from functools import partial
from random import Random

from pairproxy.core.commands import BreakOff, Command, Dispatch, Refuse
from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import BrokenReply, Moved, NodeGone, PairproxyError, SlotsTaken, Unreachable
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    EngineSettled,
    FirstByteReceived,
    RequestAbandoned,
    RequestArrived,
)
from pairproxy.core.experiments.lives import Connection, Life, Work, request
from pairproxy.core.experiments.weather import FOUND_MOST, STORMY, StormResult, World
from pairproxy.core.models import AttemptId, NodeId, Outcome, Place, Rates, RequestId, Usage
from pairproxy.core.simulated_request import as_its_origin_reads
from pairproxy.core.virtual_clock import Act

MACHINES = ((4, Rates(4000.0, 200.0, 0.15)), (2, Rates(2000.0, 100.0, 0.15)), (1, Rates(500.0, 40.0, 0.15)))
"""Slots and speeds of the first nodes; the others are like the last one."""
CALM_S = 120.0  # twice what a request may wait


def storm(seed: int, events: int, nodes: int = 4) -> StormResult:
    """Let so many events happen to so many nodes, and look at every rule after each of them."""
    world = _Storm(Random(seed), nodes)
    world.rage(events)
    world.calm_down()
    return world.result


class _Storm(World):
    def __init__(self, random: Random, nodes: int) -> None:
        super().__init__(random)
        self.is_calm = False
        for number in range(nodes):
            self._start(NodeId(f"node{number}"), 1)
        self.soon(0.5, self._weather)

    def rage(self, events: int) -> None:
        """Go on until so many events were told."""
        while self.result.events < events and len(self.result.broken) < FOUND_MOST:
            self.step()

    def calm_down(self) -> None:
        """No new faults: all that is open has to end within the longest wait."""
        self.odds = dict.fromkeys(STORMY, 0.0)
        self.is_calm = True
        self.cut.clear()
        end = self.at + CALM_S
        while any(life.clients for life in self.lives.values()) and self.at < end:
            self.step()
        open_ones = sum(len(life.clients) for life in self.lives.values())
        if open_ones:
            self.broke(f"{open_ones} requests never ended")

    # --- the weather --------------------------------------------------------------------------------------

    def _weather(self, at: float) -> None:
        """Every moment something happens that no node decided."""
        if self.is_calm:
            return
        life = self.random.choice([*self.lives.values()])
        happens = self.random.random()
        if happens < 0.70:
            for _ in range(self.random.choice([1, 1, 1, 2, 8])):
                self._arrive(life, at)
        elif happens < 0.90 and life.clients:
            self._leave(life, self.random.choice(sorted(life.clients)), at)
        elif happens < 0.94:
            pair = frozenset(self.random.sample(sorted(self.lives), 2))
            self.cut[pair] = at + self.random.choice([0.5, 2.0, 8.0])
        elif happens < 0.97:
            life.slots = self.random.choice([1, 2, 4])
            self.tell(life, life.probed(at))
        elif happens < 0.98:
            self._end(life, at)
        self.soon(self.random.expovariate(4.0), self._weather)

    def _start(self, node: NodeId, epoch: int) -> None:
        slots, rates = MACHINES[min(len(self.lives), len(MACHINES) - 1)]
        if node in self.lives:
            slots, rates = self.lives[node].slots, self.lives[node].rates
        life = Life(node, epoch, slots, rates, self._perform)
        self.lives[node] = life
        life.begin(self.at)
        self.soon(self.random.random(), partial(self.beat, life))

    def _end(self, life: Life, at: float) -> None:
        """A daemon dies, with its engine and its clients; a new life of it begins."""
        self.result.restarts += 1
        self.result.ended["died"] += len(life.clients)
        life.clients.clear()
        life.is_over = True
        for connection in life.out.values():
            connection.is_open = False
            self.soon(self.delay_s(), partial(self._hang_up, connection))
        is_crash = self.random.random() < 0.5  # else its system says that the connections are over
        for connection in life.guests.values():
            if not is_crash:
                self.soon(self.delay_s(), partial(self._fail, connection, NodeGone("gone")))
        life.out.clear()
        life.works.clear()
        self._start(life.id, life.epoch + 1)

    # --- clients ------------------------------------------------------------------------------------------

    def _arrive(self, life: Life, at: float) -> None:
        self.result.requests += 1
        name = RequestId(f"r{self.result.requests}")
        life.clients.add(name)
        limit = self.random.choice([None, 20, 100])
        asked = request(name, self.random.randint(10, 2000), limit, self.random.choice("abc"))
        self.tell(life, RequestArrived(at, asked))

    def _leave(self, life: Life, name: RequestId, at: float) -> None:
        life.clients.discard(name)
        self.result.ended["left"] += 1
        work = next(
            (one for one in life.works.values() if one.attempt.request == name and not one.is_given_up), None
        )
        for attempt in [one for one in life.out if one.request == name]:
            self._close(life.out.pop(attempt))
        if work is not None:
            self._give_up(life, work)
        self.tell(life, RequestAbandoned(at, name, settled=work is None))

    def _ended(self, life: Life, name: RequestId, how: str) -> None:
        if name not in life.clients:
            self.broke(f"{life.id}: {name} ended twice or was never there")
        life.clients.discard(name)
        self.result.ended[how] += 1

    # --- what a scheduler says ----------------------------------------------------------------------------

    def _perform(self, life: Life, command: Command, at: float) -> None:
        match command:
            case Dispatch(attempt, decision):
                self._send(life, attempt, decision.place, at)
            case Refuse(name, error) if name in life.guests:
                connection = life.guests.pop(name)
                self.result.refused += isinstance(error, SlotsTaken)
                document = life.document(connection.origin.id, at)
                self.soon(
                    self.delay_s(), partial(self._refuse, connection, document, as_its_origin_reads(error))
                )
            case Refuse(name, error):
                self._ended(life, name, type(error).__name__)
            case BreakOff(attempt, error):
                self.soon(0.0, partial(self._break_off, life, attempt, error))

    def _send(self, life: Life, attempt: AttemptId, place: Place, at: float) -> None:
        if attempt.request not in life.guests:
            self.result.dispatches += 1
        if place.node == life.id:
            self._work(life, Work(attempt, place.engine, life.guests.get(attempt.request)), at)
            return
        connection = Connection(life, attempt, place)
        life.out[attempt] = connection
        if self.happens("cut") or self.is_cut(life.id, place.node):
            self.soon(self.random.uniform(0.0, 2.0), partial(self._fail, connection, Unreachable("off")))
            return
        self.soon(self.delay_s(), partial(self._visit, connection))
        if self.happens("doubled"):
            self.soon(self.random.uniform(0.0, 3.0), partial(self._visit, connection))

    def _break_off(self, life: Life, attempt: AttemptId, error: PairproxyError, at: float) -> None:
        """An attempt ends itself, wherever it runs; as attempt.py does, not to be moved once it has begun."""
        work, connection = life.works.get(attempt), life.out.get(attempt)
        if work is not None and not (work.is_begun or work.is_given_up):
            self._give_up(life, work)
            self.tell(life, AttemptFailed(at, attempt, error, settled=False))
        elif connection is not None and not (connection.is_begun and isinstance(error, Moved)):
            self._fail(connection, error, at)

    def _work(self, life: Life, work: Work, at: float) -> None:
        if life.held(work.engine) >= life.slots:
            self.broke(f"{life.id}: {life.held(work.engine)} of {life.slots} slots held, and one more given")
        life.works[work.attempt] = work
        first, last = self.random.uniform(0.0, 0.3), self.random.choice([0.1, 0.4, 2.0])
        self.soon(first, partial(self._begin, life, work))
        self.soon(first + last, partial(self._finish, life, work))

    # --- engines ------------------------------------------------------------------------------------------

    def _begin(self, life: Life, work: Work, at: float) -> None:
        if life.is_over or work.is_given_up or work.attempt not in life.works:
            return
        if self.happens("fails"):
            self._over(life, work, AttemptFailed(at, work.attempt, BrokenReply("broke")))
            return
        work.is_begun = True
        self.tell(life, FirstByteReceived(at, work.attempt))
        if work.connection is not None:
            self._reply(work.connection, partial(self._hear_first, work.connection))

    def _finish(self, life: Life, work: Work, at: float) -> None:
        if life.is_over or work.is_given_up or work.attempt not in life.works:
            return
        outcome = Outcome.TRUNCATED if self.happens("fails") else Outcome.DONE
        usage = Usage(prompt_tokens=100, output_tokens=self.random.randint(1, 200))
        self._over(life, work, AttemptFinished(at, work.attempt, outcome, usage))

    def _over(self, life: Life, work: Work, event: AttemptFailed | AttemptFinished) -> None:
        """The engine is done with it, in this way."""
        del life.works[work.attempt]
        guest = life.guests.get(work.attempt.request)
        if guest is None and isinstance(event, AttemptFinished):
            self._ended(life, work.attempt.request, event.outcome)
        if guest is not None and isinstance(event, AttemptFinished):
            del life.guests[work.attempt.request]
            self._reply(guest, partial(self._hear_last, guest, event.outcome, event.usage))
        self.tell(life, event)

    def _give_up(self, life: Life, work: Work) -> None:
        work.is_given_up = True
        self.soon(self.random.uniform(0.0, 1.0), partial(self._settle, life, work))

    def _settle(self, life: Life, work: Work, at: float) -> None:
        if not life.is_over and life.works.pop(work.attempt, None) is not None:
            self.tell(life, EngineSettled(at, work.attempt))

    # --- between nodes ------------------------------------------------------------------------------------

    def _visit(self, connection: Connection, at: float) -> None:
        """A request comes to a peer, for the first or the second time."""
        origin, attempt, owner = connection.origin, connection.attempt, self.lives[connection.place.node]
        if connection.guest in owner.guests:
            return  # the peer port serves no attempt twice at once
        owner.guests[connection.guest] = connection
        asked = request(connection.guest, 100, 100, "", origin.id)
        self.tell(owner, RequestArrived(at, asked))
        if not connection.is_open or attempt not in origin.out:
            self.soon(self.random.uniform(0.0, 0.01), partial(self._hang_up, connection))

    def _reply(self, connection: Connection, act: Act) -> None:
        """Something of a reply goes back; or the connection breaks instead."""
        if self.happens("cut"):
            self.soon(self.delay_s(), partial(self._hang_up, connection))
            act = partial(self._fail, connection, BrokenReply("cut"))
        self.soon(self.random.uniform(0.0005, 0.003), act)

    def _hear_first(self, connection: Connection, at: float) -> None:
        if connection.attempt in connection.origin.out:
            connection.is_begun = True
            self.tell(connection.origin, FirstByteReceived(at, connection.attempt))

    def _hear_last(self, connection: Connection, outcome: Outcome, usage: Usage, at: float) -> None:
        origin, attempt = connection.origin, connection.attempt
        if origin.out.pop(attempt, None) is not None:
            self._ended(origin, attempt.request, outcome)
            self.tell(origin, AttemptFinished(at, attempt, outcome, usage))

    def _refuse(
        self, connection: Connection, document: StateDocument, error: PairproxyError, at: float
    ) -> None:
        """A refusal comes back, with the state of the node that refused."""
        if connection.attempt in connection.origin.out:
            self.hear(connection.origin.id, document, at)
        self._fail(connection, error, at)

    def _fail(self, connection: Connection, error: PairproxyError, at: float) -> None:
        """An attempt breaks off, as its origin sees it."""
        origin, attempt = connection.origin, connection.attempt
        if origin.is_over or origin.out.pop(attempt, None) is None:
            return
        self._close(connection)
        if connection.is_begun:
            self._ended(origin, attempt.request, "truncated")
            self.tell(origin, AttemptFinished(at, attempt, Outcome.TRUNCATED, Usage()))
        else:
            self.tell(origin, AttemptFailed(at, attempt, error))

    def _close(self, connection: Connection) -> None:
        """The origin hangs up; the owner notices a little later."""
        connection.is_open = False
        self.soon(self.delay_s(), partial(self._hang_up, connection))

    def _hang_up(self, connection: Connection, at: float) -> None:
        """The owner notices that the connection is over."""
        owner = self.lives[connection.place.node]
        if owner.guests.get(connection.guest) is not connection:
            return
        del owner.guests[connection.guest]
        work = next((one for one in owner.works.values() if one.connection is connection), None)
        if work is not None and not work.is_given_up:
            self._give_up(owner, work)
        self.tell(owner, RequestAbandoned(at, connection.guest, settled=work is None))
