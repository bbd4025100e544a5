import math

import pytest

from pairproxy.core.experiments.agents import CASES
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case, judged


def cheap_or_slow(case: Case) -> object:
    """A case for the fast tier if it takes a second or two, else for the slow one."""
    marks = () if case.experiment == "E15" else (pytest.mark.slow,)
    return pytest.param(case, marks=marks, id=f"{case.experiment} {case.name}")


@pytest.mark.parametrize("case", [cheap_or_slow(case) for case in CASES if case.quick])
def test_a_case_measures_what_its_targets_ask_for(case: Case) -> None:
    """One seed gives a number for each, and the same seed the same numbers."""
    sample = case.measure(0, Setup())
    assert all(math.isfinite(value) for value in sample.values())
    assert {target.metric for target in case.targets} <= set(sample)
    assert len(judged(case, [sample])) == len(case.targets)
    assert case.measure(0, Setup()) == sample
