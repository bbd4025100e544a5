"""What is noted of each request the moment it ends; a thread does the rest later."""

from collections import deque
from typing import Final

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.models import RequestId

LIMIT_MARKS: Final = 6_144  # requests, of which the ledger holds 4,096; about 250 bytes each


class Mark:
    """The number of a request within this life of the daemon, and when it ended by the wall clock."""

    __slots__ = ("ended_unix", "number")

    def __init__(self, number: int, ended_unix: float) -> None:
        self.number = number
        self.ended_unix = ended_unix


class Ended:
    """A request that ended. ``number`` counts within this life of the daemon, from 1."""

    __slots__ = ("ended_unix", "number", "record")

    def __init__(self, number: int, ended_unix: float, record: RequestRecord) -> None:
        self.number = number
        self.ended_unix = ended_unix
        self.record = record


class Marks:
    """The last LIMIT_MARKS requests that ended, by their ids."""

    __slots__ = ("_found", "_order")

    def __init__(self) -> None:
        self._found: dict[RequestId, Mark] = {}
        self._order: deque[RequestId] = deque()  # a dict looks for its first

    def __len__(self) -> int:
        """How many there are."""
        return len(self._found)

    def note(self, request: RequestId, mark: Mark) -> None:
        """A request ended."""
        if request not in self._found:
            self._order.append(request)
        self._found[request] = mark
        if len(self._order) > LIMIT_MARKS:
            del self._found[self._order.popleft()]

    def of(self, request: RequestId) -> Mark | None:
        """The mark of a request, if it is not too long ago; the last one of its id."""
        return self._found.get(request)
