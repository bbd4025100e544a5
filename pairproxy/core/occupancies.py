"""When each place has a free slot, found out place by place, and only of those that somebody asks for.

Where few run, what is left of each is reckoned anew for every plan. Where many do that alone would cost
milliseconds an event, and a single one matters less: there it is reckoned now and then (EACH_S); meanwhile
who comes is put in, and who ends is taken out.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pairproxy.core.avoidance import Avoidance
from pairproxy.core.documents import EngineState
from pairproxy.core.lengths import Lengths
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import AttemptId, ModelName, NodeId, Place, Rates
from pairproxy.core.nodes import NodeTable
from pairproxy.core.plan import MIN_REMAINING_S, Occupancy
from pairproxy.core.promises import PromiseBook, kept_from
from pairproxy.core.running import Listener, Running, RunningTable

FEW: Final = 16  # that run at one place: so many are looked at for every plan, in a few microseconds each
EACH_S: Final = 0.001  # between two looks at more, for each of them: less than a hundredth of all time
MOST_PLACES: Final = 1024  # whose beta is in mind; a cluster has tens


@dataclass(slots=True)
class _Many:
    """What is left of many at one place, as of the last look: seconds alone, sorted."""

    looked_at: float
    heard_at: float | None  # when its node told of others' requests there; None: it is this node
    ends: list[float] = field(default_factory=list)
    reading: list[float] = field(default_factory=list)  # of those that read now
    each: dict[AttemptId, tuple[float, float]] = field(default_factory=dict)  # (reading, all)

    def put_in(self, attempt: AttemptId, reading_s: float, left_s: float) -> None:
        self.each[attempt] = reading_s, left_s
        insort(self.ends, left_s)
        if reading_s > 0.0:
            insort(self.reading, reading_s)

    def has_read(self, attempt: AttemptId) -> None:
        known = self.each.get(attempt)
        if known is not None and known[0] > 0.0:
            del self.reading[bisect_left(self.reading, known[0])]
            self.each[attempt] = 0.0, known[1]

    def take_out(self, attempt: AttemptId) -> None:
        known = self.each.pop(attempt, None)
        if known is None:
            return
        reading_s, left_s = known
        del self.ends[bisect_left(self.ends, left_s)]
        if reading_s > 0.0:
            del self.reading[bisect_left(self.reading, reading_s)]


class _Told:
    """What is known of a place beside what runs there for us."""

    def __init__(
        self, slots: int, kept_s: Sequence[float], heard_at: float | None, state: EngineState | None
    ) -> None:
        self.slots = slots
        self.kept_s = kept_s  # of slots that are promised to others
        self.heard_at = heard_at  # None: it is this node
        self.state = state  # None as well
        # Of others' requests, as their node expected them at heard_at.
        self.frees_in_s: Sequence[float] = () if state is None else state.frees_in_s


class SlotTable(Listener):
    """Who runs at each place and is expected there, for whoever plans. Hears of what begins and ends."""

    def __init__(
        self,
        local: LocalEngines,
        nodes: NodeTable,
        running: RunningTable,
        avoidance: Avoidance,
        promises: PromiseBook,
    ) -> None:
        self._local = local
        self._nodes = nodes
        self._running = running
        self._avoidance = avoidance
        self._promises = promises
        self._many: dict[Place, _Many] = {}  # of places at which more than FEW ran when they were asked for
        self._betas: dict[Place, tuple[object, float]] = {}  # and of which rates

    def look(self, at: float, origin: NodeId | None = None) -> "Occupancies":
        """Every known place with the seconds until each of its slots is free for ``origin`` (None: us).

        A slot that is promised to another is busy until the promise ends; so is a place that said "not now".
        """
        return Occupancies(self, at, origin)

    def places(self) -> list[Place]:
        """Every known place, this node's first."""
        return [*self._local.slots(), *self._nodes.places()]

    def occupancy(self, place: Place, at: float, origin: NodeId | None) -> Occupancy:
        """One of them; KeyError for a place that is not known."""
        there = self._built(place, self._told(place, at, origin), at)
        if len(self._avoidance):
            if self._avoidance.is_in_trouble(place):
                there.slots = min(there.slots, there.in_flight + 1)  # one at a time tries it
            there.wait_s = max(there.wait_s, self._avoidance.held_back_s(place, at))
        return there

    def is_free(self, place: Place, at: float) -> bool:
        """Whether a slot there is free now; by counting, not by what is left of those that run."""
        told = self._told(place, at, None)
        taken = self._running.count(place) + len(told.frees_in_s) + len(told.kept_s)
        return taken < told.slots and self._avoidance.held_back_s(place, at) <= 0.0

    def _told(self, place: Place, at: float, origin: NodeId | None) -> _Told:
        if place.node == self._local.own:
            kept = self._promises.kept_from(place.engine, origin, at) if self._promises.has_any else ()
            return _Told(self._local.slots()[place], kept, None, None)
        known = self._nodes.engine(place)
        if known is None:
            raise KeyError(place)
        state, heard_at = known
        promises = state.promises
        kept = kept_from(origin or self._local.own, promises, at - heard_at) if promises else ()
        return _Told(state.slots, kept, heard_at, state)

    # --- what begins and ends ---------------------------------------------------------------------------

    def sent(self, running: Running) -> None:
        """A request takes a slot."""
        many = self._many.get(running.place) if self._many else None
        if many is not None:
            self._put_in(many, running, running.dispatched_at)

    def begun(self, running: Running) -> None:
        """Its prompt is read."""
        many = self._many.get(running.place) if self._many else None
        if many is not None:
            many.has_read(running.attempt)

    def ended(self, running: Running) -> None:
        """It gives its slot back."""
        many = self._many.get(running.place) if self._many else None
        if many is not None:
            many.take_out(running.attempt)
            if not many.each:
                del self._many[running.place]

    # --- what is left -----------------------------------------------------------------------------------

    def _built(self, place: Place, told: _Told, at: float) -> Occupancy:
        slots, state = told.slots, told.state
        frees_in_s, kept_s, heard_at = told.frees_in_s, told.kept_s, told.heard_at
        beta = self._beta(place, self._local.all_rates(place.engine) if state is None else state)
        count = self._running.count(place)
        slowness = 1.0 + beta * max(count + len(frees_in_s) + len(kept_s) - 1, 0)
        if count + len(frees_in_s) > FEW:
            many = self._looked_at(place, frees_in_s, heard_at, slowness, at)
            ends = (
                many.ends
                if not kept_s
                else sorted([*many.ends, *[max(kept / slowness, MIN_REMAINING_S) for kept in kept_s]])
            )
            return Occupancy.of_sorted(place, slots, beta, ends, many.reading)
        if self._many:
            self._many.pop(place, None)
        if not count and not frees_in_s and not kept_s:
            return Occupancy(place, slots, beta)
        age_s = 0.0 if heard_at is None else at - heard_at
        left = [self._left(one, at) for one in self._running.at_place(place)]
        works = [left_s for _, left_s in left]
        works += [(seconds - age_s) / slowness for seconds in frees_in_s]
        works += [seconds / slowness for seconds in kept_s]
        return Occupancy.of(place, slots, beta, works, [one for one, _ in left if one > 0.0])

    def _looked_at(
        self, place: Place, frees_in_s: Sequence[float], heard_at: float | None, slowness: float, at: float
    ) -> _Many:
        many = self._many.get(place)
        look_s = EACH_S * self._running.count(place)  # the end of each may be misjudged by so much
        if many is not None and at < many.looked_at + look_s and many.heard_at == heard_at:
            return many
        age_s = 0.0 if heard_at is None else at - heard_at
        many = self._many[place] = _Many(at, heard_at)
        for running in self._running.at_place(place):
            self._put_in(many, running, at)
        many.ends += [max((seconds - age_s) / slowness, MIN_REMAINING_S) for seconds in frees_in_s]
        many.ends.sort()
        return many

    def _put_in(self, many: _Many, running: Running, at: float) -> None:
        reading_s, left_s = self._left(running, at)
        many.put_in(running.attempt, reading_s, max(left_s, MIN_REMAINING_S))

    def _left(self, running: Running, at: float) -> tuple[float, float]:
        return running.left_s(self._lengths(running), at)

    def _lengths(self, running: Running) -> Lengths:
        return self._local.costs.expected_lengths(running.request)

    def _beta(self, place: Place, source: EngineState | dict[ModelName, Rates]) -> float:
        """The largest of a place's models, looked for once as long as its rates are the same."""
        known = self._betas.get(place)
        if known is not None and known[0] is source:
            return known[1]
        if len(self._betas) >= MOST_PLACES:
            self._betas.clear()
        rates = source.values() if isinstance(source, dict) else [one.rates for one in source.replicas]
        beta = max((one.beta for one in rates), default=0.0)
        self._betas[place] = source, beta
        return beta


class Occupancies(Mapping[Place, Occupancy]):
    """The places at one moment. What a plan puts there is theirs alone."""

    def __init__(self, table: SlotTable, at: float, origin: NodeId | None) -> None:
        self._table = table
        self._at = at
        self._origin = origin
        self._known: dict[Place, Occupancy] = {}

    def __getitem__(self, place: Place) -> Occupancy:
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = self._table.occupancy(place, self._at, self._origin)
        return found

    def __iter__(self) -> Iterator[Place]:
        return iter(self._table.places())

    def __len__(self) -> int:
        return len(self._table.places())
