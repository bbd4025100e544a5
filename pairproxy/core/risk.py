"""What it may cost that a reply is long: whether a request of a burst may leave the node best for all of it.

A burst is over when its last reply is. At its home, the place that would be done with all of it soonest, a
long reply hurts least; on a slower one it holds up everything, and one node alone would have been faster.
So another place is asked: how likely is a reply so long that it ends there, in full company, after it would
have ended at home? That chance may be ACCEPTED times the part of the burst's time that is gained by sending
one request away; beyond, the candidate's margin makes home the better one. Requests that are not part of a
burst go by what is expected alone.

Lengths are taken as log-normal, as those of published chat traffic are (Lengths.unlikely).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pairproxy.core.bursts import Burst, Bursts
from pairproxy.core.lengths import MOST_DEVIATIONS, Lengths, Unlikely
from pairproxy.core.models import Candidate, ModelName, Place, Request
from pairproxy.core.plan import Occupancy
from pairproxy.core.running import Running

ACCEPTED = 0.3  # the most at which no burst in a hundred ended late (docs/scheduling.md: what was tried)
ALIKE_SPREAD = 0.1  # of the logarithm of their lengths, at most: equal tasks have about equal replies
LUCK = 0.3  # over the root of how many are ahead at home: this part of their time may be missing
SLOWER = 1.05  # times the seconds of a mean reply at home: such a place is a slower one


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

    def priced(self, request: Request, lengths: Lengths, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates of the next request of the queue with their ``margin_s``."""
        self._behind -= 1
        burst = self._bursts.of(request)
        if not burst.is_fan_out or len(candidates) < 2 or request.max_output_tokens == 0:
            return candidates  # a reply without a token (an embedding) is never long
        home = min(candidates, key=lambda one: self._all_s(one, burst.size))
        if self._is_rescued and home.slots == 1 and not request.is_streaming:
            return candidates  # a straggler is taken back home in time (core.rescue)
        unlikely = self._unlikely(request, lengths)
        return [self._judged(one, home, burst, unlikely, lengths, request) for one in candidates]

    def _judged(
        self,
        one: Candidate,
        home: Candidate,
        burst: Burst,
        unlikely: Unlikely,
        lengths: Lengths,
        request: Request,
    ) -> Candidate:
        if one is home or not one.is_free or one.finish_s >= home.finish_s:
            return one
        is_late = self._lateness(one, home, unlikely, lengths.mean(request.max_output_tokens), request)
        if not is_late(MOST_DEVIATIONS):
            return one
        gain_s = home.alone_s * self._slowness(home.place, home.slots) / home.slots
        whole_s = self._at - burst.began_at + max(self._all_s(home, burst.size), gain_s)
        allowed = ACCEPTED * gain_s / whole_s - self._outstanding(home, request)
        if allowed > 0.0 and not is_late(unlikely.deviations(allowed)):
            if burst.settles_at() <= self._at:
                return one
            self.settles_at = min(burst.settles_at(), self.settles_at or math.inf)
        return replace(one, margin_s=home.finish_s - one.finish_s + home.margin_s + gain_s)

    def _unlikely(self, request: Request, lengths: Lengths) -> Unlikely:
        return lengths.unlikely(ALIKE_SPREAD if self._bursts.of(request).is_alike else math.inf)

    def _all_s(self, one: Candidate, count: int) -> float:
        """Seconds that ``count`` requests like it would take at its place alone."""
        company = min(count, one.slots)
        rounds = max(1.0, count / one.slots)
        return one.load_s + one.alone_s * self._slowness(one.place, company) * rounds + one.read_s * count

    def _slowness(self, place: Place, company: int) -> float:
        return 1.0 + self._occupancies[place].beta * (company - 1)

    def _lateness(
        self, one: Candidate, home: Candidate, unlikely: Unlikely, mean: float, request: Request
    ) -> Callable[[float], bool]:
        """Whether a reply so many deviations above the middle ends there later than it would have at home.

        The wait at home may turn out to be shorter than expected.
        """
        there = self._occupancies[home.place]
        luck = LUCK * (0.0 if unlikely.spread <= ALIKE_SPREAD else 1.0) / math.sqrt(max(there.in_flight, 1))
        wait_s, mean = home.wait_s * (1.0 - luck), min(mean, unlikely.mean)
        slowness = self._slowness(one.place, min(one.slots, one.in_flight + 1 + self._behind))
        limit = math.inf if request.max_output_tokens is None else float(request.max_output_tokens)

        def is_late(deviations: float) -> bool:
            times = min(unlikely.tokens(deviations), limit) / mean
            ends_s = one.load_s + one.prefill_s + one.alone_s * times * slowness
            return ends_s > wait_s + there.lasts_s(home.load_s + home.prefill_s, home.alone_s * times)

        return is_late

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
