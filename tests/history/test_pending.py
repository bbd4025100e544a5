from pairproxy.history.changes import NodeChange
from pairproxy.history.keeping import RunBook
from pairproxy.history.marks import Mark
from pairproxy.history.pending import BATCH, LIMIT_CHANGES, LIMIT_PENDING, Pending
from tests.core.accounting.conversation import B, served
from tests.history.kept import NAMES, job


class Waiting:
    """What waits, with its book."""

    def __init__(self, count: int) -> None:
        self.book = RunBook()
        self.pending = Pending(self.book)
        self.records = job(count)
        for number, one in enumerate(self.records, 1):
            self.book.marks.note(one.id, Mark(number, one.ended_at))
            self.pending.add(number, one.ended_at, one)
        self.pending.settle(self.book.settle(self.records, {}, 0.0))


def test_requests_come_first_and_their_runs_with_the_last() -> None:
    """So that no row of a run names requests that are not there."""
    waiting = Waiting(BATCH + 3)
    first = waiting.pending.take(NAMES)
    assert first is not None
    assert (len(first.ended), first.runs, first.joined) == (BATCH, (), {})
    waiting.pending.written(first)
    second = waiting.pending.take(NAMES)
    assert second is not None
    assert ([one.number for one in second.runs], len(second.joined)) == ([1], BATCH + 3)
    assert second.ended[0].number == BATCH + 1
    waiting.pending.written(second)
    assert waiting.pending.take(NAMES) is None
    assert len(waiting.pending) == 0


def test_what_could_not_be_written_is_there_again() -> None:
    """Together with what came meanwhile."""
    waiting = Waiting(2)
    waiting.pending.change([NodeChange(1.0, B, "up")])
    batch = waiting.pending.take(NAMES)
    assert batch is not None
    waiting.pending.add(3, 9.0, served("late", 8.0, 8.0, 9.0))
    waiting.pending.give_back(batch)
    again = waiting.pending.take(NAMES)
    assert again is not None
    assert [one.number for one in again.ended] == [1, 2, 3]
    assert [one.number for one in again.runs] == [1]
    assert (again.joined, again.changes) == (batch.joined, batch.changes)


def test_what_comes_while_a_batch_is_written_waits_for_the_next() -> None:
    """A run that grows meanwhile is in both, each time as it was then."""
    waiting = Waiting(2)
    batch = waiting.pending.take(NAMES)
    assert batch is not None
    late = served("job9", 0.5, 0.5, 9.0, run="job")
    waiting.book.marks.note(late.id, Mark(3, 9.0))
    waiting.pending.add(3, 9.0, late)
    waiting.pending.change([NodeChange(1.0, B, "up")])
    waiting.pending.settle(waiting.book.settle([*waiting.records, late], {}, 9.0))
    waiting.pending.written(batch)
    assert batch.runs[0].requests == batch.runs[0].outcomes.total() == 2
    following = waiting.pending.take(NAMES)
    assert following is not None
    assert [one.number for one in following.ended] == [3]
    assert (following.joined, following.runs[0].requests, len(following.changes)) == ({3: 1}, 3, 1)


def test_it_is_bounded() -> None:
    """The newest stay; requests that found no room are counted."""
    waiting = Waiting(0)
    for number in range(LIMIT_PENDING + 5):
        waiting.pending.add(number, 0.0, served(f"r{number}", 0.0, 0.0, 1.0))
    waiting.pending.change(NodeChange(float(number), B, "up") for number in range(LIMIT_CHANGES + 5))
    assert (len(waiting.pending), waiting.pending.dropped) == (LIMIT_PENDING, 5)
    batch = waiting.pending.take(NAMES)
    assert batch is not None
    assert batch.ended[0].number == 5
    waiting.pending.clear()
    assert waiting.pending.take(NAMES) is None
