import asyncio

import pytest

from pairproxy.cli.bench import kept
from pairproxy.cli.bench.kept import ended, kept_table


def test_what_history_costs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside its targets; what a thousand requests take on the disk without one."""
    monkeypatch.setattr(kept, "SECONDS", 0.1)
    monkeypatch.setattr(kept, "AT_ONCE", 50)
    monkeypatch.setattr(kept, "ON_DISK", 1000)
    rows, notes = asyncio.run(kept_table())
    assert [row.target for row in rows if row.sense] == [kept.LOOP_US, kept.CORE_PART]
    sizes = {row.experiment: row.value for row in rows}
    assert 100.0 < sizes["1,000 requests: on disk"] < 5000.0
    assert notes


def test_its_requests_are_like_real_ones() -> None:
    """With a decision among all nodes."""
    (attempt,) = ended(7, 10.0).attempts
    assert attempt.decision is not None
    assert len(attempt.decision.candidates) == kept.NODES
    assert attempt.priced is not None
