"""The fake engine in a thread of its own, for tests that are not async or that block."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from tests.support.fake_engine import DEADLINE_S, FakeEngine, Script


@contextlib.contextmanager
def in_thread(script: Script, **options: Any) -> Iterator[FakeEngine]:
    """Run a FakeEngine in a thread of its own, for tests that are not async."""
    engine = FakeEngine(script, **options)
    is_ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    failures: list[BaseException] = []

    async def live() -> None:
        async with engine:
            is_ready.set()
            await stop.wait()

    def run() -> None:
        try:
            loop.run_until_complete(live())
        except BaseException as failure:  # noqa: BLE001 handed to the test below
            failures.append(failure)
        finally:
            is_ready.set()
            loop.close()

    thread = threading.Thread(target=run, name="fake engine", daemon=True)
    thread.start()
    is_ready.wait(DEADLINE_S)
    try:
        yield engine
    finally:
        with contextlib.suppress(RuntimeError):  # the loop has ended: its failure is raised below
            loop.call_soon_threadsafe(stop.set)
        thread.join(DEADLINE_S)
    if failures:
        raise failures[0]
