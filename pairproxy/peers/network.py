"""Notices that the machine slept or that its network changed: then what is connected may be dead.

Discovery has a watch of its own for its sockets; this one is there for the links, also without mDNS.
"""

import asyncio
import random
import time
from collections.abc import Callable

from pairproxy.clock import Clock, MonotonicClock
from pairproxy.peers import own_addresses

WATCH_S = 2.0  # a look takes a millisecond in a thread; an address that changed is noticed in two
JITTER = 0.1  # so that machines that woke together do not look, and then dial, in step

Changed = Callable[[frozenset[own_addresses.OwnAddress]], None]
"""Takes the addresses at which this machine meets others, as they are now."""


class NetworkWatch:
    """Tells ``changed`` at the start, after each change of the interfaces and after each sleep."""

    def __init__(
        self,
        changed: Changed,
        woke: Callable[[], None] = lambda: None,
        *,
        watch_s: float = WATCH_S,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
        snapshot: Callable[[], frozenset[own_addresses.OwnAddress]] = own_addresses.snapshot,
    ) -> None:
        """``woke`` is told of sleeps alone, after ``changed``."""
        self._changed, self._woke = changed, woke
        self._watch_s = watch_s
        self._clock = clock or MonotonicClock()
        self._wall = wall
        self._snapshot = snapshot

    async def run(self) -> None:
        """Watch until cancelled."""
        has_slept = False
        while True:
            here = await self._own_addresses()
            self._changed(here)
            if has_slept:
                self._woke()
            has_slept = await self._until_changed(here)

    async def _until_changed(self, here: frozenset[own_addresses.OwnAddress]) -> bool:
        """Return when something changed; whether it was a sleep."""
        looked_at, wall = self._clock.now(), self._wall()
        watch, drift = own_addresses.Watch(here, looked_at, wall, float("inf")), wall - looked_at
        while True:
            await asyncio.sleep(self._watch_s * random.uniform(1 - JITTER, 1))
            here, now, wall = await self._own_addresses(), self._clock.now(), self._wall()
            # A process that was stopped (a laptop's sleep on some systems, SIGSTOP) finds both clocks ahead.
            was_stopped = now - looked_at > own_addresses.SLEPT_S + self._watch_s
            looked_at = now
            if was_stopped or watch.is_stale(here, now, wall):
                return was_stopped or abs(wall - now - drift) > own_addresses.SLEPT_S

    async def _own_addresses(self) -> frozenset[own_addresses.OwnAddress]:
        """Without those of containers, which come and go with each of them."""
        return own_addresses.usable(await asyncio.to_thread(self._snapshot))
