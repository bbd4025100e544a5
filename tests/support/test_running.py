import asyncio

import pytest

from tests.support import running
from tests.support.running import run_async


def test_the_result_comes_back() -> None:
    """What the coroutine returns is returned."""

    async def answer() -> int:
        return 42

    assert run_async(answer()) == 42


def test_a_late_coroutine_fails_the_test() -> None:
    """A coroutine that waits for ever ends with the deadline."""
    with pytest.raises(pytest.fail.Exception, match=r"Not done after 0\.05 s"):
        run_async(asyncio.Event().wait(), timeout=0.05)


def test_a_timeout_of_the_code_itself_stays_its_own() -> None:
    """A TimeoutError raised inside is not mistaken for the deadline."""

    async def raises() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        run_async(raises())


def test_a_left_over_task_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that outlives its coroutine is named."""
    monkeypatch.setattr(running, "WIND_DOWN_S", 0.1)

    async def leaves_one(kept: list[asyncio.Task[bool]]) -> None:
        kept.append(asyncio.create_task(asyncio.Event().wait(), name="orphan"))

    with pytest.raises(pytest.fail.Exception, match="orphan"):
        run_async(leaves_one([]))
