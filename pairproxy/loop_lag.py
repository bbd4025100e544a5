"""How late the event loop runs what is due, and what held it up.

Everything of a node shares one loop: while it is held up no byte is forwarded and no heartbeat sent, and
after a few seconds of that peers take the node for gone.
"""

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from types import FrameType

BEAT_S = 0.25  # a shorter block may end unseen; ten beats a second cost 0.33 % of a core, four 0.15 %
WARN_S = 0.25  # a quarter of a heartbeat; garbage collection and a busy machine stay below
WINDOW_S = 60  # what worst() looks back on: long enough that a status asked now and then sees it
QUIET_S = 10.0  # between two warnings: an overloaded machine must not fill the log
STEPS = 3  # callers told beside the innermost function of ours

_log = logging.getLogger(__name__)


class LoopLag:
    """Measures the loop it runs on by a timer; a thread looks where the loop is while the timer is late."""

    def __init__(self) -> None:
        self._worst: deque[tuple[int, float]] = deque(maxlen=WINDOW_S)  # (second, lag), one a second at most
        self._beat_at = 0.0
        self._seen: str | None = None
        self._looked_at = 0.0  # by the thread
        self._has_slept = False  # the thread, too, since the last beat
        self._warned_at = float("-inf")

    def worst(self) -> float:
        """The longest lag of the last minute, in seconds; one that goes on now counts."""
        now = time.monotonic()
        known = max((lag for second, lag in self._worst if second > now - WINDOW_S), default=0.0)
        return max(known, now - self._beat_at - BEAT_S if self._beat_at else 0.0)

    async def run(self) -> None:
        """Measure until cancelled."""
        with self._watching():
            computed = time.thread_time()
            while True:
                self._seen, self._has_slept, self._beat_at = None, False, time.monotonic()
                await asyncio.sleep(BEAT_S)
                lag = time.monotonic() - self._beat_at - BEAT_S
                before, computed = computed, time.thread_time()
                self._note(max(0.0, lag), computed - before)

    def _note(self, lag: float, computing: float) -> None:
        now = time.monotonic()
        second = int(now)
        if self._worst and self._worst[-1][0] == second:
            lag = max(lag, self._worst.pop()[1])
        self._worst.append((second, lag))
        if lag <= WARN_S or now - self._warned_at <= QUIET_S:
            return
        self._warned_at = now
        has_slept = self._has_slept or now - self._looked_at > BEAT_S + WARN_S
        if has_slept and computing < lag / 2:
            _log.warning(
                "this process did not run for %.2f s: it was stopped, or the machine slept or is overloaded",
                lag,
            )
        else:
            _log.warning(
                "the event loop was held up for %.2f s, %.2f s of it computing, in %s; replies and "
                "heartbeats were late by as much. Please report it if this machine was not overloaded.",
                lag,
                min(computing, lag),
                self._seen or "code that was not seen",
            )

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        ended = threading.Event()
        self._looked_at = time.monotonic()
        loop_thread = threading.get_ident()

        def watch() -> None:
            while not ended.wait(BEAT_S):
                before, self._looked_at = self._looked_at, time.monotonic()
                is_late = self._beat_at and self._looked_at - self._beat_at > BEAT_S + WARN_S
                if self._looked_at - before > BEAT_S + WARN_S:
                    self._has_slept = True  # where the loop is now says nothing
                elif is_late and self._seen is None:
                    self._seen = _where(sys._current_frames().get(loop_thread))

        threading.Thread(target=watch, name="loop lag", daemon=True).start()
        try:
            yield
        finally:
            ended.set()


def _where(frame: FrameType | None) -> str | None:
    """The functions that a thread is in, innermost first: its own name, and the nearest of ours."""
    if frame is None:
        return None
    steps = [_name(frame)]
    caller = frame.f_back
    while caller is not None and len(steps) <= STEPS:
        if str(caller.f_globals.get("__name__", "")).startswith("pairproxy"):
            steps.append(_name(caller))
        caller = caller.f_back
    return " < ".join(steps)


def _name(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}:{frame.f_lineno}"
