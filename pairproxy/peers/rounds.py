"""When a peer that is not heard is tried again: soon, then ever more rarely, or when there is a reason to.

A reason shortens a pause, and no flood of them makes this machine dial without end.
"""

import asyncio
import random
from contextlib import suppress

RETRY_FIRST_S = 0.25  # a daemon that restarts is back within a second or two
RETRY_LONGEST_S = 5.0  # a machine that is off is asked this often,
LONG_GONE_S = 300.0  # and after so long
RETRY_RARELY_S = 60.0  # only this often: its own call, or its announcement, is heard at once
HINTED_S = 2.0  # between two rounds at least, however many hints come
JITTER = 0.2  # so that peers that lost the same machine do not call it in step


class Rounds:
    """The pauses between two rounds over the addresses of one peer."""

    def __init__(self, named: asyncio.Event) -> None:
        """``named`` is set whenever somebody names an address of the peer."""
        self._named = named
        self._wanted = asyncio.Event()
        self._pause_s = RETRY_FIRST_S
        self._gone_at = 0.0  # loop time
        self._least_s = self._usual_s = 0.0

    def heard(self) -> None:
        """The peer is there, or is looked for from now on: the pauses are short again."""
        self._pause_s = RETRY_FIRST_S
        self._gone_at = asyncio.get_running_loop().time()

    def begin(self) -> None:
        """A round begins, in which all takes part that was named until now."""
        self._named.clear()
        self._least_s = self._usual_s = 0.0

    def refused(self) -> None:
        """The peer gives this machine nothing: it is asked rarely, or when somebody did something."""
        self._usual_s = RETRY_RARELY_S

    def misunderstood(self) -> None:
        """The peer answered with what is no document: only retry() shortens this pause."""
        self._least_s = RETRY_LONGEST_S

    def retry(self) -> None:
        """A person changed something, or the peer itself called: the next round is soon in any case."""
        self._wanted.set()
        self._named.set()

    async def pause(self) -> None:
        """Wait for the next round."""
        gone_s = asyncio.get_running_loop().time() - self._gone_at
        longest_s = RETRY_LONGEST_S if gone_s < LONG_GONE_S else RETRY_RARELY_S
        seconds = max(min(self._pause_s, longest_s), self._least_s, self._usual_s)
        self._pause_s = min(self._pause_s * 2, longest_s)
        await self._wait(seconds * random.uniform(1 - JITTER, 1 + JITTER))

    async def _wait(self, seconds: float) -> None:
        least_s = min(seconds, HINTED_S)
        self._wanted.clear()
        await asyncio.sleep(least_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._least_s - least_s):
                await self._wanted.wait()
                return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds - max(least_s, self._least_s)):
                await self._named.wait()
