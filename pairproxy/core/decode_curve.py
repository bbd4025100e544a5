"""How fast an engine decodes in company: one curve of two numbers, learned from whole replies.

With c requests running each gets ``r1 / (1 + beta * (c - 1))`` tokens/s (models.Rates). Nobody tells that
rate: a reply tells its tokens when it ends, and we know for how many seconds it decoded in which company. So

    tokens = r1 * sum over c of seconds[c] / (1 + beta * (c - 1))

For one fixed beta this gives r1 at once. So a bank of candidate betas is kept, each with its own running r1,
and each is judged by how well that r1 predicted the next reply. The best judged one wins. There is no
linearised step that could diverge, and while the company never changes all are judged alike and the prior of
the kind decides.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import add
from typing import Final

from pairproxy.core.models import Rates
from pairproxy.core.values import spell

BENDS = tuple(0.01 * 1.3**step for step in range(23))
"""The betas that are tried: 0.01 (nearly perfect batching) to 3.2 (company costs more than it brings)."""
_STEP: Final = math.log(1.3)

LEVEL_WEIGHT: Final = 0.2  # of one reply in r1: follows a change within ten replies
USUAL_WEIGHT = 0.02  # of one reply in what is usual here: fifty replies, so that an odd hour stands out
FULL_TOKENS: Final = 32  # fewer say more about the clock than about the engine and count for less
MOST_STEP: Final = math.log(2.0)  # one reply counts as at most twice as fast or slow as was expected
NOISE = (
    0.15  # standard deviation of ln(tokens/s) between replies in the same company (paced and embedded engine)
)
ONE_REPLY = (
    4.0  # the most that one reply can speak against a beta, in units of chi squared: a hiccup proves nothing
)
PRIOR_SPREAD = (
    0.5  # of ln(beta + SMALL) within one kind of engine: published values differ by a factor of two
)
CALIBRATION = 32.0  # the same for a measurement with nothing beside it: it takes ten replies to be refuted
MOST_COMPANIES: Final = 24  # of one reply that are told apart; where hundreds run it saw as many
ALIKE_BITS: Final = 3  # of more, those are taken together that differ by less than an eighth
SMALL: Final = 0.2  # a beta below it hardly matters to a handful of requests
INFORMATIVE: Final = 0.05  # by which the candidates' errors must differ, or a reply says nothing of beta
FORGETTING: Final = 0.97  # of what was said before, by each reply that says something: the last thirty count
RULED_OUT: Final = 4.0  # above the best score: two standard deviations
MOST_LOG: Final = 16.0  # of tokens/s: nine million are no speed
MOST_ERROR: Final = 1e4  # each reply adds CALIBRATION at most, and what was said before fades


@dataclass(frozen=True, slots=True)
class CurveFacts:
    """What a curve has learned, to be kept: a number for each of BENDS, and replies seen."""

    levels: tuple[float, ...] = ()
    usual: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    replies: int = 0

    @property
    def is_possible(self) -> bool:
        """Whether the numbers are such as DecodeCurve writes."""
        lists = (self.levels, self.usual, self.errors)
        return (
            self.replies > 0
            and all(len(one) == len(BENDS) for one in lists)
            and all(abs(level) <= MOST_LOG for level in (*self.levels, *self.usual))
            and all(0.0 <= error <= MOST_ERROR for error in self.errors)
        )


spell(CurveFacts, levels=tuple[float, ...], usual=tuple[float, ...], errors=tuple[float, ...])


class DecodeCurve:
    """r1 and beta of one replica on one engine. Nothing learned: the prior."""

    def __init__(self, facts: CurveFacts | None = None) -> None:
        self._levels = [0.0] * len(BENDS)  # ln r1, as each beta explains what was seen
        self._usual = [0.0] * len(BENDS)  # the same over a longer time
        self._errors = [0.0] * len(BENDS)
        self.replies = 0
        self._found: tuple[tuple[int, float], tuple[float, float]] | None = None  # (replies, prior), answer
        if facts is not None and facts.is_possible:
            self._levels, self._usual = list(facts.levels), list(facts.usual)
            self._errors, self.replies = list(facts.errors), facts.replies

    def facts(self) -> CurveFacts:
        """What is worth keeping."""
        levels, usual, errors = (
            tuple(round(one, 4) for one in numbers) for numbers in (self._levels, self._usual, self._errors)
        )
        return CurveFacts(levels, usual, errors, self.replies)

    def learn(self, tokens: int, company_s: Mapping[int, float], prior: Rates) -> float | None:
        """Take in a reply of ``tokens`` that decoded for ``company_s[c]`` seconds while c ran.

        Seconds must be positive in all. ``prior`` is that of the kind of engine. Returns its rate over the
        usual one; None: nothing was usual yet.
        """
        seen, part = _rates(tokens, company_s), None
        if self.replies == 0:
            self._levels, self._usual = seen[:], seen[:]
        else:
            scores = self._scores(prior.beta)
            part = self._part(seen, scores)
            wrong = [one - level for one, level in zip(seen, self._levels, strict=True)]
            best = _best(scores)
            excess = wrong[best] - min(max(wrong[best], -MOST_STEP), MOST_STEP)
            if excess:
                wrong = [one - excess for one in wrong]
            weight = min(1.0, tokens / FULL_TOKENS)
            self._judge(wrong, weight)
            levels, far, near = self._levels, USUAL_WEIGHT * weight, LEVEL_WEIGHT * weight
            self._usual = [
                usual + far * (level + one - usual)
                for usual, level, one in zip(self._usual, levels, wrong, strict=True)
            ]
            self._levels = [level + near * one for level, one in zip(levels, wrong, strict=True)]
        self.replies += 1
        return part

    def calibrate(self, tokens: float, seconds: float, company: int) -> None:
        """Take in a measurement: each of ``company`` equal requests decoded ``tokens`` in ``seconds``.

        Nothing else ran, so it is worth more than a reply, and as many replies as ran. It says how company
        slows, by the rate that was learned before; without one it is a first reply. That all together were
        slower than one alone is not believed: somebody else used the machine, and replies will say better.
        """
        if self.replies:
            slowest_s = company * tokens / math.exp(max(self._levels))
            seconds = min(seconds, slowest_s)
        seen = _rates(tokens, {company: seconds})
        if self.replies == 0:
            self._levels, self._usual = seen[:], seen[:]
        else:
            wrong = [one - level for one, level in zip(seen, self._levels, strict=True)]
            self._judge(wrong, 1.0, noise=NOISE / math.sqrt(company), most=CALIBRATION)
        self.replies += 1

    def rates(self, prior: Rates) -> tuple[float, float]:
        """(r1 in tokens/s, beta): the best so far, between the candidates by a parabola."""
        if self.replies == 0:
            return prior.decode, prior.beta
        asked = (self.replies, prior.beta)
        if self._found is None or self._found[0] != asked:  # it is asked for every candidate of a plan
            self._found = asked, self._find(prior.beta)
        return self._found[1]

    def _find(self, prior_beta: float) -> tuple[float, float]:
        scores = self._scores(prior_beta)
        best = _best(scores)
        aside = _vertex(scores, best)
        beta = BENDS[best] * math.exp(aside * _STEP)
        beside = best + (1 if aside > 0 else -1)
        level = self._levels[best]
        if aside:
            level += abs(aside) * (self._levels[beside] - level)
        return math.exp(level), beta

    def _part(self, seen: Sequence[float], scores: Sequence[float]) -> float:
        """A reply's rate over the usual one, as the kindest beta that is not ruled out sees it.

        So a beta that is not known yet is not taken for a slow machine.
        """
        bound = min(scores) + RULED_OUT
        rates = zip(seen, self._usual, scores, strict=True)
        return math.exp(max(one - usual for one, usual, score in rates if score <= bound))

    def _judge(
        self, wrong: Sequence[float], weight: float, *, noise: float = NOISE, most: float = ONE_REPLY
    ) -> None:
        if max(wrong) - min(wrong) < INFORMATIVE:
            return
        heavy, squares = weight * most, [(one / noise) ** 2 for one in wrong]
        self._errors = [
            error * FORGETTING + heavy * squared / (most + squared)
            for error, squared in zip(self._errors, squares, strict=True)
        ]

    def _scores(self, prior_beta: float) -> list[float]:
        return list(map(add, self._errors, _unlikeliness(prior_beta)))


@lru_cache(maxsize=16)  # a prior for each kind of engine
def _unlikeliness(prior_beta: float) -> tuple[float, ...]:
    """How much the prior speaks against each of BENDS."""
    return tuple((math.log((beta + SMALL) / (prior_beta + SMALL)) / PRIOR_SPREAD) ** 2 for beta in BENDS)


def _rates(tokens: float, company_s: Mapping[int, float]) -> list[float]:
    """ln r1 by this reply alone, for each of BENDS; within MOST_LOG, as an engine may mistake its units."""
    together = company_s.items() if len(company_s) <= MOST_COMPANIES else _together(company_s)
    few = [(company - 1.0, seconds) for company, seconds in together]
    logs: list[float] = []
    for beta in BENDS:
        alone_s = 0.0
        for others, seconds in few:
            alone_s += seconds / (1.0 + beta * others)
        logs.append(math.log(tokens / alone_s))
    if max(logs) > MOST_LOG or min(logs) < -MOST_LOG:
        return [min(max(one, -MOST_LOG), MOST_LOG) for one in logs]
    return logs


def _together(company_s: Mapping[int, float]) -> Iterable[tuple[float, float]]:
    """(company, seconds), where neighbours are one: their mean, which bends by a thousandth less."""
    sums: dict[tuple[int, int], tuple[float, float]] = {}
    for company, seconds in company_s.items():
        size = company.bit_length()
        alike = size, company >> max(size - 1 - ALIKE_BITS, 0)
        total_s, weighed = sums.get(alike, (0.0, 0.0))
        sums[alike] = total_s + seconds, weighed + seconds * company
    return [(weighed / total_s, total_s) for total_s, weighed in sums.values() if total_s > 0.0]


def _best(scores: Sequence[float]) -> int:
    return scores.index(min(scores))


def _vertex(scores: Sequence[float], best: int) -> float:
    """Where the parabola through the best score and its neighbours is lowest, in steps from the best."""
    if not 0 < best < len(scores) - 1:
        return 0.0
    left, middle, right = scores[best - 1 : best + 2]
    bend = left - 2.0 * middle + right
    return min(max(0.5 * (left - right) / bend, -0.5), 0.5) if bend > 0.0 else 0.0
