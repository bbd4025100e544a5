"""Turns in dialling a peer: few handshakes at once, and who waits for one takes a connection that comes free.

A peer cuts off handshakes that are too many at once (limits.unauthenticated_connections), for it cannot know
yet whose they are: an origin that dials for each request of a burst would lose those it began first.
"""

import asyncio
from collections import deque

from pairproxy.core.errors import Unreachable
from pairproxy.upstreams.connection import Address, Connection

HANDSHAKES = 4  # at once: more are no faster, for each takes 2 ms of one core at both ends


class Turns:
    """Who may dial one peer now, and who is next. Waiters are bounded by the requests in flight."""

    def __init__(self, patience_s: float) -> None:
        """``patience_s``: nobody waits longer for a turn."""
        self._patience_s = patience_s
        self._dialling = 0
        self._waiting: deque[tuple[Address, asyncio.Future[Connection | None]]] = deque()

    async def next(self, address: Address) -> Connection | None:
        """A connection that came free, or None: the caller dials now, and says so with ``end`` afterwards.

        Raises Unreachable where others found nobody there meanwhile, or it takes too long.
        """
        if self._dialling < HANDSHAKES:
            self._dialling += 1
            return None
        turn: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((address, turn))
        try:
            async with asyncio.timeout(self._patience_s):
                return await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._return(turn.result())
            if isinstance(error, TimeoutError):
                raise Unreachable(f"{address[0]} has no connection free. See what keeps it busy.") from None
            raise

    def end(self) -> None:
        """A dial ended, well or not: whoever is next may begin."""
        self._dialling -= 1
        waiting = self._first()
        if waiting is not None:
            self._waiting.popleft()
            self._dialling += 1
            waiting[1].set_result(None)

    def give(self, connection: Connection) -> bool:
        """Hand a connection that came free to who has waited longest; False: nobody wants it."""
        waiting = self._first()
        if waiting is None or waiting[0] != connection.address:
            return False
        self._waiting.popleft()
        waiting[1].set_result(connection)
        return True

    def fail(self, address: Address, why: str) -> None:
        """Nobody is there: who waits for this address need not find that out one after the other."""
        for wanted, turn in self._waiting:
            if wanted == address and not turn.done():
                turn.set_exception(Unreachable(why))

    def _first(self) -> tuple[Address, asyncio.Future[Connection | None]] | None:
        while self._waiting and self._waiting[0][1].done():  # it left, or failed
            self._waiting.popleft()
        return self._waiting[0] if self._waiting else None

    def _return(self, given: Connection | None) -> None:
        """Who was given this left in the same moment."""
        if given is None:
            self.end()
        else:
            given.release(is_clean=True)
