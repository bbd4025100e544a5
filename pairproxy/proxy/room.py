"""Who has a place at a port, and who gives way when there are too many: whoever has been idle longest.

A connection is idle between two requests, and before its first one. Idle ones cost nothing but their place,
and every client opens a new one when it needs it; one that is at work is never closed for another.
"""

from collections.abc import Callable, Iterator

from pairproxy.proxy.connection import Connection

Owner = bytes | None
"""The certificate (DER) of a peer; None for clients, who are all one."""


class Room:
    """The connections of one port, at most ``most()`` of each owner while some of them are idle."""

    def __init__(self, most: Callable[[], int], is_short: Callable[[], bool]) -> None:
        """``is_short``: whether descriptors run out."""
        self._most = most
        self._is_short = is_short
        self._owners: dict[Connection, Owner] = {}
        self._counts: dict[Owner, int] = {}
        self._idle: dict[Connection, None] = {}  # longest idle first
        self._late: set[Connection] = set()  # came when all places were taken by others at work

    def enter(self, connection: Connection, owner: Owner) -> None:
        """Give a new connection a place, another's if need be."""
        self._owners[connection] = owner
        self._counts[owner] = self._counts.get(owner, 0) + 1
        most = self._most()
        if self._counts[owner] > most:
            self._close(one for one in self._idle if self._owners.get(one) == owner)
            if self._counts[owner] > most:  # also where one gave way that was late itself
                self._late.add(connection)
        elif self._is_short():
            self.close_longest_idle()
        self._idle[connection] = None

    def leave(self, connection: Connection) -> None:
        """Forget one that is closed, or will be at once; it may have left before."""
        self._idle.pop(connection, None)
        self._late.discard(connection)
        if connection in self._owners:
            owner = self._owners.pop(connection)
            self._counts[owner] -= 1
            if not self._counts[owner]:
                del self._counts[owner]

    def work(self, connection: Connection) -> None:
        """A request came: from now on it does not give way; and if there is a place now, it is its own."""
        self._idle.pop(connection, None)
        if not self.is_crowded(connection):
            self._late.discard(connection)

    def rest(self, connection: Connection) -> None:
        """Its request was answered."""
        if connection in self._owners:
            self._idle[connection] = None

    def is_crowded(self, connection: Connection) -> bool:
        """Whether this connection is one too many of its owner's."""
        return connection in self._late and self._counts[self._owners[connection]] > self._most()

    def close_longest_idle(self) -> None:
        """Close one connection of anybody, if there is one that nobody would miss."""
        self._close(iter(self._idle))

    def _close(self, candidates: Iterator[Connection]) -> bool:
        gone = next((connection for connection in candidates if connection.give_way()), None)
        if gone is not None:
            self.leave(gone)
        return gone is not None
