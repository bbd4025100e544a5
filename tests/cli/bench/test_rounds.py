import asyncio
from dataclasses import replace

import pytest

from pairproxy.cli.bench.rounds import Result, run_bench
from tests.cli.bench.conftest import PLAN

pytestmark = pytest.mark.timed


@pytest.mark.slow
def test_every_policy_ran_the_same_requests(result: Result) -> None:
    """One entry per policy, in order, each with all six replies; the best node alone took its time."""
    assert [one.policy for one in result.figures] == ["fastest-finish", "least-busy"]
    assert [sum(one.per_node.values()) for one in result.figures] == [6, 6]
    best = result.plan.rig.best
    alone_s = sum(
        one.prompt_tokens / best.prefill + one.output_tokens / best.decode
        for one in result.plan.workload.requests
    )
    assert alone_s <= result.bounds.alone_s < 2.5 * alone_s  # the other is four times as slow


@pytest.mark.slow
def test_what_fast_forward_changes_is_modelled_too(result: Result) -> None:
    """The simulator's figure at the pace of real life, beside the best node alone at that pace."""
    for one in result.figures:
        assert one.unhurried_s is not None
        assert one.unhurried_speedup is not None
        assert one.unhurried_s * one.unhurried_speedup <= result.bounds.alone_s
        assert one.unhurried_s >= result.bounds.lower_s * 0.99


@pytest.mark.slow
def test_daemons_that_are_kept_are_not_modelled() -> None:
    """Two rounds on the same daemons: both are told of as they end, and no model knows what was learned."""
    heard: list[str] = []
    plan = replace(PLAN, policies=("least-busy",), rounds=2, keeps=True)
    (found,) = asyncio.run(run_bench(plan, heard.append)).figures
    assert (len(found.makespans_s), found.modelled_s) == (2, None)
    assert [line.split(":")[0] for line in heard] == [
        "fast alone",
        "least-busy, round 1 of 2",
        "least-busy, round 2 of 2",
    ]
