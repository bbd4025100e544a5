"""One small bench for all tests that look at its result."""

import asyncio

import pytest

from pairproxy.cli.bench.rig import NodeSpec, Rig, names
from pairproxy.cli.bench.rounds import Plan, Result, run_bench
from pairproxy.cli.bench.workloads import burst

RIG = Rig((NodeSpec("slow", 1, 600.0, 30.0), NodeSpec("fast", 1, 2400.0, 120.0)), fast_forward=40.0)
PLAN = Plan(burst(6, names(RIG.nodes)[:1], 1), RIG, ("fastest-finish", "least-busy"), rounds=1)


@pytest.fixture(scope="package")
def result() -> Result:
    """Two unequal nodes, six requests, two policies, one round, forty times as fast."""
    return asyncio.run(run_bench(PLAN, lambda line: None))
