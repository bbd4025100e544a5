from random import Random

import pytest

from pairproxy.core.experiments.measures import lower_bound_s
from pairproxy.core.experiments.oracle import known_lengths_makespan_s, played_s
from pairproxy.core.experiments.rigs import at_speeds, client, unequal_three
from pairproxy.core.models import NodeId, Rates
from pairproxy.core.workload import SimNode, SimRequest
from pairproxy.core.workloads.bursts import burst, equal_burst

A = NodeId("a")


def test_requests_are_played_as_slots_come_free() -> None:
    """Two slots that do not slow each other: 3 + 2 beside 4 seconds."""
    node = SimNode.of("a", 2, Rates(1e9, 10.0, 0.0))
    assert played_s(node, [SimRequest(0.0, A, 1, output) for output in (30, 40, 20)]) == pytest.approx(5.0)
    assert played_s(node, []) == 0.0


def test_two_waves_are_found() -> None:
    """Five equal tasks on two equal nodes."""
    nodes = [*at_speeds(50.0, 50.0), client("c")]
    assert known_lengths_makespan_s(nodes, equal_burst(5, A, 1500, 100)) == pytest.approx(3 * 3.0)


@pytest.mark.parametrize("seed", range(6))
def test_it_lies_between_the_bound_and_the_best_node(seed: int) -> None:
    """No schedule beats the bound, and doing all of it on the fast node is one that it could have had."""
    nodes = unequal_three() if seed % 2 else at_speeds(130.0, 50.0, 25.0)
    requests = burst(Random(seed), 16, [nodes[0].node])
    made_s = known_lengths_makespan_s(nodes, requests)
    assert made_s >= lower_bound_s(nodes, requests) - 1e-6
    order = sorted(requests, key=lambda one: -one.output_tokens)
    assert made_s <= 1.02 * min(played_s(node, order) for node in nodes)
