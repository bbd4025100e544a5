import pytest

from pairproxy.core.models import AttemptId, NodeId, RequestId
from pairproxy.core.running import LATE_TIMES, Running, RunningTable
from tests.core.told import FAST, A, B, ask, at


def running(
    name: str, number: int = 1, *, node: NodeId = A, dispatched_at: float = 0.0, expected_s: float = 10.0
) -> Running:
    """An attempt that has just been dispatched."""
    return Running(AttemptId(RequestId(name), number), ask(name), at(node), FAST, dispatched_at, expected_s)


def test_a_slot_is_free_when_its_request_is_expected_to_end() -> None:
    """Overdue ones are expected at once; one that takes far too long, later with every second."""
    one = running("r", dispatched_at=5.0, expected_s=10.0)
    assert [one.remaining_s(time) for time in (5.0, 12.0, 15.0)] == [10.0, 3.0, 0.0]
    assert one.remaining_s(20.0) < 0.0
    late = 5.0 + LATE_TIMES * 10.0
    assert [one.remaining_s(late + more) for more in (0.0, 7.0)] == [0.0, 7.0]


def test_decoding_time_is_counted_as_if_alone() -> None:
    """Two that decode at once each count for less; one that still reads its prompt is company, too."""
    table = RunningTable()
    first, second = running("r1"), running("r2")
    table.add(first)
    table.count_time(1.0)
    first.first_byte_at = 1.0
    table.count_time(3.0)
    table.add(second)
    table.count_time(4.0)
    assert first.alone_s == pytest.approx(2.0 + 1.0 / 1.15)
    assert second.alone_s == 0.0
    table.add(running("elsewhere", node=B))
    table.remove(second.attempt)
    table.count_time(5.0)
    assert first.alone_s == pytest.approx(3.0 + 1.0 / 1.15)


def test_an_attempt_that_settles_no_longer_serves_its_request() -> None:
    """The next attempt of the same request does."""
    table = RunningTable()
    first, second = running("r", 1), running("r", 2, node=B)
    table.add(first)
    assert table.of_request("r") is first
    first.is_settling = True
    assert table.of_request("r") is None
    table.add(second)
    assert table.of_request("r") is second
    assert (table.at_place(at(A)), table.at_node(B), len(table)) == ([first], [second], 2)
    table.remove(first.attempt)
    table.remove(first.attempt)
    assert list(table) == [second]
    assert table.get(first.attempt) is None
