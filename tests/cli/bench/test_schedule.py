import asyncio

import pytest

from pairproxy.cli.bench import schedule
from pairproxy.cli.bench.rig import unequal
from pairproxy.cli.bench.schedule import BURSTS, Burst


def quiet(line: str) -> None:
    """Nobody waits here."""


def test_every_burst_of_the_target_table_is_there() -> None:
    """One and four slots with 8, 16 and 50 requests; three equal nodes with 16 and 50; the targets fall."""
    counts = [(sum(node.slots for node in case.nodes), case.count) for case in BURSTS]
    assert counts == [(3, 8), (3, 16), (3, 50), (12, 8), (12, 16), (12, 50), (3, 16), (3, 50)]
    assert [case.target for case in BURSTS] == [1.30, 1.20, 1.10, 1.75, 1.65, 1.35, 1.15, 1.08]
    assert all(case.rig.fast_forward in (schedule.SHORT, schedule.LONG) for case in BURSTS)


@pytest.mark.slow
def test_a_burst_is_measured_against_bound_count_and_best_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing beats the bound; the three comparisons are over the same requests."""
    monkeypatch.setattr(schedule, "SHORT", 40.0)
    monkeypatch.setattr(schedule, "BURSTS", (Burst("1 : 1.5 : 4", unequal(1), 16, 1.2),))
    case, handed, busy, best, alone = asyncio.run(schedule.bursts([1], quiet))
    assert case.value >= 1.0
    assert case.modelled is not None
    assert case.modelled >= 1.0
    assert min(handed.value, busy.value, best.value) > 0.3
    assert alone.modelled == pytest.approx(alone.value, rel=0.4)


@pytest.mark.slow
def test_origins_and_agents_have_a_row_for_each_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios above zero; the part that was refused and the hits are parts."""
    monkeypatch.setattr(schedule, "LONG", 100.0)
    monkeypatch.setattr(schedule, "AGENTS_PACE", 100.0)
    monkeypatch.setattr(schedule, "DIRECT", 50.0)
    three, refused = asyncio.run(schedule.origins([1], quiet))
    step, ttft_50, ttft_90, hits, direct = asyncio.run(schedule.agents([1], quiet))
    assert min(row.value for row in (three, step, ttft_50, ttft_90, direct)) > 0.05
    assert all(0 <= row.value < 1 for row in (refused, hits))
