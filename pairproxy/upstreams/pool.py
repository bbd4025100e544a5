"""Connections between two requests.

A connection is reused only where that is shown to be safe: its last message ended cleanly and keeps alive,
not one byte came since, and both its age in requests and its idle time stay under what servers allow.
"""

import asyncio
from collections import deque

from pairproxy.upstreams.connection import Address, Connection
from pairproxy.upstreams.turns import Turns

IDLE_S = 3.5  # Node, uvicorn and llama-server close after 5 s; a request must not meet that
REQUESTS = 1000  # as nginx allows; who ends one earlier (llama-server: 100) says so in its last reply


class IdlePool:
    """Idle connections by address, the longest idle first. At most ``limit`` of them."""

    def __init__(self, limit: int, turns: Turns | None = None) -> None:
        """``turns``: whoever waits there comes first."""
        self._limit = limit
        self._turns = turns
        self._idle: dict[Address, deque[Connection]] = {}
        self._count = 0
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, address: Address) -> Connection | None:
        """Return a connection on which a request can be sent now, if there is one."""
        waiting = self._idle.get(address)
        if not waiting:
            return None
        while waiting:
            connection = waiting.popleft()
            self._count -= 1
            if connection.is_usable and connection.idle_since > connection.now() - IDLE_S:
                return connection
            connection.abort()
        return None

    def give(self, connection: Connection) -> None:
        """Keep a connection, or close it if it served its time."""
        if connection.requests >= REQUESTS or self._count >= self._limit:
            connection.abort()
            return
        if self._turns is not None and self._turns.give(connection):
            return
        connection.idle_since = connection.now()
        idle = self._idle.get(connection.address)
        if idle is None:
            idle = self._idle[connection.address] = deque()
        idle.append(connection)
        self._count += 1
        if self._sweep is None:
            self._sweep = connection.loop.call_later(IDLE_S, self._close_expired)

    def close(self) -> None:
        """Close all."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for waiting in self._idle.values():
            for connection in waiting:
                connection.abort()
        self._idle.clear()
        self._count = 0

    def _close_expired(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_S
        for address, waiting in list(self._idle.items()):
            while waiting and (waiting[0].idle_since <= oldest or not waiting[0].is_usable):
                waiting.popleft().abort()
                self._count -= 1
            if not waiting:
                del self._idle[address]
        first = min((waiting[0].idle_since for waiting in self._idle.values()), default=None)
        self._sweep = None if first is None else loop.call_at(first + IDLE_S, self._close_expired)
