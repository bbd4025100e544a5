"""Where chains should go on, so that the last of them ends soonest: what a person waits for.

For each chain the work that is still to come is known as a distribution (core.chains). Some futures are drawn
from it, the same for every choice that is compared. In each of them a place that has chains needs

    max(all their work on its slots, the longest of them with its tool time) + a part of the smaller one

seconds, and the last place counts. The work of a step is its new prompt tokens over the prefill rate and its
reply over the decode rate. Where the chains' prompts together are more than a place keeps, each step reads a
part of its prompt anew, as much as does not fit: that, more than speed, decides when chains are sent away.

A chain goes elsewhere at the boundary of two steps only, and only when that is better on average and a part
of how much it would be worse in the worst fifth of the futures is added to its price.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from pairproxy.core.models import Place, Rates

FUTURES = 32  # that are drawn: with 16 the plan changes its mind too often, 128 are no better (measured)
IN_STEP = 0.3  # of the smaller of work and longest chain: they overlap, but not wholly (fitted to simulation)
WORST = 5  # one future in so many is among the worst
RISK = 0.3  # of the loss in these that counts beside the mean: with 0 chains move too often (measured)
PASSES = 2  # over the waiting chains, each of which may move once in each
MORE_TOKENS = 100.0  # that a reply longer than expected still takes
LEAST_GAIN_S = 5.0  # for less no chain is moved: the plan is not that exact


@dataclass(frozen=True, slots=True)
class Site:
    """A place as the plan sees it. ``room_tokens`` of prompts are kept; ``busy_s`` of other work is ahead."""

    place: Place
    rates: Rates
    slots: int
    room_tokens: int
    busy_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Rest:
    """What a chain still has to do.

    ``reads``: tokens of the present step's prompt that each place would have to read; empty where the step is
    under way or not here yet. ``work_s``: seconds until what is under way has been read. ``written``: tokens
    of its reply so far; None: the chain pauses, for ``pause_s`` more. ``more``: equally likely numbers of
    steps after the present one. Tokens of each reply but the last, of the last, and by which each further
    prompt is longer; seconds before each further step.
    """

    number: int
    home: Place
    reads: dict[Place, int]
    work_s: float
    written: float | None
    pause_s: float
    context: int  # tokens of the prompt
    more: Sequence[int]
    output: float
    last_output: float
    growth: float
    think_s: float

    def writes(self, steps: int) -> float:
        """Tokens of all replies still to come if so many steps follow the present one."""
        if self.written is None:
            return (steps - 1) * self.output + self.last_output if steps else 0.0
        if steps == 0:
            return max(self.last_output - self.written, MORE_TOKENS)
        present = max(self.output - self.written, MORE_TOKENS)
        return present + (steps - 1) * self.output + self.last_output

    def futures(self) -> list["_Future"]:
        """FUTURES of them, spread over the distribution, in an order of the chain's own."""
        count = len(self.more)
        drawn = [self.more[(2 * index + 1) * count // (2 * FUTURES)] for index in range(FUTURES)]
        Random(self.number).shuffle(drawn)
        known = {steps: self._future(steps) for steps in set(drawn)}
        return [known[steps] for steps in drawn]

    def _future(self, steps: int) -> "_Future":
        grown = steps * self.growth
        return _Future(
            context=self.context + grown / 2.0,
            again=steps * self.context + grown * (steps + 1) / 2.0,
            reads=grown,
            writes=self.writes(steps),
            idle_s=self.pause_s + steps * self.think_s,
        )


class _Future(NamedTuple):
    """A chain if so many more steps follow. In tokens; a tuple, as plans read thousands of them."""

    context: float  # of its prompt, in the middle of them
    again: float  # of the prompts of all these steps
    reads: float  # that are new in these
    writes: float
    idle_s: float  # without work for any place


Homes = dict[int, Place]
Losses = dict[int, dict[Place, float]]
"""For each chain that waits, how many seconds later all would end with it at each place; 0.0 at the best."""


def plan_homes(rests: Sequence[Rest], sites: Sequence[Site]) -> Losses:
    """Find the homes of the chains that wait (those with ``reads``); the others stay where they are."""
    return _Plan(rests, sites).settle()


class _Plan:
    def __init__(self, rests: Sequence[Rest], sites: Sequence[Site]) -> None:
        self._rests = {rest.number: rest for rest in rests}
        self._sites = {site.place: site for site in sites}
        self._futures = {rest.number: rest.futures() for rest in rests}
        self._homes: Homes = {rest.number: self._first_home(rest) for rest in rests}
        self._spans = {place: self._span(place, self._members(place)) for place in self._sites}

    def _first_home(self, rest: Rest) -> Place:
        """Where it is; if that is gone and its step waits, any other place, from which it will be moved."""
        if not rest.reads or (rest.home in rest.reads and rest.home in self._sites):
            return rest.home
        return next((place for place in rest.reads if place in self._sites), rest.home)

    def settle(self) -> Losses:
        """Move the chains that wait, one by one, as long as that makes the last of all end sooner."""
        waiting = [rest for rest in self._rests.values() if self._sites.keys() & rest.reads.keys()]
        losses: Losses = {}
        for _ in range(PASSES):
            has_moved = False
            for rest in waiting:
                losses[rest.number] = prices = self._compared(rest)
                best = min(prices, key=lambda place: prices[place])
                if prices[best] < -self._least_gain_s(self._homes[rest.number], best):
                    self._move(rest.number, best)
                    has_moved = True
            if not has_moved:
                break
        return {rest.number: self._against_home(rest, losses[rest.number]) for rest in waiting}

    def _least_gain_s(self, home: Place, to: Place) -> float:
        """What a move must save. To a faster place it goes for less: there a long last reply costs less."""
        is_faster = self._sites[to].rates.decode > self._sites[home].rates.decode
        return 0.0 if is_faster else LEAST_GAIN_S

    def _against_home(self, rest: Rest, prices: dict[Place, float]) -> dict[Place, float]:
        home = self._homes[rest.number]
        least = min(prices.values())
        return {
            place: 0.0 if place == home else max(price - least, LEAST_GAIN_S)
            for place, price in prices.items()
        }

    def _members(self, place: Place) -> list[int]:
        return [number for number, home in self._homes.items() if home == place]

    def _move(self, number: int, to: Place) -> None:
        before, self._homes[number] = self._homes[number], to
        for place in (before, to):
            if place in self._sites:
                self._spans[place] = self._span(place, self._members(place))

    def _compared(self, rest: Rest) -> dict[Place, float]:
        """The price of each place for a chain, against its home: mean seconds, and a part of the worst."""
        number, home = rest.number, self._homes[rest.number]
        now = self._ends(self._spans)
        without = [one for one in self._members(home) if one != number]
        left = {**self._spans, home: self._span(home, without)}
        prices = {home: 0.0}
        for place in rest.reads:
            if place != home and place in self._sites:
                spans = {**left, place: self._span(place, [*self._members(place), number])}
                prices[place] = _price(now, self._ends(spans))
        return prices

    def _ends(self, spans: dict[Place, list[float]]) -> list[float]:
        return [max(column) for column in zip(*spans.values(), strict=True)]

    def _span(self, place: Place, members: Sequence[int]) -> list[float]:
        """Seconds until all of these have ended at a place, in each future."""
        site = self._sites[place]
        if not members:
            return [0.0] * FUTURES
        prefill, together = site.rates.prefill, min(len(members), site.slots)
        decode = site.rates.decode * site.rates.share(together)
        first_s = [self._first_s(self._rests[one], site) for one in members]
        room, in_step, spans = site.room_tokens, IN_STEP if len(members) > 1 else 0.0, []
        for futures in zip(*(self._futures[one] for one in members), strict=True):
            context = sum([future[0] for future in futures])
            unkept = 1.0 - room / context if context > room else 0.0
            work_s, longest_s = site.busy_s, 0.0
            for now_s, (_, again, reads, writes, idle_s) in zip(first_s, futures, strict=True):
                read_s = now_s + (reads + unkept * again) / prefill
                written_s = writes / decode
                work_s += read_s + written_s / together
                ends_s = read_s + written_s + idle_s
                if ends_s > longest_s:
                    longest_s = ends_s
            spans.append(max(work_s, longest_s) + in_step * min(work_s, longest_s))
        return spans

    def _first_s(self, rest: Rest, site: Site) -> float:
        """Seconds until the present step's prompt is read."""
        return rest.reads.get(site.place, 0) / site.rates.prefill + rest.work_s


def _price(now: Sequence[float], then: Sequence[float]) -> float:
    """How much later all would end: on average, and with a part of the loss in the worst futures."""
    later = sorted(after - before for before, after in zip(now, then, strict=True))
    worst = later[-(len(later) // WORST) :]
    return sum(later) / len(later) + RISK * max(sum(worst) / len(worst), 0.0)
