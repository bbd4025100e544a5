from random import Random

import pytest

from pairproxy.core.experiments.measures import hit_rate
from pairproxy.core.experiments.prefixes import BLIND, CASES, PREFIXES, WARM, _asked, _nodes, hottest
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case
from pairproxy.core.models import NodeId, Rates
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode
from pairproxy.core.workloads.bursts import equal_burst, spread_out
from tests.core.experiments.cases import check, in_tiers

ONE = [case for case in CASES if case.experiment == "E9"][:1]


@pytest.mark.parametrize("case", in_tiers(ONE))
def test_a_case_measures_what_its_targets_ask_for(case: Case) -> None:
    """One seed gives a number for each, and the same seed the same numbers."""
    check(case)


def test_the_hottest_node_is_known_by_its_share() -> None:
    """One is even; all on one of four is four."""
    rates = Rates(prefill=100.0, decode=10.0, beta=0.0)
    even = simulate([SimNode.of(name, 2, rates) for name in "ab"], equal_burst(4, NodeId("a"), 10, 100))
    assert (hottest(even, 2), hottest(even, 4)) == (1.0, 2.0)


def test_whoever_does_not_look_finds_about_every_fourth_prefix() -> None:
    """A quarter of them fits into one node."""
    nodes = _nodes()[:1]
    requests = spread_out(Random(1), _asked(Random(0), [1.0] * PREFIXES, nodes), 0.3)
    assert 0.2 < hit_rate(simulate(nodes, requests, Setup(BLIND).rules()), WARM) < 0.35
