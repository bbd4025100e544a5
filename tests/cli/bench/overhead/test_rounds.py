import asyncio
from pathlib import Path

import pytest

from pairproxy.cli.bench.overhead.cases import CASES
from pairproxy.cli.bench.overhead.daemons import PAIRED, PAIRPROXY
from pairproxy.cli.bench.overhead.processes import what_is_missing
from pairproxy.cli.bench.overhead.rounds import Plan, measure
from pairproxy.cli.bench.overhead.targets import DIRECT, PLAIN, Target
from pairproxy.config import cache_dir

ABSENT = Target("absent", "", DIRECT.start, needs=("no-such-program", "package"))


def test_each_workload_goes_round_those_it_is_for() -> None:
    """Through a peer only where there is one; nobody stops reading an upstream directly."""
    pairs = {
        (case.name, target.name)
        for case, target in Plan([DIRECT, PAIRPROXY, PAIRED], CASES, 1, 1.0, Path()).pairs()
    }
    assert ("peer-1", "pairproxy-peer") in pairs
    assert ("json-1", "direct") in pairs
    assert not pairs & {("peer-1", "pairproxy"), ("json-1", "pairproxy-peer"), ("stalled", "direct")}


def test_the_estimate_grows_with_rounds_and_seconds() -> None:
    """It is what a person is told."""
    short = Plan([DIRECT], CASES, 1, 1.0, Path()).estimate_s
    assert 5 < short < Plan([DIRECT], CASES, 2, 1.0, Path()).estimate_s
    assert short < Plan([DIRECT], CASES, 1, 2.0, Path()).estimate_s


@pytest.mark.slow
@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
def test_two_rounds_are_one_figure_and_who_is_absent_is_told() -> None:
    """Once, though there are two rounds."""
    steps: list[str] = []
    told: list[str] = []
    plan = Plan([DIRECT, ABSENT, PLAIN], CASES[:1], 2, 0.2, cache_dir())
    result = asyncio.run(measure(plan, told.append, steps.append))
    assert set(result.table) == {("direct", "json-1"), ("pass-through", "json-1")}
    assert all(figures.errors == 0 for figures in result.table.values())
    assert result.skipped == {"absent": "not on PATH (Debian: `apt install package`)"}
    assert told == ["absent: SKIPPED, not on PATH (Debian: `apt install package`)"]
    assert steps[-1] == "round 2 of 2: json-1, pass-through"
    assert len(steps) == 6
