import asyncio

import pytest

from pairproxy.cli.bench.direct import ask_directly
from pairproxy.cli.bench.rig import NodeSpec, Rig, names
from pairproxy.cli.bench.workloads import burst

pytestmark = pytest.mark.timed


def test_an_engine_asked_directly_takes_what_its_rates_say() -> None:
    """One slot, no proxy: the sum of all the work, and nobody else's name on the replies."""
    rig = Rig((NodeSpec("only", 1, 6000.0, 300.0),), fast_forward=10.0)
    workload = burst(4, names(rig.nodes), 1)
    leg = asyncio.run(ask_directly(workload, rig))
    work_s = sum(one.prompt_tokens / 6000.0 + one.output_tokens / 300.0 for one in workload.requests)
    assert 0.9 * work_s <= leg.makespan_s < 1.5 * work_s  # more than one at once would take less
    assert leg.per_node == {"only": 4}
