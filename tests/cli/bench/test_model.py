import pytest

from pairproxy.cli.bench.model import modelled
from pairproxy.cli.bench.rig import Rig, equal, names
from pairproxy.cli.bench.rounds import Result
from pairproxy.cli.bench.workloads import published


def test_the_model_of_one_node_is_arithmetic() -> None:
    """Five equal tasks on one node take five times as long as one."""
    rig = Rig(equal(1), fast_forward=40.0)
    request = published(1, names(rig.nodes), 0).requests[0]
    (node,) = rig.nodes
    alone_s = request.prompt_tokens / node.prefill + request.output_tokens / node.decode
    assert modelled(published(5, names(rig.nodes), 0), rig, "fastest-finish", 0).makespan_s == pytest.approx(
        5 * alone_s, rel=0.01
    )


@pytest.mark.slow
def test_one_node_alone_can_be_modelled(result: Result) -> None:
    """The best node of the bench takes what it took, but for what daemon and network cost."""
    plan = result.plan
    alone = modelled(plan.workload, plan.rig, "fastest-finish", 0, only="fast")
    assert alone.makespan_s == pytest.approx(result.bounds.alone_s, rel=0.25)
    assert set(alone.per_node) == {"fast"}


@pytest.mark.slow
def test_modelled_and_measured_are_of_one_size(result: Result) -> None:
    """The same requests on the same nodes; near a tie one request may go elsewhere, so not to the percent."""
    for one in result.figures:
        assert one.modelled_s is not None
        assert 0.5 < one.modelled_s / one.makespan_s < 2.0
