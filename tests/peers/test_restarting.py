"""A fault is logged by its class and started anew; an end and a cancellation are what they are."""

import asyncio

import pytest

from pairproxy.peers import restarting
from tests.support.running import run_async


def test_it_starts_again_after_a_fault_with_longer_and_longer_pauses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubled each time up to the longest; the class is named, the text of the fault never."""
    monkeypatch.setattr(restarting, "LONGEST_PAUSE_S", 0.002)
    runs: list[int] = []

    async def fault() -> None:
        raise ValueError("a prompt")

    async def work() -> None:
        runs.append(1)
        if len(runs) < 5:
            async with asyncio.TaskGroup() as group:
                group.create_task(fault())

    run_async(restarting.restarting("peer x", work, pause_s=0.001))
    assert len(runs) == 5
    pauses = [record.args[2] for record in caplog.records if isinstance(record.args, tuple)]
    assert pauses == [0.001, 0.002, 0.002, 0.002]
    assert "peer x failed: ValueError < fault:" in caplog.text
    assert "a prompt" not in caplog.text


def test_where_somebody_looks_on_the_pauses_stay_short(caplog: pytest.LogCaptureFixture) -> None:
    """The longest one is what its owner says."""
    runs: list[int] = []

    async def work() -> None:
        runs.append(1)
        if len(runs) < 4:
            raise ValueError

    run_async(restarting.restarting("the view", work, pause_s=0.001, longest_s=0.002))
    pauses = [record.args[2] for record in caplog.records if isinstance(record.args, tuple)]
    assert pauses == [0.001, 0.002, 0.002]


def test_a_cancellation_passes() -> None:
    """What is cancelled is not started again."""
    runs: list[int] = []

    async def scene() -> None:
        is_running = asyncio.Event()

        async def work() -> None:
            runs.append(1)
            is_running.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(restarting.restarting("peer x", work))
        await is_running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(scene())
    assert runs == [1]
