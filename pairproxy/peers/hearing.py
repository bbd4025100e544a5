"""The documents of one peer at a bounded price, however fast it sends them.

Who follows a stream works through it line by line. A peer that sends faster than that is not followed faster:
when its share of the event loop is used up there is a pause, and of what came meanwhile the last counts. A
document is the whole state, so what is passed over is old; prefix news that is lost with it is told anew
within half a minute (core.prefix_news).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

SHARE = 0.25  # of one core, for one peer: five milliseconds of planning for each of fifty documents a second
CREDIT_S = 0.5  # of work at once: a burst of them
READING_S_PER_BYTE = 5e-9  # taking a stream apart, TLS included: 200 MB/s; the reader's clock does not see it
BEHIND = 32  # lines that may wait before the older ones are passed over
PASSED_OVER_S = 0.002  # of reading nothing for each line that was: five hundred a second are read at most
PASSED_BYTES_PER_S = 4 * 1024 * 1024  # the same for large ones: what TLS takes apart in a few milliseconds


class Budget:
    """How long the event loop may work for one peer, in seconds of its thread's CPU time."""

    def __init__(self, now: float) -> None:
        self._credit_s = CREDIT_S
        self._at = now

    def spend(self, spent_s: float, now: float) -> float:
        """So long was worked; how long to pause now, in seconds."""
        self._credit_s = min(CREDIT_S, self._credit_s + SHARE * (now - self._at)) - spent_s
        self._at = now
        return max(0.0, -self._credit_s / SHARE)


class Newest:
    """The lines of a stream, in order; while the reader is far behind, only the last of them."""

    def __init__(self, lines: AsyncIterator[bytes], most_bytes: int) -> None:
        """At most ``most_bytes`` and one line wait. Use it as a context manager: reading is a task."""
        self._lines = lines
        self._most_bytes = most_bytes
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._came = asyncio.Event()
        self.passed_over = 0
        """How many lines were not told."""

    async def __aenter__(self) -> "Newest":
        self._task = asyncio.create_task(self._read(), name="state document lines")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def next(self) -> bytes | None:
        """The next line; None when the stream is over. Raises what broke it."""
        while not self._waiting:
            if self._task.done():
                return self._task.result()
            self._came.clear()
            await self._came.wait()
        line = self._waiting.popleft()
        self._bytes -= len(line)
        return line

    async def _read(self) -> None:
        try:
            async for line in self._lines:
                self._waiting.append(line)
                self._bytes += len(line)
                self._came.set()
                if len(self._waiting) > BEHIND or self._bytes - len(line) > self._most_bytes:
                    await self._pass_over()
        finally:
            # Whoever waits sees the task done only after this, so it is woken in the next turn.
            asyncio.get_running_loop().call_soon(self._came.set)

    def skip(self) -> tuple[int, int]:
        """Pass over all that wait but the last; how many that were, and of how many bytes."""
        if not self._waiting:
            return 0, 0
        last = self._waiting.pop()
        passed, size = len(self._waiting), self._bytes - len(last)
        self.passed_over += passed
        self._waiting.clear()
        self._waiting.append(last)
        self._bytes = len(last)
        return passed, size

    async def _pass_over(self) -> None:
        """The reader is far behind. Read nothing for a while: the sender feels it."""
        passed, size = self.skip()
        await asyncio.sleep(max(passed * PASSED_OVER_S, size / PASSED_BYTES_PER_S))
