"""Targets, and whether samples meet them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from pairproxy.core.accounting.services import percentile
from pairproxy.core.experiments.setup import Setup

Measured = Mapping[str, float]
"""What one seed gave, by the name of the metric."""
Verdict = Literal["met", "MISSED", "shown", "not run"]
Reduction = Literal["mean", "min", "max", "p50", "p90", "share"]


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on one metric over all seeds. Without a bound the value is only shown.

    ``share`` is the part of the seeds in which the metric is above zero. A ``hard`` target is a promise: the
    command fails when it is missed.
    """

    metric: str
    reduction: Reduction
    at_least: float | None = None
    at_most: float | None = None
    is_hard: bool = False

    @property
    def text(self) -> str:
        """As a person reads it."""
        bounds = [(">=", self.at_least), ("<=", self.at_most)]
        said = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
        return f"{self.reduction} {self.metric} {said}".rstrip()

    def value(self, samples: Sequence[Measured]) -> float:
        """The reduced metric. Samples must not be empty."""
        values = [sample[self.metric] for sample in samples]
        match self.reduction:
            case "mean":
                return fmean(values)
            case "min":
                return min(values)
            case "max":
                return max(values)
            case "p50":
                return median(values)
            case "p90":
                return percentile(values, 0.9) or 0.0
            case "share":
                return fmean(value > 0.0 for value in values)

    def verdict(self, value: float) -> Verdict:
        """Whether a value meets it."""
        if self.at_least is None and self.at_most is None:
            return "shown"
        is_met = (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )
        return "met" if is_met else "MISSED"


@dataclass(frozen=True, slots=True)
class Case:
    """One workload on one cluster. ``measure`` makes the sample of a seed, from its arguments only.

    ``seeds`` are as many as the published numbers are made of, ``quick`` as many as CI has time for.
    ``trace`` names the public trace without which the case is not run.
    """

    experiment: str
    name: str
    measure: Callable[[int, Setup], Measured]
    targets: tuple[Target, ...]
    seeds: int
    quick: int
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. ``value`` None: not run."""

    experiment: str
    case: str
    target: str
    value: float | None
    verdict: Verdict
    samples: int
    is_hard: bool = False


def judged(case: Case, samples: Sequence[Measured]) -> list[Row]:
    """A row for each target of a case; no samples: it was not run."""
    rows = []
    for target in case.targets:
        value = target.value(samples) if samples else None
        verdict: Verdict = "not run" if value is None else target.verdict(value)
        rows.append(
            Row(case.experiment, case.name, target.text, value, verdict, len(samples), target.is_hard)
        )
    return rows
