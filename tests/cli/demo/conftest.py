"""One paced demo of one round, for all tests that look at its result."""

import asyncio

import pytest

from pairproxy.cli.demo.legs import Plan, Result, run_demo
from pairproxy.cli.demo.show import Screen

PLAN = Plan(nodes=2, requests=5, engine="paced", rounds=1, tokens=8)


@pytest.fixture(scope="package")
def result() -> Result:
    """Two unequal paced nodes, five requests of 8 tokens, alone and together once."""
    return asyncio.run(run_demo(PLAN, Screen(is_quiet=True)))
