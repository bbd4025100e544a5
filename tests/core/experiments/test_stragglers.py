import pytest

from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.stragglers import CASES
from pairproxy.core.experiments.verdicts import Case
from tests.core.experiments.cases import check, in_tiers


@pytest.mark.parametrize("case", in_tiers(CASES, fast="E2"))
def test_a_case_measures_what_its_targets_ask_for(case: Case) -> None:
    """One seed gives a number for each, and the same seed the same numbers."""
    check(case)


def test_a_straggler_of_a_whole_burst_costs_tokens() -> None:
    """Somewhere in ten bursts one is moved, and is counted."""
    (case, *_) = [one for one in CASES if one.experiment == "E2"]
    assert any(case.measure(seed, Setup())["extra_tokens"] > 0.0 for seed in range(10))
