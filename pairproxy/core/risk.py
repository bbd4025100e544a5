"""What it may cost that a reply is long: whether a request of a burst may leave the node best for all of it.

A burst is over when its last reply is. At its home, the place that would be done with all of it soonest, a
long reply hurts least; on a slower one it holds up everything, and one node alone would have been faster.
So another place is asked: how likely is a reply so long that it ends there, in full company, after it would
have ended at home? That chance may be ACCEPTED times the part of the burst's time that is gained by sending
one request away, and less in a burst of more than SMALL; beyond, the candidate's margin makes home the better
one. Requests that are not part of a burst go by what is expected alone.

Lengths are taken as log-normal, as those of published chat traffic are (Lengths.unlikely).
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from pairproxy.core.bursts import Burst, Bursts
from pairproxy.core.lengths import Lengths
from pairproxy.core.models import Candidate, ModelName, Place, Request
from pairproxy.core.plan import Occupancy
from pairproxy.core.running import Running
from pairproxy.core.unlikely import MOST_DEVIATIONS, Unlikely

ACCEPTED = 0.2  # the most at which no burst in two hundred ended late (docs/scheduling.md: what was tried)
SMALL = 12.0  # requests; of a larger burst more are sent away, and what is accepted is shared among them
ALIKE_SPREAD: Final = 0.1  # of the logarithm of their lengths, at most: equal tasks have about equal replies
LUCK: Final = 0.3  # over the root of how many are ahead at home: this part of their time may be missing
SLOWER: Final = 1.05  # times the seconds of a mean reply at home: such a place is a slower one


class Bound(NamedTuple):
    """A reply ``times`` as long as the mean ends at home so many seconds from now."""

    times: float
    ends_s: float


class Home(NamedTuple):
    """The place that would be done with a burst soonest, and the seconds of one request there (Candidate)."""

    occupancy: Occupancy
    before_s: float  # of loading and reading
    alone_s: float
    finish_s: float
    all_s: float  # of as many like it as the burst has left


class _Tail(NamedTuple):
    """How long replies of a kind may be, for one walk."""

    unlikely: Unlikely
    mean: float
    limit: float
    luck: float
    most_times: float  # the mean, at MOST_DEVIATIONS


class Risks:
    """Prices the candidates of one walk over the queue, in its order."""

    def __init__(
        self,
        bursts: Bursts,
        waiting: int,
        running: Iterable[Running],
        lengths: Callable[[Request], Lengths],
        occupancies: Mapping[Place, Occupancy],
        at: float,
        is_rescued: bool = False,
    ) -> None:
        self._bursts = bursts
        self._behind = waiting
        self._running = running
        self._lengths = lengths
        self._occupancies = occupancies
        self._at = at
        self._is_rescued = is_rescued
        self._under_way: dict[tuple[Place, ModelName], float] = {}
        self._tails: dict[tuple[Lengths, bool, int | None], _Tail] = {}  # at most one a request
        self.settles_at: float | None = None  # when something may be sent away that may not yet

    def turn_to_next(self) -> None:
        """What follows is about the next request of the queue."""
        self._behind -= 1

    def burst_of(self, request: Request) -> Burst | None:
        """The burst that a long reply to the request may hold up; None: there is none."""
        return self._bursts.held_up_by(request)

    def priced(self, request: Request, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates of a request with their ``margin_s``."""
        burst = self.burst_of(request)
        if burst is None or len(candidates) < 2:
            return candidates
        home = min(candidates, key=lambda one: self._all_s(one, burst.size))
        if not self._behind and not any(_is_rival(one, home) for one in candidates):
            return candidates  # who stands behind would go by the chance that is reckoned for the first
        bounds = self.bounds(request, self._lengths(request), burst, self._home(home, burst))
        if not bounds:
            return candidates
        return [self._judged(one, home, burst, bounds) for one in candidates]

    def bounds(self, request: Request, lengths: Lengths, burst: Burst, home: Home) -> tuple[Bound, ...]:
        """What another place must keep to get the request of a burst. Nothing: any place may get it.

        The first is for a burst of any state, the second (if there is one) for one that is all here.
        """
        there = home.occupancy
        if self._is_rescued and there.slots == 1 and not request.is_streaming:
            return ()  # a straggler is taken back home in time (core.rescue)
        tail = self._tail(lengths, burst.is_alike, request.max_output_tokens)
        # The wait at home may turn out to be shorter than expected.
        wait_s = there.wait_s * (1.0 - tail.luck / math.sqrt(max(there.in_flight, 1)))

        def bound(times: float) -> Bound:
            return Bound(times, wait_s + there.lasts_s(home.before_s, home.alone_s * times))

        most = bound(tail.most_times)
        accepted = ACCEPTED * min(1.0, SMALL / burst.most)
        gain_s = _gain_s(home.alone_s, there)
        gained = gain_s / (self._at - burst.began_at + max(home.all_s, gain_s))
        allowed = accepted * gained - self._outstanding(home, request)
        if allowed <= 0.0:
            return (most,)
        return most, bound(_times(tail.unlikely, tail.unlikely.deviations(allowed), tail.limit, tail.mean))

    def keeps(self, bound: Bound, there: Occupancy, before_s: float, alone_s: float) -> bool:
        """Whether a long reply would end there, in full company, before it would have ended at home."""
        company = min(there.slots, there.in_flight + 1 + self._behind)
        slowness = 1.0 + there.beta * (company - 1)
        return before_s + alone_s * bound.times * slowness <= bound.ends_s

    def _judged(self, one: Candidate, home: Candidate, burst: Burst, bounds: tuple[Bound, ...]) -> Candidate:
        if not _is_rival(one, home):
            return one
        keeps = [
            self.keeps(bound, self._occupancies[one.place], one.load_s + one.prefill_s, one.alone_s)
            for bound in bounds
        ]
        if keeps[0]:
            return one
        if keeps[-1]:
            if burst.settles_at() <= self._at:
                return one
            self.settles_at = min(burst.settles_at(), self.settles_at or math.inf)
        gain_s = _gain_s(home.alone_s, self._occupancies[home.place])
        return replace(one, margin_s=home.finish_s - one.finish_s + home.margin_s + gain_s)

    def _home(self, one: Candidate, burst: Burst) -> Home:
        occupancy, before_s = self._occupancies[one.place], one.load_s + one.prefill_s
        return Home(occupancy, before_s, one.alone_s, one.finish_s, self._all_s(one, burst.size))

    def _tail(self, lengths: Lengths, is_alike: bool, most_tokens: int | None) -> _Tail:
        key = lengths, is_alike, most_tokens
        tail = self._tails.get(key)
        if tail is None:
            unlikely = _unlikely(lengths, is_alike)
            mean = min(lengths.mean(most_tokens), unlikely.mean)
            limit = math.inf if most_tokens is None else float(most_tokens)
            luck = LUCK * (0.0 if unlikely.spread <= ALIKE_SPREAD else 1.0)
            most_times = _times(unlikely, MOST_DEVIATIONS, limit, mean)
            tail = self._tails[key] = _Tail(unlikely, mean, limit, luck, most_times)
        return tail

    def _all_s(self, one: Candidate, count: int) -> float:
        """Seconds that ``count`` requests like it would take at its place alone."""
        return one.load_s + one.alone_s * self.rounds(one.place, one.slots, count) + one.read_s * count

    def rounds(self, place: Place, slots: int, count: int) -> float:
        """How many times as long as one alone ``count`` requests decode at a place alone."""
        return _slowness(self._occupancies[place], min(count, slots)) * max(1.0, count / slots)

    def _outstanding(self, home: Home, request: Request) -> float:
        """The chance that a reply under way at a slower place ends after what is to be done at home.

        Asked once a walk: who stands behind ends later at home, so that it is not more.
        """
        key = home.occupancy.place, request.model
        if key not in self._under_way:
            self._under_way[key] = self._chance_under_way(home, request)
        return self._under_way[key]

    def _chance_under_way(self, home: Home, request: Request) -> float:
        there = home.occupancy
        fast = home.alone_s * _slowness(there, there.slots)
        chance = 0.0
        for running in self._running:
            place, limit = running.place, running.request.max_output_tokens
            is_other = running.request.model != request.model or running.request.origin is not None
            if is_other or place == there.place or (occupancy := self._occupancies.get(place)) is None:
                continue
            lengths = self._lengths(running.request)
            rate = running.rates.decode / _slowness(occupancy, occupancy.slots)
            mean = lengths.mean(limit)
            if mean / rate <= SLOWER * fast:
                continue
            done = running.tokens_by_now()
            most = done + home.finish_s * rate
            if limit is None or most < limit:
                unlikely = _unlikely(lengths, self._bursts.of(running.request).is_alike)
                chance += unlikely.above(most) / max(unlikely.above(done), 1e-6)
        return chance


def _is_rival(one: Candidate, home: Candidate) -> bool:
    """Whether it would be chosen before the home of a burst, if that were all."""
    return one is not home and one.is_free and one.finish_s < home.finish_s


def _slowness(occupancy: Occupancy, company: int) -> float:
    return 1.0 + occupancy.beta * (company - 1)


def _unlikely(lengths: Lengths, is_alike: bool) -> Unlikely:
    return lengths.unlikely(ALIKE_SPREAD if is_alike else math.inf)


def _gain_s(alone_s: float, home: Occupancy) -> float:
    """Seconds that a burst is over sooner for each request that goes elsewhere."""
    return alone_s * _slowness(home, home.slots) / home.slots


def _times(unlikely: Unlikely, deviations: float, limit: float, mean: float) -> float:
    """How many times the mean a reply so many standard deviations above the middle is long."""
    return min(unlikely.tokens(deviations), limit) / mean
