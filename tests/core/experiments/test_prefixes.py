import math

import pytest

from pairproxy.core.experiments.prefixes import (
    CACHE_TOKENS,
    CACHED_PREFIXES,
    CASES,
    PREFIX_TOKENS,
    PREFIXES,
    REQUESTS,
    WARM,
    hottest,
)
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case, judged
from pairproxy.core.models import NodeId, Rates
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode
from pairproxy.core.workloads.bursts import equal_burst

ONE = [case for case in CASES if case.experiment == "E9"][:1]


@pytest.mark.slow
@pytest.mark.parametrize("case", ONE, ids=lambda case: f"{case.experiment} {case.name}")
def test_a_case_measures_what_its_targets_ask_for(case: Case) -> None:
    """One seed gives a number for each, and the same seed the same numbers."""
    sample = case.measure(0, Setup())
    assert all(math.isfinite(value) for value in sample.values())
    assert {target.metric for target in case.targets} <= set(sample)
    assert len(judged(case, [sample])) == len(case.targets)
    assert case.measure(0, Setup()) == sample


def test_the_hottest_node_is_known_by_its_share() -> None:
    """One is even; all on one of four is four."""
    rates = Rates(prefill=100.0, decode=10.0, beta=0.0)
    even = simulate([SimNode.of(name, 2, rates) for name in "ab"], equal_burst(4, NodeId("a"), 10, 100))
    assert (hottest(even, 2), hottest(even, 4)) == (1.0, 2.0)


def test_a_quarter_of_the_prefixes_fits_one_node() -> None:
    """So that whoever does not look finds every fourth of them."""
    assert CACHED_PREFIXES * 4 == PREFIXES
    assert CACHE_TOKENS >= CACHED_PREFIXES * PREFIX_TOKENS
    assert WARM < REQUESTS / 2
