"""What must hold for a case of any experiment, and in which tier it is tested."""

import math
from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case, judged


def in_tiers(cases: Iterable[Case], fast: str = "") -> list[ParameterSet]:
    """Cases for ``parametrize``; those of the experiment ``fast`` take a second or two, others are slow."""
    return [
        pytest.param(
            case,
            marks=() if case.experiment == fast else (pytest.mark.slow,),
            id=f"{case.experiment} {case.name}",
        )
        for case in cases
    ]


def check(case: Case) -> None:
    """One seed gives a finite number for each target, and the same numbers again."""
    sample = case.measure(0, Setup())
    assert all(math.isfinite(value) for value in sample.values())
    assert {target.metric for target in case.targets} <= set(sample)
    assert len(judged(case, [sample])) == len(case.targets)
    assert case.measure(0, Setup()) == sample
