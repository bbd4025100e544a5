"""The world of the storm (experiments.protocol): time, the network between lives, the rules looked at."""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random

from pairproxy.core.asking import PATIENCE_S
from pairproxy.core.commands import Command
from pairproxy.core.documents import StateDocument
from pairproxy.core.events import (
    CatalogueReported,
    Event,
    NodeLost,
    NodeReported,
    TimePassed,
)
from pairproxy.core.experiments.lives import Life
from pairproxy.core.models import NodeId, Place
from pairproxy.core.virtual_clock import Act, VirtualClock
from pairproxy.core.workload import ENGINE

STARVE_LIMIT_S = 10.0  # no origin waits longer without a slot while others get theirs
LOST_AFTER_S = 5.0  # of silence a node is gone
DEAF_LIMIT_S = 10.0  # a peer's present life is known by then: its last one was late and is stale; five beats
COALESCE_S, PRESSING_S, HEARTBEAT_S = 0.05, 0.002, 1.0  # as the daemon publishes
LOOK_S = 0.1  # between two looks at what takes time to go wrong
IDLE_LIMIT_S = 4 * PATIENCE_S + LOOK_S
"""No slot stands idle longer while the plan of somebody who can be heard wants it.

After each PATIENCE_S a request goes there without a promise. One of fourteen is late or its connection breaks
(STORMY): four in a row once in forty thousand times that all promises were lost, too.
"""
FOUND_MOST = 20  # faults that are kept in words

STORMY = {"lost": 0.05, "doubled": 0.05, "late": 0.05, "cut": 0.02, "fails": 0.03}
"""How likely a document is lost, a message comes twice or late, a connection breaks, an engine fails."""


@dataclass(slots=True)
class StormResult:
    """What a storm showed, all of it together. ``broken``: rules that did not hold, in words."""

    events: int = 0
    requests: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    dispatches: int = 0  # to peers and own engines
    refused: int = 0  # of these, found the slot taken
    restarts: int = 0
    most_idle_s: float = 0.0  # a free slot that somebody wanted
    most_waited_s: float = 0.0  # an origin without any slot while others got theirs
    broken: list[str] = field(default_factory=list)


class World:
    """Lives of nodes and what is under way between them. ``perform`` carries out what a scheduler says."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.clock = VirtualClock()
        self.odds: dict[str, float] = dict(STORMY)
        self.result = StormResult()
        self.at = 0.0
        self.cut: dict[frozenset[NodeId], float] = {}  # pairs that do not hear each other, until when
        self.lives: dict[NodeId, Life] = {}
        self._free_since: dict[Place, float] = {}
        self._hungry_since: dict[NodeId, float] = {}
        self._deaf_since: dict[tuple[NodeId, NodeId], float] = {}
        self.soon(LOOK_S, self._look)

    def step(self) -> None:
        """Let the next thing happen."""
        self.clock.step()

    def soon(self, seconds: float, act: Act) -> None:
        """Let something happen in a while."""

        def do(at: float) -> None:
            self.at = at
            act(at)

        self.clock.at(self.at + seconds, do)

    def delay_s(self) -> float:
        """How long a message takes; a late one is overtaken by others."""
        return self.random.uniform(0.2, 2.0) if self.happens("late") else self.random.uniform(0.0005, 0.003)

    def happens(self, what: str) -> bool:
        """Throw the dice."""
        return self.random.random() < self.odds[what]

    def is_cut(self, one: NodeId, other: NodeId) -> bool:
        """Whether two nodes do not reach each other now."""
        return self.cut.get(frozenset((one, other)), 0.0) > self.at

    def broke(self, what: str) -> None:
        """A rule did not hold."""
        if len(self.result.broken) < FOUND_MOST:
            self.result.broken.append(f"at {self.at:.3f}: {what}")

    def tell(self, life: Life, event: Event) -> list[Command]:
        """Tell a life what happened, if it is not over, and spread the news."""
        if life.is_over:
            return []
        self.result.events += 1
        commands = life.tell(event)
        for fault in life.faults(event.at):
            self.broke(fault)
        self._set_alarm(life)
        if commands or not isinstance(event, NodeReported | CatalogueReported | TimePassed):
            self._will_publish(life)
        for reader in life.scheduler.pressing:
            if reader in self.lives:
                self.soon(PRESSING_S, partial(self._publish, life, reader))
        return commands

    # --- time ---------------------------------------------------------------------------------------------

    def _set_alarm(self, life: Life) -> None:
        wakeup = life.scheduler.next_wakeup(self.at)
        if wakeup is not None and wakeup != life.alarm:
            self.soon(wakeup - self.at, partial(self._wake, life, wakeup))
        life.alarm = wakeup

    def _wake(self, life: Life, alarm: float, at: float) -> None:
        if life.alarm == alarm:
            life.alarm = None
            self.tell(life, TimePassed(at))

    # --- documents ----------------------------------------------------------------------------------------

    def beat(self, life: Life, at: float) -> None:
        """Publish regularly, and miss those that do not."""
        if life.is_over:
            return
        self._publish_all(life, at)
        for node, heard_at in [*life.heard_at.items()]:
            if at - heard_at > LOST_AFTER_S:
                del life.heard_at[node]
                self.tell(life, NodeLost(at, node))
        self.soon(HEARTBEAT_S * self.random.uniform(0.9, 1.0), partial(self.beat, life))

    def _will_publish(self, life: Life) -> None:
        if not life.will_publish:
            life.will_publish = True
            self.soon(COALESCE_S, partial(self._publish_all, life))

    def _publish_all(self, life: Life, at: float) -> None:
        life.will_publish = False
        for reader in self.lives:
            if reader != life.id:
                self._publish(life, reader, at)

    def _publish(self, life: Life, reader: NodeId, at: float) -> None:
        if life.is_over:
            return
        document = life.document(reader, at)
        (engine,) = document.engines
        if engine.promises and engine.in_flight + len(engine.promises) > engine.slots:
            self.broke(f"{life.id}: promised a slot that is not free")
        if self.is_cut(life.id, reader) or self.happens("lost"):
            return
        self.soon(self.delay_s(), partial(self.hear, reader, document))
        if self.happens("doubled"):
            self.soon(self.delay_s(), partial(self.hear, reader, document))

    def hear(self, reader: NodeId, document: StateDocument, at: float) -> None:
        """A document comes, to whichever life its reader is in."""
        life = self.lives[reader]
        life.heard_at[document.node] = at
        self.tell(life, NodeReported(at, document))

    # --- what takes time to go wrong ----------------------------------------------------------------------

    def _look(self, at: float) -> None:
        self.soon(LOOK_S, self._look)
        wanted = self._wanted()
        for life in self.lives.values():
            self.look_for_idle_slots(life, wanted, at)
            self._look_for_hunger(life, at)
            self._look_for_deafness(life, at)

    def _wanted(self) -> set[Place]:
        """Places asked for by somebody who can be heard there: nobody's slot waits for who is cut off."""
        return {
            place
            for life in self.lives.values()
            for place in life.scheduler.asked_for
            if not self.is_cut(life.id, place.node)
        }

    def look_for_idle_slots(self, life: Life, wanted: set[Place], at: float) -> None:
        """See whether a slot stands idle that somebody wants: ``wanted`` are the places asked for now."""
        place = Place(life.id, ENGINE)
        if life.held(ENGINE) >= life.slots or place not in wanted:
            self._free_since.pop(place, None)
            return
        idle_s = at - self._free_since.setdefault(place, at)
        self.result.most_idle_s = max(self.result.most_idle_s, idle_s)
        if idle_s > IDLE_LIMIT_S:
            self.broke(f"{place.node}: a slot is free for {idle_s:.1f} s and somebody waits for it")
            del self._free_since[place]

    def _look_for_hunger(self, life: Life, at: float) -> None:
        if not life.scheduler.waiting or life.out or life.works:
            self._hungry_since.pop(life.id, None)
            return
        hungry_s = at - self._hungry_since.setdefault(life.id, at)
        self.result.most_waited_s = max(self.result.most_waited_s, hungry_s)
        if hungry_s > STARVE_LIMIT_S:
            self.broke(
                f"{life.id}: {life.scheduler.waiting} requests wait, and none runs, for {hungry_s:.1f} s"
            )
            del self._hungry_since[life.id]

    def _look_for_deafness(self, life: Life, at: float) -> None:
        """See whether a node knows the present life of each peer that it can hear."""
        for peer in self.lives.values():
            pair = life.id, peer.id
            known = life.scheduler.nodes.epoch(peer.id)
            if peer is life or known == str(peer.epoch) or self.is_cut(*pair):
                self._deaf_since.pop(pair, None)
            elif at - self._deaf_since.setdefault(pair, at) > DEAF_LIMIT_S:
                self.broke(f"{life.id}: believes {peer.id} to be in life {known}, and not {peer.epoch}")
                del self._deaf_since[pair]
