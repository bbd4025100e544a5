"""What waits for the disk, within bounds: requests, their runs, and what became of nodes."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.history.changes import NodeChange
from pairproxy.history.keeping import RunBook, Settled
from pairproxy.history.marks import Ended, Mark
from pairproxy.history.store import Batch

BATCH: Final = 512  # requests in one transaction: about a megabyte with their decisions
LIMIT_PENDING: Final = 4096  # requests that wait for the disk, the newest; about 4 kB each with decisions
LIMIT_CHANGES: Final = 1000  # of nodes that wait, about 200 bytes each; a flapping peer makes one a second
LIMIT_JOINED: Final = 16_384  # requests that wait for being told their run; two numbers each


class Pending:
    """``book`` knows the runs; ``dropped`` counts the requests that found no room or could not be a row."""

    def __init__(self, book: RunBook) -> None:
        self.dropped = 0
        self._book = book
        self._ended: deque[Ended] = deque(maxlen=LIMIT_PENDING)
        self._changed: deque[NodeChange] = deque(maxlen=LIMIT_CHANGES)
        self._joined: dict[int, int] = {}
        self._merged: dict[int, int] = {}
        self._runs: set[int] = set()

    def __len__(self) -> int:
        """Requests that wait."""
        return len(self._ended)

    def add(self, number: int, ended_unix: float, record: RequestRecord) -> None:
        """A request ended."""
        self.dropped += len(self._ended) == LIMIT_PENDING
        self._ended.append(Ended(number, ended_unix, record))

    def change(self, changes: Iterable[NodeChange]) -> None:
        """Something became of nodes."""
        self._changed.extend(changes)

    def settle(self, found: Settled) -> None:
        """Requests were found to be of these runs."""
        for gone, run in found.merged.items():
            self._merged[gone] = run
            self._runs.discard(gone)
            self._joined |= {one: run for one, there in self._joined.items() if there == gone}
        self._joined |= found.joined
        for number in [*islice(self._joined, max(len(self._joined) - LIMIT_JOINED, 0))]:
            del self._joined[number]
        self._runs |= {one.number for one in found.grown}
        self._runs &= self._book.runs.keys()

    def renew(self, run: int) -> None:
        """There is more to tell of a run."""
        self._runs.add(run)

    def take(self, names: Mapping[str, str]) -> Batch | None:
        """The next to be written, None if there is nothing; runs come with the last requests.

        A run in it is as it is now; one that grows meanwhile is written again.
        """
        if len(self._ended) > BATCH:
            return Batch(tuple(islice(self._ended, BATCH)))
        kept = [one for number in self._runs if (one := self._book.runs.get(number)) is not None]
        self._runs.clear()
        if not (self._ended or self._joined or self._merged or kept or self._changed):
            return None
        runs = [replace(one, outcomes=one.outcomes.copy()) for one in kept]
        ended, changed = tuple(self._ended), tuple(self._changed)
        return Batch(ended, dict(self._joined), dict(self._merged), runs, changed, names)

    def give_back(self, batch: Batch) -> None:
        """It could not be written."""
        self._runs |= {one.number for one in batch.runs} & self._book.runs.keys()

    def written(self, batch: Batch) -> None:
        """Let go of what is on disk now; what came meanwhile stays."""
        last = batch.ended[-1].number if batch.ended else 0
        pushed_out = len(batch.ended)  # meanwhile, by later ones: they are on disk all the same
        while self._ended and self._ended[0].number <= last:
            self._ended.popleft()
            pushed_out -= 1
        self.dropped = max(self.dropped - pushed_out, 0)
        for number in batch.joined:
            self._joined.pop(number, None)
        for number in batch.merged:
            self._merged.pop(number, None)
        for change in batch.changes:
            if self._changed and self._changed[0] is change:
                self._changed.popleft()

    def clear(self) -> None:
        """Nothing will be written any more."""
        for waiting in (self._ended, self._changed, self._joined, self._merged, self._runs):
            waiting.clear()


class Noting:
    """Hears each record: numbers it, marks it for its run, and puts it to what waits for the disk.

    Costs a microsecond; the rest is a thread's. ``is_off``: nothing is written. ``is_unsettled``: a request
    of this node's ended since somebody last said that none had.
    """

    def __init__(
        self, pending: Pending, book: RunBook, wall: Callable[[], float], wake: Callable[[], object]
    ) -> None:
        """``wake`` is called for each."""
        self.is_off = False
        self.is_unsettled = False
        self._number = 0
        self._pending = pending
        self._marks = book.marks
        self._wall = wall
        self._wake = wake

    def hear(self, record: RequestRecord) -> None:
        """A request ended."""
        self._number = number = self._number + 1
        ended_unix = self._wall()
        if record.origin is None:
            self._marks.note(record.id, Mark(number, ended_unix))
            self.is_unsettled = True
        if not self.is_off:
            self._pending.add(number, ended_unix, record)
        self._wake()
