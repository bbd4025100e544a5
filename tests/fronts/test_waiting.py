"""Requests that wait at a front."""

import asyncio
import time

from pairproxy.fronts.waiting import Waiting
from tests.support.running import run_async


def test_nobody_waits_until_it_is_begun() -> None:
    """And nobody after it is over."""

    async def scene() -> None:
        waiting = Waiting(time.monotonic)
        await asyncio.wait_for(waiting.until_ready(), 1.0)
        waiting.begin(60.0, for_engine=True)
        assert waiting.is_on
        assert waiting.for_engine
        asking = asyncio.create_task(waiting.until_ready())
        waiting.judge(is_there=False)
        await asyncio.sleep(0)
        assert not asking.done()
        waiting.judge(is_there=True)
        await asyncio.wait_for(asking, 1.0)
        waiting.judge(is_there=False)
        assert waiting.is_on, "the engine went away again"
        waiting.end()
        assert not waiting.is_on

    run_async(scene())


def test_nobody_waits_longer_than_was_said() -> None:
    """Then a request goes on, whatever is there: it fails in its own words, or runs elsewhere."""

    async def scene() -> None:
        waiting = Waiting(time.monotonic)
        waiting.begin(0.05, for_engine=False)
        await asyncio.wait_for(waiting.until_ready(), 5.0)
        waiting.judge(is_there=False)
        assert not waiting.is_on

    run_async(scene())
