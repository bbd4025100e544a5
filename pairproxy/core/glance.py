"""Whether a request waits in any case: seen in numbers alone, without a candidate for every place.

The plan of a long queue asks that of each request while a slow slot stays free. Most wait for a faster place,
and of these only the place matters. The numbers are those that prices are made of (core.plan, core.risk);
what would take too long without any company is not looked at closer.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pairproxy.core.affinity import ABOUT_BEST, BAND, BAND_S, HELD_PART, KAPPA
from pairproxy.core.avoidance import Avoidance
from pairproxy.core.bursts import Burst
from pairproxy.core.documents import ReplicaState
from pairproxy.core.holders import Holders
from pairproxy.core.lengths import Lengths
from pairproxy.core.models import Place, Request
from pairproxy.core.plan import Occupancy
from pairproxy.core.prefix_view import PrefixView
from pairproxy.core.risk import Bound, Home, Risks


class Ahead(NamedTuple):
    """The busy place at which a request would be done first; the seconds are those of Occupancy.take."""

    occupancy: Occupancy
    before_s: float
    alone_s: float


class _Sight(NamedTuple):
    """A place for requests of a kind: tokens/s, seconds; ``rounds`` as of Risks."""

    occupancy: Occupancy
    prefill: float
    decode: float
    load_s: float
    evicts_s: float
    rounds: float
    state: ReplicaState
    number: int


class _Needs(NamedTuple):
    """What a request needs. ``held``: tokens of its prompt by sight; ``best``: the most, if that counts."""

    request: Request
    lengths: Lengths
    burst: Burst | None
    prompt: int
    output: float
    held: Sequence[int]
    best: int

    def read_s(self, sight: _Sight) -> float:
        """Seconds of reading its prompt there alone."""
        held = self.held[sight.number] if self.held else 0
        return (self.prompt - held) / sight.prefill


_Priced = tuple[float, float, float, float]
"""(price, before it decodes, decoding alone, lasting): seconds; see core.affinity and Occupancy.lasts_s."""
_NOWHERE: _Priced = (math.inf, 0.0, 0.0, 0.0)


class Glance:
    """The places as one walk over the queue sees them."""

    def __init__(
        self,
        holders: Holders,
        avoidance: Avoidance,
        prefixes: PrefixView,
        risks: Risks,
        occupancies: Mapping[Place, Occupancy],
        at: float,
    ) -> None:
        self._holders = holders
        self._avoidance = avoidance
        self._prefixes = prefixes
        self._risks = risks
        self._occupancies = occupancies
        self._at = at
        self._known: dict[tuple[object, ...], list[_Sight]] = {}

    def ahead(self, request: Request, excluded: Collection[Place], lengths: Lengths) -> Ahead | None:
        """The busy place where it would be done first; None: a free one may be sooner, or there is none."""
        burst = self._risks.burst_of(request)
        sights = self._sights(request, excluded, burst)
        needs = self._needs(request, lengths, burst, sights)
        prompt, output, held = needs.prompt, needs.output, needs.held
        is_varied = bool(held) and not needs.best
        least_s, least, best, free = math.inf, _NOWHERE, -1, []
        for index, sight in enumerate(sights):
            occupancy, prefill, decode, load_s, evicts_s, _, _, number = sight
            read_s = (prompt - (held[number] if held else 0)) / prefill
            floor_s = occupancy.wait_s + load_s + evicts_s + read_s + output / decode
            if occupancy.wait_s <= 0.0:
                free.append(((floor_s - BAND_S) / (1.0 + BAND) if is_varied else floor_s, sight))
            elif floor_s < least_s:
                priced = _priced(sight, needs)
                if priced[0] < least_s:
                    least_s, least, best = priced[0], priced, index
        tempting = [sight for floor_s, sight in free if floor_s < least_s]
        if best < 0 or self._is_any_better(sights[best], least, tempting, sights, needs):
            return None
        _, before_s, alone_s, _ = least
        ahead = Ahead(sights[best].occupancy, before_s, alone_s)
        if best and not excluded:
            sights.insert(0, sights.pop(best))  # the best of one is often that of the next
        return ahead

    def _is_any_better(
        self,
        best: _Sight,
        least: _Priced,
        tempting: Sequence[_Sight],
        sights: Sequence[_Sight],
        needs: _Needs,
    ) -> bool:
        """Whether a free place may get it: it is done sooner there, and no burst is held up by that."""
        if not tempting:
            return False
        if needs.burst is not None and len(sights) > 1:
            bounds = self._bounds(needs.burst, sights, needs, best, least)
            if bounds and not any(self._keeps(bound, one, needs) for bound in bounds for one in tempting):
                return False
        return any(_priced(one, needs)[0] < least[0] for one in tempting)

    def _bounds(
        self, burst: Burst, sights: Sequence[_Sight], needs: _Needs, best: _Sight, least: _Priced
    ) -> tuple[Bound, ...]:
        """What a free place must keep to get it; nothing where that cannot be said without all prices."""
        count, prompt, output, held = burst.size, needs.prompt, needs.output, needs.held
        home, all_s = sights[0], math.inf
        for one in sights:
            _, prefill, decode, load_s, _, rounds, _, number = one
            read_s = (prompt - (held[number] if held else 0)) / prefill
            one_s = load_s + output / decode * rounds + read_s * count
            if one_s < all_s:
                home, all_s = one, one_s
        occupancy = home.occupancy
        if occupancy.wait_s <= 0.0:
            return ()
        price_s, before_s, alone_s, lasts_s = least if home is best else _priced(home, needs)
        # In the order of Candidate.finish_s, to the last digit: both ways must come to the same.
        finish_s = occupancy.wait_s + (before_s + (lasts_s - home.load_s - needs.read_s(home)))
        if price_s > finish_s:
            return ()
        seen = Home(occupancy, before_s, alone_s, finish_s, all_s)
        return self._risks.bounds(needs.request, needs.lengths, burst, seen)

    def _keeps(self, bound: Bound, one: _Sight, needs: _Needs) -> bool:
        before_s = one.load_s + needs.read_s(one)
        return self._risks.keeps(bound, one.occupancy, before_s, needs.output / one.decode)

    def _needs(
        self, request: Request, lengths: Lengths, burst: Burst | None, sights: Sequence[_Sight]
    ) -> _Needs:
        output = lengths.mean(request.max_output_tokens)
        if not request.prefix:
            return _Needs(request, lengths, burst, request.prompt_tokens, output, (), 0)
        held = [0] * len(sights)
        for one in sights:
            if one.state.is_loaded:
                place, wait_s = one.occupancy.place, one.occupancy.wait_s
                held[one.number] = self._prefixes.cached_tokens(request, place, wait_s)
        best = max(held, default=0)
        is_home = best >= HELD_PART * request.prompt_tokens
        return _Needs(request, lengths, burst, request.prompt_tokens, output, held, best if is_home else 0)

    def _sights(self, request: Request, excluded: Collection[Place], burst: Burst | None) -> list[_Sight]:
        if excluded:
            return self._look(request, excluded, burst)
        kind = (*self._holders.kind(request), id(burst))
        if kind not in self._known:
            self._known[kind] = self._look(request, excluded, burst)
        return self._known[kind]

    def _look(self, request: Request, excluded: Collection[Place], burst: Burst | None) -> list[_Sight]:
        places, at = self._holders.places(request, excluded, self._at), self._at
        usable = [one for one in places if not self._avoidance.is_left_alone(one[0], at)]
        usable = usable or [*places]
        sights: list[_Sight] = []
        for place, state in usable:
            rates, occupancy = state.rates, self._occupancies[place]
            load_s = 0.0 if state.is_loaded else rates.load_s
            evicts_s = load_s if load_s > 0.0 and self._holders.runners.evicts(request, place) else 0.0
            rounds = 0.0 if burst is None else self._risks.rounds(place, occupancy.slots, burst.size)
            sights.append(
                _Sight(occupancy, rates.prefill, rates.decode, load_s, evicts_s, rounds, state, len(sights))
            )
        return sights


def _priced(one: _Sight, needs: _Needs) -> _Priced:
    alone_s, occupancy = needs.output / one.decode, one.occupancy
    read_s = needs.read_s(one)
    prefill_s = occupancy.reading_s(read_s)
    before_s = one.load_s + prefill_s
    lasts_s = occupancy.lasts_s(before_s, alone_s)
    price_s = occupancy.wait_s + lasts_s + one.evicts_s
    if needs.burst is None:
        price_s += prefill_s - read_s
    if needs.best:
        held = needs.held[one.number]
        if held < ABOUT_BEST * needs.best:
            price_s += KAPPA * prefill_s * (needs.best - held) / max(needs.prompt - held, 1)
    elif needs.held and occupancy.wait_s <= 0.0:
        price_s = (price_s - BAND_S) / (1.0 + BAND)
    return price_s, before_s, alone_s, lasts_s
