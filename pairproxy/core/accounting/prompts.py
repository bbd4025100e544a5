"""Prompts that end alike: which of those that are over, and are shorter than another one, ended last.

Hundreds of requests may share their last full block: a system prompt with a short question behind it, or the
same prompt again and again. Each is put down once and looked up by bisection.
"""

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush

Length = tuple[int, int]
"""Full blocks of a prompt, and its tokens."""


class Prompts:
    """Requests to one model whose prompts have the same last full block."""

    def __init__(self) -> None:
        self._running: list[tuple[float, int, Length]] = []  # a heap: when it ended, its index negative
        self._lengths: list[Length] = []  # of those that are over, ascending; the longer ended later
        self._over: list[tuple[float, int]] = []

    def add(self, index: int, length: Length, ended_at: float) -> None:
        """One more; ``index`` tells it from the others."""
        heappush(self._running, (ended_at, -index, length))

    def last(self, until: float, length: Length) -> int | None:
        """Of those that ended by ``until`` and are shorter: who ended last, the first of several.

        ``until`` grows from one question to the next.
        """
        while self._running and self._running[0][0] <= until:
            ended_at, index, its = heappop(self._running)
            self._end((ended_at, index), its)
        shorter = bisect_left(self._lengths, length)
        return -self._over[shorter - 1][1] if shorter else None

    def _end(self, end: tuple[float, int], length: Length) -> None:
        """It is over. Of two the one that is longer and ended earlier is never the answer: it is let go."""
        no_longer = bisect_right(self._lengths, length)
        if no_longer and self._over[no_longer - 1] > end:
            return
        first = last = bisect_left(self._lengths, length)
        while last < len(self._over) and self._over[last] < end:
            last += 1
        self._lengths[first:last] = [length]
        self._over[first:last] = [end]
