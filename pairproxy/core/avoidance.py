"""Which places are left alone for a while, and for how long.

Two things may be said of a place at once:

- it is *held back*: it said "not now" (its slot went to somebody else, its engine is full), or nothing
  answered there a moment ago. It counts as busy until then, and is not even a last resort;
- it is *avoided*: attempts failed there. Others are preferred, for twice as long after each failure in a row;
  where there is no other it is used all the same.

A place in *trouble* (full, or not there) is tried by one request at a time until a reply begins: what waits
for it must not fall upon it all at once.
"""

import math
from dataclasses import dataclass
from typing import Final

from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import PairproxyError, SlotsTaken, Unreachable, UpstreamBusy
from pairproxy.core.models import NodeId, Place

HOLD_BACK_S: Final = 0.25  # after a refusal without news: one promise time, so that a fresh state can arrive
REFUSALS: Final = 16  # in a row from one place: who always says "not now" and publishes free slots fails us
BUSY_HOLD_S = 1.0  # after an engine said 503: what its Retry-After usually says; doubling each time ...
BUSY_LONGEST_S = 30.0  # ... up to this, whatever its Retry-After asks for: no engine can put itself to sleep
GONE_HOLD_S = 0.5  # between two looks whether something answers there again, where there is no other place
AVOID_FIRST_S: Final = 1.0  # a place that failed is left alone for this long, doubling with each failure ...
AVOID_LONGEST_S: Final = 30.0  # ... up to this, so that a node that came back is used within half a minute
FORGET_S: Final = 600.0  # after its end a mark is forgotten: an old failure says nothing of the node of today
MOST_PLACES: Final = 1024  # remembered at once; a cluster has tens


@dataclass(slots=True)
class _Mark:
    held_until: float = -math.inf
    tried_until: float = -math.inf  # one request is out to see how it is
    avoided_until: float = -math.inf
    failures: int = 0  # in a row; a reply that ends well ends the row
    refusals: int = 0  # of slots, in a row
    busy: int = 0  # times that its engine said so, in a row
    is_gone: bool = False  # nothing answered there
    blamed_at: float = -math.inf

    @property
    def until(self) -> float:
        return max(self.held_until, self.tried_until, self.avoided_until)

    @property
    def is_in_trouble(self) -> bool:
        return self.busy > 0 or self.is_gone


class Avoidance:
    """Places that refused (held back for a moment) or failed (avoided for a growing time)."""

    def __init__(self) -> None:
        self._marks: dict[Place, _Mark] = {}

    def __len__(self) -> int:
        """Places of which anything is remembered."""
        return len(self._marks)

    def blame(self, place: Place, error: PairproxyError, at: float, *, is_own: bool = False) -> None:
        """Note that an attempt at a place ended with ``error``.

        ``is_own``: an engine of this node, which the monitor judges; it is held back, never avoided.
        """
        mark = self._mark(place, at)
        mark.blamed_at, mark.tried_until = at, -math.inf
        if isinstance(error, UpstreamBusy):
            if mark.held_until <= at or not mark.busy:  # what was sent with it is told the same
                mark.busy = min(mark.busy + 1, REFUSALS)
            wanted_s = max(error.retry_after_s or 0.0, BUSY_HOLD_S * 2.0 ** (mark.busy - 1))
            mark.held_until = max(mark.held_until, at + min(wanted_s, BUSY_LONGEST_S))
            return
        if isinstance(error, SlotsTaken) and mark.refusals < REFUSALS:
            mark.refusals += 1
            mark.held_until = max(mark.held_until, at + HOLD_BACK_S)
            return
        if isinstance(error, Unreachable):
            mark.is_gone = True
            mark.held_until = max(mark.held_until, at + GONE_HOLD_S)
        if not is_own:
            avoid_s = min(AVOID_FIRST_S * 2.0**mark.failures, AVOID_LONGEST_S)
            mark.avoided_until = max(mark.avoided_until, at + avoid_s)
            mark.failures = min(mark.failures + 1, REFUSALS)

    def sent(self, place: Place, at: float) -> None:
        """A request was sent there: to a place in trouble no other is, until that one tells how it is now."""
        mark = self._find(place)
        if mark is not None and mark.is_in_trouble:
            mark.tried_until = at + BUSY_LONGEST_S

    def left(self, place: Place) -> None:
        """The client of a request that was sent there left: it tells nothing any more."""
        mark = self._marks.get(place)
        if mark is not None:
            mark.tried_until = -math.inf

    def begun(self, place: Place) -> None:
        """A reply began there: the place works. Whether its replies end well is yet to be seen."""
        mark = self._find(place)
        if mark is not None:
            self._marks[place] = _Mark(failures=mark.failures, blamed_at=mark.blamed_at)
            if not mark.failures:
                del self._marks[place]

    def forgive(self, place: Place) -> None:
        """A reply ended well there, or its engine is there anew: nothing is held against it."""
        if self._marks:
            self._marks.pop(place, None)

    def hear(self, document: StateDocument, reader: NodeId) -> None:
        """Fresh news of a slot that is free for the reader end a hold-back, not an avoidance.

        Nor do they help against an engine that says 503 although slots of it are free.
        """
        for engine in document.engines:
            mark = self._marks.get(Place(document.node, engine.engine))
            kept = sum(promise.origin != reader for promise in engine.promises)
            if mark is not None and not mark.is_in_trouble and engine.in_flight + kept < engine.slots:
                mark.held_until = -math.inf

    def is_avoided(self, place: Place, at: float) -> bool:
        """Whether the place is left alone now, for whatever reason."""
        mark = self._marks.get(place)
        return mark is not None and mark.until > at

    def is_left_alone(self, place: Place, at: float) -> bool:
        """Whether it is a last resort now: who failed, and who is in trouble; not who only refused."""
        mark = self._find(place)
        if mark is None:
            return False
        return mark.avoided_until > at or (mark.is_in_trouble and mark.until > at)

    def held_back_s(self, place: Place, at: float) -> float:
        """For how long it goes on to say "not now": it is busy until then; 0.0: it does not."""
        mark = self._marks.get(place)
        return 0.0 if mark is None else max(mark.held_until - at, mark.tried_until - at, 0.0)

    @property
    def has_trouble(self) -> bool:
        """Whether any place is full or gone, and has not begun a reply since."""
        return any(mark.is_in_trouble for mark in self._marks.values())

    def is_in_trouble(self, place: Place) -> bool:
        """Whether this one is."""
        mark = self._marks.get(place)
        return mark is not None and mark.is_in_trouble

    def next_end(self, at: float) -> float | None:
        """When the next place may be used again."""
        marks = self._marks.values()
        ends = [end for one in marks for end in (one.held_until, one.tried_until, one.avoided_until)]
        return min((end for end in ends if end > at), default=None)

    def _find(self, place: Place) -> _Mark | None:
        """What is remembered of it: mostly nothing of any."""
        return self._marks.get(place) if self._marks else None

    def _mark(self, place: Place, at: float) -> _Mark:
        for old in [
            one for one, mark in self._marks.items() if max(mark.until, mark.blamed_at) + FORGET_S < at
        ]:
            del self._marks[old]
        if place not in self._marks and len(self._marks) >= MOST_PLACES:
            del self._marks[min(self._marks, key=lambda one: self._marks[one].until)]
        return self._marks.setdefault(place, _Mark())
