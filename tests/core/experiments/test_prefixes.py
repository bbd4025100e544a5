import math

import pytest

from pairproxy.core.experiments.prefixes import CASES
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case, judged

CHEAP = [case for case in CASES if case.quick and not case.trace]


@pytest.mark.parametrize("case", CHEAP[:1], ids=lambda case: f"{case.experiment} {case.name}")
def test_a_case_measures_what_its_targets_ask_for(case: Case) -> None:
    """One seed gives a number for each, and the same seed the same numbers."""
    sample = case.measure(0, Setup())
    assert all(math.isfinite(value) for value in sample.values())
    assert {target.metric for target in case.targets} <= set(sample)
    assert len(judged(case, [sample])) == len(case.targets)
    assert case.measure(0, Setup()) == sample
