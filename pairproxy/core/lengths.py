"""How long replies are: of the last ones like it, as a distribution that is asked for means and quantiles.

What "like it" means, the most telling first: the same start of the prompt, where enough have come and not all
share it; the same client; the same model. Before any, a log-normal prior.
"""

import math
from array import array
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import NormalDist

from pairproxy.core.models import ModelName, Request

PRIOR_TOKENS = 300.0  # median reply length of chat traffic (docs/scheduling.md)
PRIOR_SPREAD = 1.0  # standard deviation of the logarithm of reply lengths
MOST_TOKENS = 1_000_000  # of one reply: no model writes more, and a peer may say anything
REMEMBERED = 200  # replies of one kind: what came before says less of the next
KINDS = 512  # kinds of requests in mind, the least recently used goes first: all of it is about 6 MB
ENOUGH = 3  # replies that make a kind of their own, beside LIKE_WEIGHT of the model's
LIKE_WEIGHT = 10.0  # replies; of 2, 5 and 10 on the public traces of coding agents, the best
ANSWERS = 1024  # requests whose kind is looked up once between two replies: four full queues

_ATOMS = 40
TAIL_WEIGHT = 6.0  # replies: how much the prior weighs in what is thought of the tail; few say little of it
LEAST_SPREAD = 0.02  # of the logarithm: no two replies are surely equal
MOST_DEVIATIONS = 4.0  # longer ones are one in thirty thousand
_PRIOR = tuple(
    PRIOR_TOKENS * math.exp(PRIOR_SPREAD * NormalDist().inv_cdf((index + 0.5) / _ATOMS))
    for index in range(_ATOMS)
)
"""The prior as forty equally likely lengths."""


_NORMAL = NormalDist()


class Unlikely:
    """The tail of a distribution of lengths, as a log-normal: what a handful of replies cannot show."""

    def __init__(self, middle: float, spread: float) -> None:
        self._middle = middle
        self.spread = max(spread, LEAST_SPREAD)  # standard deviation of the logarithm

    @property
    def mean(self) -> float:
        """Of the log-normal: a single odd reply moves it less than it moves Lengths.mean."""
        return math.exp(self._middle + self.spread**2 / 2.0)

    def tokens(self, deviations: float) -> float:
        """The length so many standard deviations above the middle."""
        return math.exp(self._middle + deviations * self.spread)

    def above(self, tokens: float) -> float:
        """The part of all replies that is longer."""
        return 1.0 - _NORMAL.cdf((math.log(max(tokens, 1.0)) - self._middle) / self.spread)

    @staticmethod
    def deviations(chance: float) -> float:
        """How many standard deviations above the middle only this part of all replies is, at most four."""
        return min(_NORMAL.inv_cdf(1.0 - min(chance, 1.0 - 1e-9)), MOST_DEVIATIONS)


def _log_normal(logs: list[float]) -> tuple[float, float]:
    """Mean and standard deviation of the logarithm, with the prior as TAIL_WEIGHT replies more."""
    weight = TAIL_WEIGHT + len(logs)
    middle = (TAIL_WEIGHT * math.log(PRIOR_TOKENS) + sum(logs)) / weight
    spread_2 = (TAIL_WEIGHT * PRIOR_SPREAD**2 + sum((one - middle) ** 2 for one in logs)) / weight
    return middle, math.sqrt(spread_2)


class Lengths:
    """A distribution of reply lengths in tokens. Frozen once made; every question takes O(log n)."""

    def __init__(self, seen: Iterable[int] = (), like: "Lengths | None" = None) -> None:
        """Of what was ``seen``, and of what was to be expected before: ``like``, else the prior.

        The prior weighs as much as one reply that was seen; ``like``, of the same model, as LIKE_WEIGHT.
        """
        known = [(float(one), 1.0) for one in seen]
        self._logs = _log_normal([math.log(max(one, 1.0)) for one, _ in known])
        self._is_prior = not known
        before, weight = (_PRIOR, 1.0) if like is None else (like.parts(), LIKE_WEIGHT)
        weighed = sorted(known + [(one, weight / _ATOMS) for one in before])
        self._tokens = array("d", (tokens for tokens, _ in weighed))
        self._below = array("d", [0.0])  # weight of all shorter ones
        self._sums = array("d", [0.0])  # their tokens, weighed
        for tokens, weight in weighed:
            self._below.append(self._below[-1] + weight)
            self._sums.append(self._sums[-1] + weight * tokens)

    def unlikely(self, most: float = math.inf) -> Unlikely:
        """Its tail; ``most``: the spread of its logarithm is known to be no wider."""
        middle, spread = self._logs
        return Unlikely(middle, min(spread, most))

    def parts(self) -> tuple[float, ...]:
        """Forty equally likely lengths that stand for it."""
        return tuple(self.quantile((index + 0.5) / _ATOMS) for index in range(_ATOMS))

    def mean(self, limit: int | None = None) -> float:
        """Tokens on average, none longer than the client's limit: prices what waits.

        As long as nothing was seen, the limit is the best hint there is.
        """
        mean = self._sums[-1] / self._below[-1]
        if limit is None or self._is_prior:
            return mean if limit is None else min(mean, float(limit))
        return self._within(0.0, float(limit)) / self._below[-1]

    def quantile(self, part: float, limit: int | None = None) -> float:
        """Tokens that a ``part`` of all replies does not exceed; part in [0, 1]."""
        index = bisect_right(self._below, part * self._below[-1] * (1.0 - 1e-9)) - 1
        tokens = self._tokens[min(index, len(self._tokens) - 1)]
        return tokens if limit is None else min(tokens, float(limit))

    def remaining(self, done: float, limit: int | None = None) -> float:
        """Tokens still to come on average of a reply that is ``done`` tokens long already: prices what runs.

        Longer than all that were seen: half as much again, as the prior's tail says (mean excess of a
        log-normal of spread 1 two standard deviations up), up to the limit.
        """
        most = math.inf if limit is None else float(limit)
        if done >= most:
            return 0.0
        index = bisect_right(self._tokens, done)
        weight = self._below[-1] - self._below[index]
        if index == len(self._tokens):
            return min(done / 2.0, most - done)
        return self._within(done, most) / weight - done

    def _within(self, above: float, most: float) -> float:
        """The weighed sum of min(tokens, most) over those longer than ``above``."""
        low, high = bisect_right(self._tokens, above), bisect_right(self._tokens, most)
        total = self._sums[max(high, low)] - self._sums[low]
        over = self._below[-1] - self._below[max(high, low)]
        return total + over * most if over > 0.0 else total


NOTHING_SEEN = Lengths()
_Kind = tuple[ModelName, str, int]
"""(model, client or "", hash of the prompt's start or 0)."""


@dataclass(slots=True)
class _Seen:
    last: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    count: int = 0  # also those that are forgotten
    made: Lengths | None = None
    made_like: Lengths | None = None

    def add(self, tokens: int) -> None:
        self.last.append(tokens)
        self.count += 1
        self.made = None

    def lengths(self, like: Lengths | None = None) -> Lengths:
        if self.made is None or self.made_like is not like:
            self.made, self.made_like = Lengths(self.last, like), like
        return self.made


class LengthTable:
    """The last replies of each kind of request. Bounded by KINDS and REMEMBERED."""

    def __init__(self) -> None:
        self._seen: OrderedDict[_Kind, _Seen] = OrderedDict()
        self._answers: dict[tuple[ModelName, str, int, int], Lengths] = {}

    def learn(self, request: Request, tokens: int) -> None:
        """Take in the length of one reply; zero, and what cannot be true, says nothing."""
        if not 0 < tokens <= MOST_TOKENS:
            return
        self._answers.clear()
        for kind in _kinds(request):
            self._seen.setdefault(kind, _Seen()).add(tokens)
            self._seen.move_to_end(kind)
        while len(self._seen) > KINDS:
            self._seen.popitem(last=False)

    def of(self, request: Request) -> Lengths:
        """The lengths of replies to requests like this one."""
        prefix = request.prefix
        asked = (request.model, request.client, len(prefix), prefix[-1] if prefix else 0)
        found = self._answers.get(asked)
        if found is None:
            if len(self._answers) >= ANSWERS:
                self._answers.clear()
            found = self._answers[asked] = self._find(request)
        return found

    def models(self) -> dict[ModelName, tuple[int, ...]]:
        """The last replies of each model, the oldest first."""
        return {
            model: tuple(seen.last)
            for (model, client, block), seen in self._seen.items()
            if not client and not block
        }

    def restore(self, model: ModelName, tokens: Iterable[int]) -> None:
        """Take back what was kept of a model of which nothing is known."""
        kind = (model, "", 0)
        if kind not in self._seen and len(self._seen) < KINDS:
            seen = self._seen[kind] = _Seen()
            for one in tokens:
                seen.add(one)
            self._answers.clear()

    def _find(self, request: Request) -> Lengths:
        *closer, widest = _kinds(request)
        known = self._seen.get(widest)
        if known is None:
            return NOTHING_SEEN
        for kind in closer:
            like = self._seen.get(kind)
            # A kind that has them all is the model by another name.
            if like is not None and ENOUGH <= like.count < known.count:
                return like.lengths(known.lengths())
        return known.lengths()


def _kinds(request: Request) -> Iterator[_Kind]:
    """What a request is one of, the closest kind first, its model last.

    Of the prompt's starts only those of 1, 2, 4, 8 ... blocks: at most fourteen, and the longest that is
    shared with others of the kind is at least half of what they have in common.
    """
    for power in range(len(request.prefix).bit_length() - 1, -1, -1):
        yield request.model, "", request.prefix[2**power - 1] or 1
    if request.client:
        yield request.model, request.client, 0
    yield request.model, "", 0
