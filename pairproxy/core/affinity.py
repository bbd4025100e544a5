"""What it is worth to keep a prefix in few places: seconds that a candidate costs others, not itself.

Reading a prompt a second time, while another place holds its beginning, takes room from other prefixes there
and time from whoever runs there. A prefix that many ask for gets more homes all the same: waiting has its
price too. One that nobody holds goes, among places about equally good, to the one that got the fewest
such tokens lately for its speed: then prefixes do not crowd each other out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pairproxy.core.models import BLOCK_TOKENS, Candidate, Place, Request

KAPPA: Final = 1.5  # times the prefill that would be done twice
HELD_PART: Final = 1.0 / 3.0  # of the prompt; who holds less of it than that is no home
ABOUT_BEST: Final = 0.9  # of the longest match: as good as that
BAND, BAND_S = 0.10, 0.05  # of the best price, and seconds: about equally good
FORGETS_S: Final = 60.0  # after which what was placed counts half
MOST_PLACES: Final = 1024  # that are remembered; a cluster has tens


@dataclass(slots=True)
class _Fading:
    """An amount that halves every FORGETS_S."""

    amount: float = 0.0
    at: float = 0.0

    def now(self, at: float) -> float:
        return self.amount * math.pow(0.5, max(at - self.at, 0.0) / FORGETS_S)

    def add(self, amount: float, at: float) -> None:
        self.amount, self.at = self.now(at) + amount, at


class Affinity:
    """Prices candidates by what they hold of a prompt, and remembers what went where."""

    def __init__(self) -> None:
        self._placed: dict[Place, _Fading] = {}

    def priced(self, request: Request, candidates: list[Candidate], at: float) -> list[Candidate]:
        """The candidates with their ``affinity_s``."""
        if not request.prefix or len(candidates) < 2:
            return candidates
        best = max(candidate.cached_tokens for candidate in candidates)
        if best < HELD_PART * request.prompt_tokens:
            return self._spread(candidates, at)
        return [_kept_together(candidate, best, request) for candidate in candidates]

    def sent(self, request: Request, pick: Candidate, at: float) -> None:
        """A request went to a place, which reads what it did not hold of the prompt."""
        if not request.prefix:
            return
        new = len(request.prefix) * BLOCK_TOKENS - pick.cached_tokens
        if new > 0:
            self._placed.setdefault(pick.place, _Fading()).add(new, at)
            if len(self._placed) > MOST_PLACES:
                del self._placed[next(iter(self._placed))]

    def _spread(self, candidates: Sequence[Candidate], at: float) -> list[Candidate]:
        prices = [candidate.finish_s + candidate.margin_s + candidate.delay_s for candidate in candidates]
        cheapest = min(range(len(prices)), key=prices.__getitem__)
        margin = min(prices[cheapest] * BAND + BAND_S, candidates[cheapest].prefill_s)
        near = [index for index, price in enumerate(prices) if price <= prices[cheapest] + margin]
        if len(near) < 2:
            return list(candidates)
        home = min(near, key=lambda index: (self._crowd(candidates[index], at), prices[index]))
        spread = list(candidates)
        for index in near:
            if index != home and prices[index] <= prices[home]:
                spread[index] = replace(candidates[index], affinity_s=prices[home] - prices[index] + 1e-6)
        return spread

    def _crowd(self, candidate: Candidate, at: float) -> float:
        """What was placed there, in what it takes to read it: relative to the other candidates."""
        placed = self._placed.get(candidate.place)
        return 0.0 if placed is None else placed.now(at) * candidate.prefill_s


def _kept_together(candidate: Candidate, best: int, request: Request) -> Candidate:
    if candidate.cached_tokens >= ABOUT_BEST * best:
        return candidate
    read = max(request.prompt_tokens - candidate.cached_tokens, 1)
    twice_s = candidate.prefill_s * (best - candidate.cached_tokens) / read
    return replace(candidate, affinity_s=KAPPA * twice_s)
