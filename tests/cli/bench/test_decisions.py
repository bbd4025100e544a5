import asyncio

import pytest

from pairproxy.cli.bench import decisions
from pairproxy.cli.bench.decisions import QUEUED, SLOTS, _Full, decision_s, idle


def test_the_queue_is_as_full_as_is_said() -> None:
    """All slots are taken and one fewer than QUEUED waits; after an end its place is taken at once."""
    full = _Full(2)
    assert (len(full._running), full._scheduler.waiting) == (2 * SLOTS, QUEUED - 1)
    full.arrive()
    assert full.end_one() > 0
    assert (len(full._running), full._scheduler.waiting) == (2 * SLOTS, QUEUED - 1)


def test_a_decision_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of a few."""
    monkeypatch.setattr(decisions, "TURNS", 3)
    assert 0 < decision_s(2) < 10


@pytest.mark.slow
def test_an_idle_daemon_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than a core, and the target beside it."""
    monkeypatch.setattr(decisions, "IDLE_S", 0.5)
    row = asyncio.run(idle())
    assert 0 <= row.value < 1
    assert (row.sense, row.target) == ("<", 0.005)
