import pytest

from pairproxy.core.experiments.loads import CASES, against_least_busy
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case
from pairproxy.core.models import NodeId, Rates
from pairproxy.core.workload import SimNode
from pairproxy.core.workloads.bursts import equal_burst
from tests.core.experiments.cases import check, in_tiers

ONE = [case for case in CASES if not case.trace][:1]


@pytest.mark.parametrize("case", in_tiers(ONE))
def test_a_case_measures_what_its_targets_ask_for(case: Case) -> None:
    """One seed gives a number for each, and the same seed the same numbers."""
    check(case)


def test_a_policy_is_as_good_as_itself() -> None:
    """Beside least-busy, least-busy is one; nothing is cached where there is no cache."""
    nodes = [SimNode.of(name, 1, Rates(prefill=100.0, decode=10.0, beta=0.0)) for name in "ab"]
    measured = against_least_busy(nodes, equal_burst(4, NodeId("a"), 100, 10), Setup("least-busy"), 0)
    assert measured == {"latency": 1.0, "TTFT P50": 1.0, "TTFT P90": 1.0, "hit": 0.0}
