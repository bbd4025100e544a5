"""How long the longest replies are: the tail of lengths, which a handful of replies cannot show."""

import math
from statistics import NormalDist
from typing import Final

LEAST_SPREAD: Final = 0.02  # of the logarithm: no two replies are surely equal
MOST_DEVIATIONS: Final = 4.0  # longer ones are one in thirty thousand
_NORMAL: Final = NormalDist()
_ROOT_2: Final = math.sqrt(2.0)


class Unlikely:
    """The tail of a distribution of lengths, as a log-normal."""

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
        deviations = (math.log(max(tokens, 1.0)) - self._middle) / self.spread
        return 1.0 - 0.5 * (1.0 + math.erf(deviations / _ROOT_2))  # NormalDist.cdf: asked for all that run

    @staticmethod
    def deviations(chance: float) -> float:
        """How many standard deviations above the middle only this part of all replies is, at most four."""
        return min(_NORMAL.inv_cdf(1.0 - min(chance, 1.0 - 1e-9)), MOST_DEVIATIONS)
