import pytest

from pairproxy.core.experiments.accounting import CASES, caches_of, places_of
from pairproxy.core.experiments.rigs import client, laptop, published_trio
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case, judged
from pairproxy.core.models import Place


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_run_beats_its_bound_and_the_losses_add_up(case: Case) -> None:
    """One seed of each case meets the targets that every run must meet."""
    rows = {row.target.split(" <=")[0]: row for row in judged(case, [case.measure(1, Setup())])}
    for must in ("max bound / makespan", "max efficiency", "max losses off by"):
        assert rows[must].verdict == "met", rows[must]


def test_what_is_known_of_simulated_nodes_is_the_truth() -> None:
    """Their slots, rates and caches; a node without an engine has none."""
    nodes = [*published_trio(9_000), laptop(), client("phone")]
    places, caches = places_of(nodes), caches_of(nodes)
    assert {place.node for place in places} == {"laptop", "spark", "rtx5090"}
    fast = Place(nodes[2].node, nodes[2].engines[0].engine)
    assert places[fast] == (nodes[2].engines[0].slots, nodes[2].engines[0].rates)
    assert caches[fast] == 9_000
