"""How many ran at one place for how long, and for whom.

It is counted when that changes, and read as what lies between two marks: so an event costs the same however
many run.
"""

from collections.abc import Sequence
from typing import Final

from pairproxy.core.models import NodeId

APART_BITS: Final = 6  # of how many ran, told apart: up to 64 all, of more those that differ by a 32nd
ALL_APART: Final = 2**APART_BITS  # beside hundreds it does not matter how many exactly; marks stay small
MOST_USERS: Final = 256  # of one place, remembered after they left; more nodes are not paired with one

User = NodeId | None
"""The node whose request it is; None: a client of this one."""


class Clock:
    """When the last event was, and the one before it, and how many there were."""

    def __init__(self) -> None:
        self.at = 0.0
        self.before = 0.0
        self.events = 0

    def go_on(self, at: float) -> None:
        """One more is now, at ``at``."""
        self.before, self.at = self.at, at
        self.events += 1


def group_of(company: int) -> int:
    """The number under which so many count: their own up to ALL_APART, then one for all that are alike."""
    shift = max(company.bit_length() - APART_BITS, 0)
    return (shift << (APART_BITS - 1)) + (company >> shift)


def middle_of(group: int) -> int:
    """How many run where a group is counted."""
    shift = max((group >> (APART_BITS - 1)) - 1, 0)
    return ((group - (shift << (APART_BITS - 1))) << shift) + ((1 << shift) >> 1)


class Company:
    """The seconds of one place in which any run there, by how many do."""

    __slots__ = ("_clock", "_counted_at", "_latest", "_readers", "_reading_s", "_running", "_seconds")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counted_at = clock.at
        self._running = 0
        self._readers = 0  # of those that run, who read their prompts
        self._seconds = [0.0]  # in which so many ran, by group
        self._latest: dict[int, None] = {}  # groups, the latest at the end
        self._reading_s = 0.0  # in which any read, divided by how many did

    def join(self) -> tuple[Sequence[float], float]:
        """One more runs, and reads its prompt. The marks of now: of all seconds, of those of reading."""
        self._count_time()
        self._running += 1
        self._readers += 1
        return self._seconds[:], self._reading_s

    def begin(self, mark: float) -> tuple[Sequence[float], float]:
        """One that read begins to write. The mark of now, and its seconds of reading since its own mark."""
        self._count_time()
        self._readers -= 1
        return self._seconds[:], self._reading_s - mark

    def leave(self, *, is_reader: bool) -> None:
        """One less runs."""
        self._count_time()
        self._running -= 1
        self._readers -= is_reader
        if not self._running:  # nobody has a mark any more
            self._seconds, self._reading_s = [0.0], 0.0
            self._latest.clear()

    def reading_since(self, mark: float) -> float:
        """Seconds of reading that each reader had since the mark was taken."""
        self._count_time()
        return self._reading_s - mark

    def seconds_since(self, mark: Sequence[float]) -> dict[int, float]:
        """Seconds since the mark was taken, by how many ran."""
        self._count_time()
        found: dict[int, float] = {}
        for group in reversed(self._latest):
            seconds = self._seconds[group] - (mark[group] if group < len(mark) else 0.0)
            if seconds <= 0.0:
                break  # so many ran before the mark only, as all that follow
            found[group if group < ALL_APART else middle_of(group)] = seconds
        return found

    def _count_time(self) -> None:
        """Credit the time since the last change; call it before any."""
        passed, self._counted_at = self._clock.at - self._counted_at, self._clock.at
        company = self._running
        if passed <= 0.0 or not company:
            return
        group = company if company < ALL_APART else group_of(company)
        while len(self._seconds) <= group:
            self._seconds.append(0.0)
        self._seconds[group] += passed
        self._latest.pop(group, None)
        self._latest[group] = None
        if self._readers:
            self._reading_s += passed / self._readers


class Users:
    """Who has attempts at one place, or had."""

    __slots__ = ("_clock", "_counts", "_left", "_own", "_own_left")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._own = 0  # attempts of this node's own clients, who are most
        self._own_left: float | None = None  # when those had none any more
        self._counts: dict[NodeId, int] = {}
        self._left: dict[NodeId, float] = {}  # who has none any more, and since when

    def join(self, user: User) -> None:
        """An attempt of a user begins."""
        if user is None:
            self._own += 1
            return
        self._counts[user] = self._counts.get(user, 0) + 1

    def leave(self, user: User, sent_with: int) -> None:
        """An attempt of a user is over, which began with the event of this number.

        One of our own that was over with the next event was seen by nobody.
        """
        if user is None:
            self._own -= 1
            if not self._own and sent_with + 1 < self._clock.events:
                self._own_left = self._clock.before
            return
        count = self._counts[user] - 1
        if count:
            self._counts[user] = count
            return
        del self._counts[user]
        self._left.pop(user, None)
        self._left[user] = self._clock.before
        if len(self._left) > MOST_USERS:
            del self._left[next(iter(self._left))]

    @property
    def has_others(self) -> bool:
        """Whether any but this node's own clients have some, or had."""
        return len(self._counts) + len(self._left) > 0

    def recent(self, at: float, within_s: float) -> set[User]:
        """Who has any at ``at``, or had ``within_s`` before."""
        users: set[User] = {*self._counts}
        users.update([user for user, last in self._left.items() if at - last < within_s])
        if self._own or (self._own_left is not None and at - self._own_left < within_s):
            users.add(None)
        return users
