"""How a plain test runs async code: with a deadline, and with nothing left over at the end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

Result = TypeVar("Result")

WIND_DOWN_S = 10.0  # what closes ends its own tasks within a few turns of the loop, and these may be slow


def run_async(
    coro: Coroutine[Any, Any, Result],
    timeout: float = 60.0,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> Result:
    """Run ``coro`` on a loop of its own and return its result.

    Fails the test if it takes longer than ``timeout`` seconds, or if it leaves a task behind.
    """
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(_watched(coro, timeout))


async def _watched(coro: Coroutine[Any, Any, Result], timeout: float) -> Result:
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            result = await coro
    except TimeoutError:
        if not deadline.expired():
            raise
        names = ", ".join(_names(_others())) or "none"
        pytest.fail(f"Not done after {timeout} s. Other tasks at that time: {names}")
    left = _others()
    if left:
        _, left = await asyncio.wait(left, timeout=WIND_DOWN_S)
    if left:
        pytest.fail(f"Tasks left over: {', '.join(_names(left))}")
    return result


def _others() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


def _names(tasks: set[asyncio.Task[Any]]) -> list[str]:
    return sorted(f"{task.get_name()} ({getattr(task.get_coro(), '__qualname__', '?')})" for task in tasks)
