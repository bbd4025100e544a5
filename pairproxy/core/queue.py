"""The one queue there is: requests of this machine that wait for a place, in a fair order.

In the order of the rules:

1. What comes back from an attempt stands first: it had its turn.
2. Clients take turns by work (start-time fair queueing: Goyal, Vin and Cheng, SIGCOMM 1996): next is the
   client that got least so far. Who is new begins with the least of those who wait, so nobody saves up turns
   and nobody starts with a debt: a new client waits for at most one request of each other one, and what two
   that wait all the time get differs by at most one request of each.
3. A client whose first request was passed by later ones for PASSED_S comes before the others, for one.
4. Within a client the oldest goes first, of those that came at once (AT_ONCE_S) the longest reply, so that
   the last one to end is a short one. About equal ones stay in the order of their arrival.
"""

import math
from collections.abc import Callable, Collection, Iterator
from heapq import heapify, heappop, heapreplace
from typing import Final

from pairproxy.core.errors import PairproxyError, Unreachable
from pairproxy.core.models import Place, Request, RequestId

NOWHERE_S: Final = 10.0  # how long a request waits for a model that some node had and none has now
FULL_S = 60.0  # how long, while all engines that have it say that they are full: a model loads in that time
PASSED_S: Final = 10.0  # how long later requests of others may pass a client's first one: nothing starves
AT_ONCE_S: Final = 2.0  # after the first of them: a program that fans out has done so by then
READ_AS_ONE: Final = 20.0  # tokens that engines read in the time of writing one: 10 to 50 are usual
LONGER: Final = 2.0  # times as many tokens: told lengths are limits, and what differs by less says nothing
NO_PLACES: Final[frozenset[Place]] = frozenset()
MOST_CLIENTS = 1024  # that do not wait now, whose turn is remembered while others wait; the oldest goes first

Client = tuple[str, str | None]
"""Who takes turns: a client, within a run that it named."""
Expected = Callable[[Request], float]
"""How many tokens the reply to a request is expected to have."""


class Waiting:
    """A request that is not over, in the queue or out on an attempt."""

    def __init__(self, request: Request, arrived_at: float, excluded: frozenset[Place] = NO_PLACES) -> None:
        self.request = request
        self.arrived_at = arrived_at
        self.attempts = 0  # dispatched so far
        self.failures = 0  # of these, the ones that count against its tries
        self.excluded = excluded
        self.last_error: PairproxyError | None = None
        self.is_announced = False  # whether Enqueue was said
        self.nowhere_since: float | None = None  # since when no place can have it
        self.troubled_since: float | None = None  # since when every place that has it is full, or is silent
        self.moves = 0  # how often it was taken back to be done elsewhere (core.rescue)
        self.left: frozenset[Place] = NO_PLACES  # of the excluded, those it was taken back from
        self.output = 0.0  # tokens of the reply, as expected when it arrived
        self.waits_from = -math.inf  # when it came back to wait, if its patience began anew with that
        self.came_with = 0.0  # when the first arrived of those it came at once with

    @property
    def work(self) -> float:
        """What it is expected to cost, in tokens written; wherever it goes, whatever is cached there."""
        return self.output + self.request.prompt_tokens / READ_AS_ONE

    @property
    def patience_s(self) -> float:
        """How long it waits for places that are all in trouble."""
        return NOWHERE_S if isinstance(self.last_error, Unreachable) else FULL_S

    def go_back(self) -> None:
        """Let it go anywhere again where it did not fail."""
        self.excluded, self.left = self.excluded - self.left, NO_PLACES

    def avoid(self, place: Place, *, is_left: bool = False) -> None:
        """Let it go there no more; ``is_left``: as it was taken back from there."""
        self.excluded |= {place}
        if is_left:
            self.left |= {place}


class _Turn:
    """Where a client stands."""

    def __init__(self, sent: float) -> None:
        self.sent = sent  # work of its requests that were sent; it began to wait with the least of the others
        self.group_at = -math.inf  # when the latest of its requests that came at once began to come
        self.passed_at = math.inf  # since when others pass its first request


class RequestQueue:
    """Waiting requests in order, and how long each of them may wait."""

    def __init__(self, timeout_s: float, expected: Expected) -> None:
        self._timeout_s = timeout_s
        self._expected = expected
        self._waiting: list[Waiting] = []
        self._turns: dict[Client, _Turn] = {}
        self._least = 0.0  # work at which who begins to wait begins; never falls while something waits

    @property
    def is_closed(self) -> bool:
        """Whether nothing may wait here any more."""
        return self._timeout_s == -math.inf

    def let_wait(self, timeout_s: float) -> None:
        """From now on what waits may do so for this long; a queue that is closed stays so."""
        if not self.is_closed:
            self._timeout_s = timeout_s

    def close(self) -> None:
        """From now on whatever waits is overdue."""
        self._timeout_s = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting)

    def __contains__(self, request: RequestId) -> bool:
        return bool(self._waiting) and any(waiting.request.id == request for waiting in self._waiting)

    def append(self, waiting: Waiting) -> None:
        """Take in a request that arrived."""
        waiting.output = max(self._expected(waiting.request), 1.0)
        turn = self._begin(_client(waiting))
        if waiting.arrived_at > turn.group_at + AT_ONCE_S:
            turn.group_at = waiting.arrived_at
        waiting.came_with = turn.group_at
        self._waiting.append(waiting)

    def put_back(self, waiting: Waiting) -> None:
        """Take in a request whose attempt failed: it waited before all others."""
        waiting.is_announced = False
        self._waiting.insert(0, waiting)

    def in_order(self, at: float) -> list[Waiting]:
        """Who is to be planned first; ``at`` is now."""
        if len(self._waiting) < 2:
            return self._waiting[:]
        lines: dict[Client, list[Waiting]] = {}
        back: list[Waiting] = []
        for waiting in self._waiting:
            (back if waiting.attempts else lines.setdefault(_client(waiting), [])).append(waiting)
        back.sort(key=lambda one: one.arrived_at)
        for line in lines.values():
            line.sort(key=_within_client)
        ordered = back + self._in_turns(lines, at)
        self._waiting = ordered
        return ordered[:]

    def keep(self, waiting: list[Waiting], at: float) -> None:
        """Let these, in this order, be what waits: the others were sent."""
        if waiting and len(waiting) != len(self._waiting):  # where none is left, turns begin anew
            kept = {id(one) for one in waiting}
            sent = [one for one in self._waiting if id(one) not in kept and not one.attempts]
            self._waiting = waiting
            self._count(sent, at)
        self._waiting = waiting

    def remove(self, request: RequestId) -> None:
        """Forget a request, if it waits."""
        self._waiting = [waiting for waiting in self._waiting if waiting.request.id != request]

    def take_overdue(
        self,
        at: float,
        has_place: Callable[[Waiting], bool],
        is_troubled: Callable[[Waiting], bool] = lambda waiting: False,
    ) -> list[Waiting]:
        """Take out those that waited too long, or too long for a model that is nowhere now.

        ``is_troubled``: whether all places that have it are full, or do not answer.
        """
        overdue: list[Waiting] = []
        for waiting in self._waiting:
            if has_place(waiting):
                waiting.nowhere_since = None
            elif waiting.nowhere_since is None:
                waiting.nowhere_since = at
            if not is_troubled(waiting):
                waiting.troubled_since = None
            elif waiting.troubled_since is None:
                waiting.troubled_since = at
            if self._deadline(waiting) <= at:
                overdue.append(waiting)
        if overdue:
            gone = {id(waiting) for waiting in overdue}
            self._waiting = [waiting for waiting in self._waiting if id(waiting) not in gone]
        return overdue

    def next_deadline(self) -> float | None:
        """When the next of them will have waited too long; None: nothing waits."""
        return min(map(self._deadline, self._waiting), default=None)

    def _deadline(self, waiting: Waiting) -> float:
        deadline = max(waiting.arrived_at, waiting.waits_from) + self._timeout_s
        if waiting.nowhere_since is not None:
            deadline = min(deadline, waiting.nowhere_since + NOWHERE_S)
        if waiting.troubled_since is not None:
            deadline = min(deadline, waiting.troubled_since + waiting.patience_s)
        return deadline

    def _begin(self, client: Client) -> _Turn:
        """The turn of a client of which something begins to wait, or waits already."""
        waiting = [_client(one) for one in self._waiting if not one.attempts] if self._waiting else ()
        if not waiting:
            self._turns, self._least = {client: (turn := _Turn(0.0))}, 0.0
            return turn
        if client in waiting:
            return self._turns[client]
        self._least = max(self._least, min(self._turns[one].sent for one in {*waiting}))
        turn = self._turns.setdefault(client, _Turn(self._least))
        turn.sent, turn.passed_at = max(turn.sent, self._least), math.inf
        if len(self._turns) > MOST_CLIENTS + len(waiting):
            del self._turns[next(one for one in self._turns if one not in waiting and one != client)]
        return turn

    def _in_turns(self, lines: dict[Client, list[Waiting]], at: float) -> list[Waiting]:
        """Next is always the line of which least was sent, as if they were sent in this order."""
        if len(lines) < 2:
            return [one for line in lines.values() for one in line]
        turns = [self._turns[client] for client in lines]
        sent = [turn.sent for turn in turns]
        rows = [*lines.values()]
        heap = [
            ((0, turn.passed_at) if at - turn.passed_at >= PASSED_S else (1, turn.sent))
            + (rows[number][0].arrived_at, number, 0)
            for number, turn in enumerate(turns)
        ]
        heapify(heap)
        ordered = []
        while heap:
            *_, number, place = heap[0]
            row = rows[number]
            ordered.append(row[place])
            sent[number] += row[place].work
            place += 1
            if place < len(row):
                heapreplace(heap, (1, sent[number], row[place].arrived_at, number, place))
            else:
                heappop(heap)
        return ordered

    def _count(self, sent: Collection[Waiting], at: float) -> None:
        """Charge what was sent to its clients, and see whose first request was passed by it."""
        latest: dict[Client, float] = {}
        for one in sent:
            client = _client(one)
            turn = self._turns[client]
            turn.sent, turn.passed_at = turn.sent + one.work, math.inf
            latest[client] = max(latest.get(client, -math.inf), one.arrived_at)
        seen: set[Client] = set()
        for one in self._waiting:
            client = _client(one)
            if one.attempts or client in seen:
                continue
            seen.add(client)
            if any(arrived_at > one.arrived_at for other, arrived_at in latest.items() if other != client):
                turn = self._turns[client]
                turn.passed_at = min(turn.passed_at, at)


def _client(waiting: Waiting) -> Client:
    return waiting.request.client, waiting.request.run


def _within_client(waiting: Waiting) -> tuple[float, int]:
    """Sorts the requests of one client; those that are equal stay as they are."""
    return waiting.came_with, -int(math.log(waiting.output, LONGER))
