import pytest

from pairproxy.core.experiments.bursts import CASES
from pairproxy.core.experiments.verdicts import Case
from tests.core.experiments.cases import check

CHEAP = [case for case in CASES if case.quick and not case.trace]


@pytest.mark.parametrize("case", CHEAP[:3], ids=lambda case: f"{case.experiment} {case.name}")
def test_a_case_measures_what_its_targets_ask_for(case: Case) -> None:
    """One seed gives a number for each, and the same seed the same numbers."""
    check(case)
