"""How long replies are: of the last ones like it, as a distribution that is asked for means and quantiles.

What "like it" means, the most telling first: the same start of the prompt, where enough have come and not all
share it; the same client; the same model. Before any, a log-normal prior.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from statistics import NormalDist
from typing import Final

from pairproxy.core.models import ModelName, Request
from pairproxy.core.unlikely import Unlikely

PRIOR_TOKENS: Final = 300.0  # median reply length of chat traffic (docs/scheduling.md)
PRIOR_SPREAD: Final = 1.0  # standard deviation of the logarithm of reply lengths
MOST_TOKENS: Final = 1_000_000  # of one reply: no model writes more, and a peer may say anything
REMEMBERED: Final = 200  # replies of one kind: what came before says less of the next
KINDS = 512  # kinds of requests in mind, the least recently used goes first: all of it is 10 MB at most
ENOUGH: Final = 3  # replies that make a kind of their own, beside LIKE_WEIGHT of the model's
LIKE_WEIGHT: Final = 10.0  # replies; of 2, 5 and 10 on the public traces of coding agents, the best
ANSWERS: Final = 1024  # requests whose kind is looked up once between two replies: four full queues

_ATOMS: Final = 40
TAIL_WEIGHT = 6.0  # replies: how much the prior weighs in what is thought of the tail; few say little of it
_MIDDLES = tuple((index + 0.5) / _ATOMS for index in range(_ATOMS))
_NORMAL = NormalDist()
_PRIOR = tuple(PRIOR_TOKENS * math.exp(PRIOR_SPREAD * _NORMAL.inv_cdf(middle)) for middle in _MIDDLES)
"""The prior as forty equally likely lengths."""


def _log_normal(logs: list[float]) -> tuple[float, float]:
    """Mean and standard deviation of the logarithm, with the prior as TAIL_WEIGHT replies more."""
    weight = TAIL_WEIGHT + len(logs)
    middle = (TAIL_WEIGHT * math.log(PRIOR_TOKENS) + sum(logs)) / weight
    spread_2 = (TAIL_WEIGHT * PRIOR_SPREAD**2 + sum([(one - middle) ** 2 for one in logs])) / weight
    return middle, math.sqrt(spread_2)


class _Before:
    """What was to be expected before a reply was seen: forty lengths of equal weight, in order."""

    def __init__(self, tokens: Sequence[float], weight: float) -> None:
        """``weight``: of all of them; a reply that was seen weighs one."""
        self.tokens = tokens
        self.weight = weight / len(tokens)  # of each
        self.sums = list(accumulate(tokens, initial=0.0))  # of all that are shorter; the last one: of all
        self.total_weight = self.weight * _ATOMS
        self.total = self.sums[-1] * self.weight


_BEFORE: Final = _Before(_PRIOR, 1.0)


class Lengths:
    """A distribution of reply lengths in tokens; most questions take O(log n).

    It is made anew for every reply that was learned, mostly to be asked for the mean: so all else is reckoned
    when it is first asked for, and what was seen is neither merged with what was expected before nor copied:
    one of a LengthTable may be asked until the next reply of its kind is learned.
    """

    def __init__(
        self, seen: Iterable[int] = (), like: "Lengths | None" = None, total: int | None = None
    ) -> None:
        """Of what was ``seen``, and of what was to be expected before: ``like``, else the prior.

        The prior weighs as much as one reply that was seen; ``like``, of the same model, as LIKE_WEIGHT.
        ``total``: the sum of what was seen, if that is known and all of it a list in order.
        """
        self._seen = seen if isinstance(seen, list) and total is not None else sorted(seen)
        self._before = before = _BEFORE if like is None else like.as_before()
        self._weight = len(self._seen) + before.total_weight
        self._total = (sum(self._seen) if total is None else total) + before.total
        self._sums: list[int] | None = None  # of all shorter ones, for each that was seen
        self._as_before: _Before | None = None
        self._logs: tuple[float, float] | None = None

    def unlikely(self, most: float = math.inf) -> Unlikely:
        """Its tail; ``most``: the spread of its logarithm is known to be no wider."""
        if self._logs is None:
            self._logs = _log_normal([math.log(max(one, 1)) for one in self._seen])
        middle, spread = self._logs
        return Unlikely(middle, min(spread, most))

    def parts(self) -> tuple[float, ...]:
        """Forty equally likely lengths that stand for it."""
        return tuple(self._quantiles(_MIDDLES))

    def as_before(self) -> _Before:
        """Its parts, as what is to be expected of others of the same model."""
        if self._as_before is None:
            self._as_before = _Before(self.parts(), LIKE_WEIGHT)
        return self._as_before

    def mean(self, limit: int | None = None) -> float:
        """Tokens on average, none longer than the client's limit: prices what waits.

        As long as nothing was seen, the limit is the best hint there is.
        """
        mean = self._total / self._weight
        if limit is None:
            return mean
        if not self._seen:
            return min(mean, float(limit))
        return min((self._total - self._excess(limit)) / self._weight, float(limit))

    def quantile(self, part: float, limit: int | None = None) -> float:
        """Tokens that a ``part`` of all replies does not exceed; part in [0, 1]."""
        (tokens,) = self._quantiles((part,))
        return tokens if limit is None else min(tokens, float(limit))

    def _quantiles(self, parts: Sequence[float]) -> list[float]:
        seen, before, each = self._seen, self._before.tokens, self._before.weight
        # Where each length of before begins, if all stood in a row in order, each as wide as it weighs.
        # Rounded up it stands at the same place among whole numbers, and is compared with them much faster.
        starts = [bisect_left(seen, math.ceil(one)) + number * each for number, one in enumerate(before)]
        found, last = [], len(seen) - 1
        for part in parts:
            weight = part * self._weight * (1.0 - 1e-9)
            number = bisect_right(starts, weight)
            if number and (not seen or weight < starts[number - 1] + each):
                found.append(before[number - 1])
            else:
                found.append(float(seen[min(int(weight - number * each), last)]))
        return found

    def remaining(self, done: float, limit: int | None = None) -> float:
        """Tokens still to come on average of a reply that is ``done`` tokens long already: prices what runs.

        Longer than all that were seen: half as much again, as the prior's tail says (mean excess of a
        log-normal of spread 1 two standard deviations up), up to the limit.
        """
        if limit is not None and done >= limit:
            return 0.0
        weight, total = self._longer(done)
        if not weight:
            return done / 2.0 if limit is None else min(done / 2.0, limit - done)
        if limit is not None:
            total -= self._excess(limit)
        return max(total / weight - done, 0.0)

    def _excess(self, limit: int) -> float:
        """By how much all together are longer than the limit, weighed."""
        weight, total = self._longer(limit)
        return total - limit * weight

    def _longer(self, tokens: float) -> tuple[float, float]:
        """(weight, weighed sum) of all that are longer."""
        seen, before, sums = self._seen, self._before, self._sums
        low, low_before = bisect_right(seen, tokens), bisect_right(before.tokens, tokens)
        if low == len(seen) and low_before == _ATOMS:
            return 0.0, 0.0
        if sums is None:
            sums = self._sums = list(accumulate(seen, initial=0))
        weight = len(seen) - low + (_ATOMS - low_before) * before.weight
        return weight, sums[-1] - sums[low] + (before.sums[-1] - before.sums[low_before]) * before.weight


NOTHING_SEEN = Lengths()
_Kind = tuple[ModelName, str, int]
"""(model, client or "", hash of the prompt's start or 0)."""


class _Seen:
    def __init__(self) -> None:
        self._ring: list[int] = []  # the oldest is at the next place
        self._ordered: list[int] = []  # the same, the shortest first
        self._total = 0
        self.count = 0  # also those that are forgotten
        self._made: Lengths | None = None
        self._made_like: Lengths | None = None

    def add(self, tokens: int) -> None:
        place = self.count % REMEMBERED
        self.count, self._made = self.count + 1, None
        if len(self._ring) < REMEMBERED:
            self._ring.append(tokens)
        elif (gone := self._ring[place]) == tokens:
            return  # as it is where each reply is as long as its limit
        else:
            self._ring[place] = tokens
            del self._ordered[bisect_left(self._ordered, gone)]
            self._total -= gone
        insort(self._ordered, tokens)
        self._total += tokens

    def last(self) -> tuple[int, ...]:
        return (*self._ring[self.count % REMEMBERED :], *self._ring[: self.count % REMEMBERED])

    def lengths(self, like: Lengths | None = None) -> Lengths:
        if self._made is None or self._made_like is not like:
            self._made, self._made_like = Lengths(self._ordered, like, self._total), like
        return self._made


class LengthTable:
    """The last replies of each kind of request. Bounded by KINDS and REMEMBERED."""

    def __init__(self) -> None:
        self._seen: OrderedDict[_Kind, _Seen] = OrderedDict()
        self._answers: dict[tuple[ModelName, str, int, int], Lengths] = {}
        self._asked: tuple[Request, Lengths] | None = None  # the last answer: it is asked for again
        self._last: tuple[ModelName, str, list[_Seen]] | None = None  # of the last reply

    def learn(self, request: Request, tokens: int) -> None:
        """Take in the length of one reply; zero, and what cannot be true, says nothing."""
        if not 0 < tokens <= MOST_TOKENS:
            return
        self._forget_answers()
        last, learns = self._last, list[_Seen]()
        if last is not None and not request.prefix and last[0] == request.model and last[1] == request.client:
            learns = last[2]  # they are the latest already
        else:
            for kind in _kinds(request):
                seen = self._seen.setdefault(kind, _Seen())
                learns.append(seen)
                self._seen.move_to_end(kind)
            while len(self._seen) > KINDS:
                self._seen.popitem(last=False)
            self._last = None if request.prefix else (request.model, request.client, learns)
        for seen in learns:
            seen.add(tokens)

    def of(self, request: Request) -> Lengths:
        """The lengths of replies to requests like this one."""
        known = self._asked
        if known is not None and known[0] is request:
            return known[1]
        prefix = request.prefix
        asked = (request.model, request.client, len(prefix), prefix[-1] if prefix else 0)
        found = self._answers.get(asked)
        if found is None:
            if len(self._answers) >= ANSWERS:
                self._answers.clear()
            found = self._answers[asked] = self._find(request)
        self._asked = request, found
        return found

    def models(self) -> dict[ModelName, tuple[int, ...]]:
        """The last replies of each model, the oldest first."""
        return {
            model: seen.last()
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
            self._last = None
            self._forget_answers()

    def _forget_answers(self) -> None:
        self._answers.clear()
        self._asked = None

    def _find(self, request: Request) -> Lengths:
        last = self._last
        if last is not None and not request.prefix and last[0] == request.model and last[1] == request.client:
            closest, widest = last[2][0], last[2][-1]
            is_kind = ENOUGH <= closest.count < widest.count
            return closest.lengths(widest.lengths()) if is_kind else widest.lengths()
        known = self._seen.get((request.model, "", 0))
        if known is None:
            return NOTHING_SEEN
        for kind in _kinds(request):
            like = self._seen.get(kind)
            # A kind that has them all is the model by another name, or the model.
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
