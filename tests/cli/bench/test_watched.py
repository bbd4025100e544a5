import asyncio

import pytest

from pairproxy.cli.bench import watched
from pairproxy.cli.bench.watched import large, watched_table


def test_a_large_run_is_told_with_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loop's part has a target, the rest is told for comparison."""
    monkeypatch.setattr(watched, "REQUESTS", 50)
    rows = large()
    assert [row.unit for row in rows] == ["ms", "ms", "kB", "ms", "ms", "ms", "kB", "s"]
    assert [row.target for row in rows if row.sense] == [watched.LOOP_MS] * 2 + [watched.TERMINAL_S]
    assert all(row.value >= 0 for row in rows)


@pytest.mark.slow
def test_a_daemon_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair of short windows of each kind; being watched costs less than a core."""
    monkeypatch.setattr(watched, "WINDOW_S", 0.5)
    monkeypatch.setattr(watched, "SETTLE_S", 0.5)
    monkeypatch.setattr(watched, "OVER_S", 0.5)
    monkeypatch.setattr(watched, "REQUESTS", 20)
    rows, notes = asyncio.run(watched_table(1, lambda line: None))
    costs = [row for row in rows if row.experiment.endswith("being watched costs")]
    assert [(row.sense, row.target) for row in costs] == [("<", watched.CORE_PART)] * 2
    assert all(row.value < 1 for row in costs)
    assert notes
