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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pairproxy.core.bursts import Burst, Bursts
from pairproxy.core.lengths import MOST_DEVIATIONS, Lengths, Unlikely
from pairproxy.core.models import Candidate, ModelName, Place, Request
from pairproxy.core.plan import Occupancy
from pairproxy.core.running import Running

ACCEPTED = 0.3  # the most at which no burst in two hundred ended late (docs/scheduling.md: what was tried)
SMALL = 8.0  # requests; of a larger burst more are sent away, and what is accepted is shared among them
ALIKE_SPREAD = 0.1  # of the logarithm of their lengths, at most: equal tasks have about equal replies
LUCK = 0.3  # over the root of how many are ahead at home: this part of their time may be missing
SLOWER = 1.05  # times the seconds of a mean reply at home: such a place is a slower one


class Bound(NamedTuple):
    """A reply ``times`` as long as the mean ends at home so many seconds from now."""

    times: float
    ends_s: float


class Risks:
    """Prices the candidates of one walk over the queue, in its order."""

    def __init__(
        self,
        bursts: Bursts,
        waiting: int,
        running: Sequence[tuple[Running, Lengths]],
        occupancies: Mapping[Place, Occupancy],
        at: float,
        is_rescued: bool = False,
    ) -> None:
        self._bursts = bursts
        self._behind = waiting
        self._running = running
        self._occupancies = occupancies
        self._at = at
        self._is_rescued = is_rescued
        self._under_way: dict[tuple[Place, ModelName], float] = {}
        self.settles_at: float | None = None  # when something may be sent away that may not yet

    def turn_to_next(self) -> None:
        """What follows is about the next request of the queue."""
        self._behind -= 1

    def burst_of(self, request: Request) -> Burst | None:
        """The burst that a long reply to the request may hold up; None: there is none."""
        return self._bursts.held_up_by(request)

    def priced(self, request: Request, lengths: Lengths, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates of a request with their ``margin_s``."""
        burst = self.burst_of(request)
        if burst is None or len(candidates) < 2:
            return candidates
        home = min(candidates, key=lambda one: self._all_s(one, burst.size))
        bounds = self.bounds(request, lengths, burst, home)
        if not bounds:
            return candidates
        return [self._judged(one, home, burst, bounds) for one in candidates]

    def bounds(self, request: Request, lengths: Lengths, burst: Burst, home: Candidate) -> tuple[Bound, ...]:
        """What another place must keep to get the request of a burst. Nothing: any place may get it.

        The first is for a burst of any state, the second (if there is one) for one that is all here.
        """
        if self._is_rescued and home.slots == 1 and not request.is_streaming:
            return ()  # a straggler is taken back home in time (core.rescue)
        unlikely = self._unlikely(request, lengths)
        mean = min(lengths.mean(request.max_output_tokens), unlikely.mean)
        limit = math.inf if request.max_output_tokens is None else float(request.max_output_tokens)
        there = self._occupancies[home.place]
        # The wait at home may turn out to be shorter than expected.
        luck = LUCK * (0.0 if unlikely.spread <= ALIKE_SPREAD else 1.0) / math.sqrt(max(there.in_flight, 1))
        wait_s, before_s = home.wait_s * (1.0 - luck), home.load_s + home.prefill_s

        def bound(deviations: float) -> Bound:
            times = min(unlikely.tokens(deviations), limit) / mean
            return Bound(times, wait_s + there.lasts_s(before_s, home.alone_s * times))

        most = bound(MOST_DEVIATIONS)
        accepted = ACCEPTED * min(1.0, SMALL / burst.most)
        gained = self._gain_s(home) / self._whole_s(home, burst)
        allowed = accepted * gained - self._outstanding(home, request)
        return (most, bound(unlikely.deviations(allowed))) if allowed > 0.0 else (most,)

    def keeps(self, bound: Bound, there: Occupancy, before_s: float, alone_s: float) -> bool:
        """Whether a long reply would end there, in full company, before it would have ended at home."""
        company = min(there.slots, there.in_flight + 1 + self._behind)
        slowness = 1.0 + there.beta * (company - 1)
        return before_s + alone_s * bound.times * slowness <= bound.ends_s

    def _judged(self, one: Candidate, home: Candidate, burst: Burst, bounds: tuple[Bound, ...]) -> Candidate:
        if one is home or not one.is_free or one.finish_s >= home.finish_s:
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
        return replace(one, margin_s=home.finish_s - one.finish_s + home.margin_s + self._gain_s(home))

    def _gain_s(self, home: Candidate) -> float:
        """Seconds that a burst is over sooner for each request that goes elsewhere."""
        return home.alone_s * self._slowness(home.place, home.slots) / home.slots

    def _whole_s(self, home: Candidate, burst: Burst) -> float:
        return self._at - burst.began_at + max(self._all_s(home, burst.size), self._gain_s(home))

    def _unlikely(self, request: Request, lengths: Lengths) -> Unlikely:
        return lengths.unlikely(ALIKE_SPREAD if self._bursts.of(request).is_alike else math.inf)

    def _all_s(self, one: Candidate, count: int) -> float:
        """Seconds that ``count`` requests like it would take at its place alone."""
        return one.load_s + one.alone_s * self.rounds(one.place, one.slots, count) + one.read_s * count

    def rounds(self, place: Place, slots: int, count: int) -> float:
        """How many times as long as one alone ``count`` requests decode at a place alone."""
        return self._slowness(place, min(count, slots)) * max(1.0, count / slots)

    def _slowness(self, place: Place, company: int) -> float:
        return 1.0 + self._occupancies[place].beta * (company - 1)

    def _outstanding(self, home: Candidate, request: Request) -> float:
        """The chance that a reply under way at a slower place ends after what is to be done at home.

        Asked once a walk: who stands behind ends later at home, so that it is not more.
        """
        key = home.place, request.model
        if key not in self._under_way:
            self._under_way[key] = self._chance_under_way(home, request)
        return self._under_way[key]

    def _chance_under_way(self, home: Candidate, request: Request) -> float:
        fast = home.alone_s * self._slowness(home.place, home.slots)
        chance = 0.0
        for running, lengths in self._running:
            place, limit = running.place, running.request.max_output_tokens
            occupancy = self._occupancies.get(place)
            is_other = running.request.model != request.model or running.request.origin is not None
            if place == home.place or occupancy is None or is_other:
                continue
            rate = running.rates.decode / self._slowness(place, occupancy.slots)
            mean = lengths.mean(limit)
            if mean / rate <= SLOWER * fast:
                continue
            done = running.tokens_by_now()
            most = done + home.finish_s * rate
            if limit is None or most < limit:
                unlikely = self._unlikely(running.request, lengths)
                chance += unlikely.above(most) / max(unlikely.above(done), 1e-6)
        return chance
