"""Requests that wait at a front: for its engine, which is just moving, or until anybody can serve at all."""

import asyncio
import contextlib
from collections.abc import Callable


class Waiting:
    """Whether requests of one front go on at once or wait, and until when at most."""

    def __init__(self, now: Callable[[], float]) -> None:
        """``now``: seconds of the loop's clock."""
        self._now = now
        self._until = float("-inf")
        self._ready = asyncio.Event()
        self._ready.set()
        self.for_engine = False
        """Whether it is the engine of the front that is waited for, and no other node will do."""

    @property
    def is_on(self) -> bool:
        """Whether requests wait."""
        return not self._ready.is_set()

    def begin(self, patience_s: float, *, for_engine: bool) -> None:
        """Let requests wait from now on, for ``patience_s`` at most."""
        self._until, self.for_engine = self._now() + patience_s, for_engine
        self._ready.clear()

    def judge(self, *, is_there: bool) -> None:
        """Let them go on if what they wait for is there, or they have waited enough; else wait (again)."""
        if is_there or self._now() >= self._until:
            self._ready.set()
        else:
            self._ready.clear()

    def end(self) -> None:
        """Let them go on."""
        self._until = float("-inf")
        self._ready.set()

    async def until_ready(self) -> None:
        """Return when a request may go on."""
        if self.is_on:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(self._until - self._now(), 0.0)):
                    await self._ready.wait()
