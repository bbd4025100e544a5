import pytest

from pairproxy.core.models import NodeId, Rates
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import ENGINE, MODEL, SimNode, SimRequest

RATES = Rates(prefill=100.0, decode=10.0, beta=0.0)


def test_a_plain_node_has_the_one_engine_that_requests_ask_for() -> None:
    """Short to write for the usual case."""
    node = SimNode.of("a", 3, RATES, lost_at=5.0)
    (engine,) = node.engines
    assert (node.node, node.lost_at, engine.engine, engine.slots, engine.rates) == (
        "a",
        5.0,
        ENGINE,
        3,
        {MODEL: RATES},
    )


def test_a_result_sums_up_its_records() -> None:
    """The makespan counts from the first arrival; who left the queue made no reply anywhere."""
    a = NodeId("a")
    requests = [
        SimRequest(7.0, a, 100, 10),
        SimRequest(5.0, a, 100, 10),
        SimRequest(5.5, a, 100, 10, leaves_after_s=1.0),
    ]
    result = simulate([SimNode.of("a", 1, RATES)], requests)
    assert [record.arrived_at for record in result.records] == [7.0, 5.0, 5.5]
    assert result.makespan_s == pytest.approx(4.0)
    assert result.per_node == {a: 2}
    assert result.per_node[NodeId("b")] == 0
