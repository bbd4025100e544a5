from collections import deque

from pairproxy.core.queue import NOWHERE_S, RequestQueue, Waiting
from tests.core.told import ask


def filled(timeout_s: float = 60.0, **arrivals: float) -> RequestQueue:
    """A queue of these requests with their times of arrival."""
    queue = RequestQueue(timeout_s)
    for name, arrived_at in arrivals.items():
        queue.append(Waiting(ask(name), arrived_at))
    return queue


def names(waiting: RequestQueue | list[Waiting]) -> list[str]:
    """The requests, in order."""
    return [one.request.id for one in waiting]


def test_what_comes_back_stands_first() -> None:
    """It was there before all others; that it waits is announced anew."""
    queue = filled(r1=0.0, r2=1.0)
    first = next(iter(queue))
    first.is_announced = True
    queue.remove(first.request.id)
    queue.append(Waiting(ask("r3"), 2.0))
    queue.put_back(first)
    assert names(queue) == ["r1", "r2", "r3"]
    assert not first.is_announced
    assert (ask("r2").id in queue, ask("r4").id in queue, len(queue)) == (True, False, 3)


def test_a_request_leaves_by_name() -> None:
    """One that is not there does not matter."""
    queue = filled(r1=0.0, r2=1.0)
    queue.remove(ask("r1").id)
    queue.remove(ask("r1").id)
    assert names(queue) == ["r2"]
    queue.keep(deque())
    assert len(queue) == 0


def test_each_request_waits_as_long_as_the_others_may() -> None:
    """Exactly until the next deadline that is told."""
    queue = filled(r1=0.0, r2=5.0)
    assert queue.next_deadline() == 60.0
    assert queue.take_overdue(59.9, lambda _: True) == []
    assert names(queue.take_overdue(60.0, lambda _: True)) == ["r1"]
    assert (names(queue), queue.next_deadline()) == (["r2"], 65.0)
    assert filled().next_deadline() is None


def test_a_model_that_is_nowhere_is_waited_for_ten_seconds() -> None:
    """From when it went; if it comes back in time, all patience is back."""
    queue = filled(r=0.0)
    queue.take_overdue(30.0, lambda _: False)
    assert queue.next_deadline() == 30.0 + NOWHERE_S
    queue.take_overdue(35.0, lambda _: True)
    assert queue.next_deadline() == 60.0
    queue.take_overdue(40.0, lambda _: False)
    assert queue.take_overdue(49.9, lambda _: False) == []
    assert names(queue.take_overdue(50.0, lambda _: False)) == ["r"]


def test_nothing_waits_in_a_queue_that_is_closed() -> None:
    """What is there is overdue, and so is whatever comes."""
    queue = filled(r1=0.0, r2=5.0)
    assert not queue.is_closed
    queue.close()
    assert queue.is_closed
    assert names(queue.take_overdue(5.0, lambda _: True)) == ["r1", "r2"]
    queue.append(Waiting(ask("r3"), 6.0))
    assert names(queue.take_overdue(6.0, lambda _: True)) == ["r3"]


def test_a_short_patience_is_not_lengthened() -> None:
    """Where the rules allow less than ten seconds, they count for a model that is nowhere, too."""
    queue = filled(2.0, r=0.0)
    queue.take_overdue(0.0, lambda _: False)
    assert queue.next_deadline() == 2.0
