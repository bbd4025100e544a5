from random import Random

import pytest

from pairproxy.core.models import NodeId, Rates
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode
from pairproxy.core.workloads.bursts import burst, capacity, draw_output, equal_burst, spread_out

A, B = NodeId("a"), NodeId("b")


def test_lengths_are_log_normal_within_bounds() -> None:
    """Half are below the median; hardly any is ten times as long, none longer than a model goes on."""
    random = Random(1)
    lengths = sorted(draw_output(random) for _ in range(4000))
    assert 270 < lengths[2000] < 330
    assert (lengths[0] >= 8, lengths[-1] <= 8192) == (True, True)
    assert 1200 < lengths[3800] < 1900  # one in twenty is exp(1.645) times the median


def test_a_burst_comes_at_once_from_all_origins() -> None:
    """In turn; its limits are above what the replies will be."""
    requests = burst(Random(1), 10, [A, B], has_limits=True)
    assert [one.origin for one in requests] == [A, B] * 5
    assert {one.at for one in requests} == {0.0}
    assert all(one.max_output_tokens and one.max_output_tokens >= one.output_tokens for one in requests)
    assert {one.max_output_tokens for one in burst(Random(1), 10, [A])} == {None}


def test_equal_tasks_are_equal() -> None:
    """And nobody says how long they will be."""
    assert len(set(equal_burst(5, A, 100, 200))) == 1


def test_arrivals_come_at_their_rate() -> None:
    """In the mean; in their order."""
    requests = spread_out(Random(1), equal_burst(2000, A, 1, 1), 4.0)
    assert requests[-1].at == pytest.approx(500.0, rel=0.1)
    assert sorted(one.at for one in requests) == [one.at for one in requests]


@pytest.mark.parametrize("prompt", [100, 4000])
def test_the_capacity_is_about_what_a_full_node_does(prompt: int) -> None:
    """Whether reading or writing is the more of the work."""
    node = SimNode.of("a", 4, Rates(prefill=1000.0, decode=50.0, beta=0.15))
    requests = equal_burst(100, A, prompt, 100)
    done = len(requests) / simulate([node], requests).makespan_s
    assert done == pytest.approx(capacity([node], requests), rel=0.25)
