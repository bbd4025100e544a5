"""Free slots of this node's engines that are kept for one origin each, for a moment.

When several origins see a slot come free, all would send a request and all but one be refused. So the owner
says who gets it. Whose turn it is: who went longest without being served here, in whole seconds; among those,
whose prompt this node has in its cache; then who was given least work.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pairproxy.core.documents import Promise
from pairproxy.core.models import EngineId, NodeId

PROMISE_S = 0.25  # long enough for a document, a plan and a request on a slow LAN; short beside any reply
PASSED_S = 1.0  # who let a promise lapse that it had not asked for does not want this place, for so long
ORIGINS: Final = 256  # remembered, of those served here; more nodes are not paired with one


@dataclass(frozen=True, slots=True)
class Wish:
    """An origin that waits for an engine like one of this node's."""

    origin: NodeId
    count: int  # of slots
    waited_s: float  # its oldest request
    tokens: float = 0.0  # of one of its requests, on average
    has_prefix_here: bool = False
    has_asked: bool = True  # its plan wants this very node; else it only waits for the model


@dataclass(slots=True)
class _Kept:
    origin: NodeId
    until: float
    was_asked: bool
    is_firm: bool  # holds against this node's own clients, too


class PromiseBook:
    """Who gets the next free slots of each engine. Times are seconds of the scheduler's clock."""

    def __init__(self) -> None:
        self._kept: dict[EngineId, list[_Kept]] = {}
        self._passed: dict[tuple[EngineId, NodeId], float] = {}
        self._served_at: OrderedDict[NodeId, float] = OrderedDict()
        self._given: dict[NodeId, float] = {}  # tokens

    @property
    def has_any(self) -> bool:
        """Whether anything is promised."""
        return bool(self._kept)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is promised, and nothing that was let lapse is remembered."""
        return not self._kept and not self._passed

    def lapse(self, at: float) -> None:
        """Forget what was promised and not used in time."""
        for engine, kept in [*self._kept.items()]:
            for one in kept:
                if one.until <= at and not one.was_asked:
                    self._passed[engine, one.origin] = at + PASSED_S
            self._keep(engine, [one for one in kept if one.until > at])
        if self._passed:
            self._passed = {key: until for key, until in self._passed.items() if until > at}

    def _keep(self, engine: EngineId, kept: list[_Kept]) -> None:
        """These are what is promised of an engine; one of which nothing is has no entry."""
        if kept:
            self._kept[engine] = kept
        else:
            self._kept.pop(engine, None)

    def promise(
        self, engine: EngineId, free: int, wishes: Sequence[Wish], at: float, *, is_firm: bool = False
    ) -> list[NodeId]:
        """Promise what is free and not promised yet; returns who was newly promised something.

        ``free``: slots of the engine that hold nothing. What was promised beyond them is taken back: it has
        fewer now, or own clients came. ``is_firm``: what nobody asked for holds against these, too.
        """
        kept = self._kept.get(engine, [])[: max(free, 0)]
        newly: list[NodeId] = []
        held = Counter(one.origin for one in kept)
        while len(kept) < free:
            open_ones = [
                wish
                for wish in wishes
                if held[wish.origin] < wish.count
                and (wish.has_asked or (engine, wish.origin) not in self._passed)
            ]
            if not open_ones:
                break
            turn = max(open_ones, key=lambda wish: self._turn(wish, at))
            kept.append(_Kept(turn.origin, at + PROMISE_S, turn.has_asked, is_firm or turn.has_asked))
            self.served(turn.origin, turn.tokens, at)
            newly.append(turn.origin)
            held[turn.origin] += 1
        self._keep(engine, kept)
        return newly

    def unserved_s(self, origin: NodeId, waited_s: float, at: float) -> float:
        """How long an origin whose oldest request waited so long got nothing here."""
        served_at = self._served_at.get(origin)
        return waited_s if served_at is None else min(waited_s, at - served_at)

    def _turn(self, wish: Wish, at: float) -> tuple[int, bool, float, float]:
        unserved_s = self.unserved_s(wish.origin, wish.waited_s, at)
        return int(unserved_s), wish.has_prefix_here, -self._given.get(wish.origin, 0.0), unserved_s

    def served(self, origin: NodeId, tokens: float, at: float) -> None:
        """Note that an origin was given a slot for so much work."""
        self._served_at[origin] = at
        self._served_at.move_to_end(origin)
        self._given[origin] = self._given.get(origin, min(self._given.values(), default=0.0)) + tokens
        if len(self._served_at) > ORIGINS:
            gone, _ = self._served_at.popitem(last=False)
            self._given.pop(gone, None)

    def use(self, engine: EngineId, origin: NodeId, tokens: float, at: float) -> None:
        """A request of an origin took a slot: one of its promises is kept, or it had its turn without."""
        kept = self._kept.get(engine, [])
        for one in kept:
            if one.origin == origin:
                kept.remove(one)
                self._keep(engine, kept)
                return
        self.served(origin, tokens, at)

    def withdraw(self, origin: NodeId, *, made_before: float) -> None:
        """An origin wants nothing any more, or began a new life."""
        for engine, kept in [*self._kept.items()]:
            left = [one for one in kept if one.origin != origin or one.until - PROMISE_S > made_before]
            self._keep(engine, left)

    def count(self, engine: EngineId) -> int:
        """How many slots of an engine are promised."""
        return len(self._kept.get(engine, ()))

    def promises(self, engine: EngineId, at: float) -> tuple[Promise, ...]:
        """What is promised now, as the state document says it."""
        return tuple(
            Promise(one.origin, one.until - at) for one in self._kept.get(engine, ()) if one.until > at
        )

    def kept_from(self, engine: EngineId, origin: NodeId | None, at: float) -> list[float]:
        """Seconds for which each slot is promised to another than ``origin``; None: than own clients.

        These need not wait for guests who did not ask for this place.
        """
        if origin is not None:
            return kept_from(origin, self.promises(engine, at), 0.0)
        return [one.until - at for one in self._kept.get(engine, ()) if one.is_firm and one.until > at]

    def next_end(self, at: float) -> float | None:
        """When the next promise lapses."""
        if not self._kept:
            return None
        ends = (one.until for kept in self._kept.values() for one in kept if one.until > at)
        return min(ends, default=None)


def kept_from(origin: NodeId | None, promises: Iterable[Promise], age_s: float) -> list[float]:
    """Seconds for which slots are promised to others than ``origin``, by a document of that age."""
    return [one.for_s - age_s for one in promises if one.origin != origin and one.for_s > age_s]
