import pytest

from pairproxy.core.experiments.agents import CASES
from pairproxy.core.experiments.verdicts import Case
from tests.core.experiments.cases import check, in_tiers


@pytest.mark.parametrize("case", in_tiers([case for case in CASES if case.quick], fast="E15"))
def test_a_case_measures_what_its_targets_ask_for(case: Case) -> None:
    """One seed gives a number for each, and the same seed the same numbers."""
    check(case)
