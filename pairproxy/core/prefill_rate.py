"""How fast prompts are read: a running mean that knows which of its samples leave nothing open.

A prompt that comes a second time is read in no time by any machine, and some engines do not say so. Such a
sample may look faster than it was, never slower.
"""

import math
from dataclasses import dataclass
from typing import Final

LEARNING_WEIGHT = 0.2  # of one full-sized sample in a running mean: follows a change within ten replies
CONFIRMS_TIMES: Final = 1.15  # of what was measured: the noise of one sample
PLAUSIBLE_TIMES: Final = 20.0  # of the prior: the fastest cards read about that much faster than the slowest
MOST_STEP: Final = math.log(2.0)  # one sample counts as at most twice as fast or slow as was expected


@dataclass(slots=True)
class Rate:
    """A running mean in log space: a factor of two up weighs as much as a factor of two down."""

    log_mean: float = 0.0
    is_measured: bool = False

    def learn(self, value: float, weight: float = LEARNING_WEIGHT) -> None:
        """Take in a positive sample; the first one replaces the prior."""
        if not self.is_measured:
            self.log_mean, self.is_measured = math.log(value), True
        else:
            wrong = math.log(value) - self.log_mean
            self.log_mean += weight * min(max(wrong, -MOST_STEP), MOST_STEP)

    def value(self, prior: float) -> float:
        """The mean, or the prior as long as there is none."""
        return math.exp(self.log_mean) if self.is_measured else prior


@dataclass(slots=True)
class PrefillRate(Rate):
    """The mean in tokens/s."""

    is_proven: bool = False  # by a sample that leaves nothing open
    log_ceiling: float = 0.0  # the mean by the last such sample; before one, the fastest that is believed

    def prove(self, value: float, weight: float, *, is_enough: bool) -> None:
        """Take in a sample that leaves nothing open; one that ``is_enough`` replaces unproven ones."""
        if is_enough and not self.is_proven:
            self.is_measured = False
        self.is_proven = self.is_proven or is_enough or not self.is_measured
        self.learn(value, weight)
        self.log_ceiling = self.log_mean

    def lower(self, value: float, weight: float, prior: float) -> None:
        """Take in a sample that may look faster than it was: it can lower or confirm, not raise.

        The bound is not the mean itself, which one slow sample would lower for good.
        """
        if not self.is_measured:
            if value > PLAUSIBLE_TIMES * prior:
                return
            self.log_ceiling = math.log(max(value, prior))
        elif math.log(value) > self.log_ceiling + math.log(CONFIRMS_TIMES):
            return
        self.learn(value, weight)
