from dataclasses import replace

import pytest

from pairproxy.core.models import AttemptId, NodeId, RequestId, Usage
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


def answered(*, streaming: bool, was_cold: bool = False) -> Running:
    """An attempt whose first byte came after 4 s and whose last came 2 s later; its prompt takes 0.1 s."""
    one = running("r")
    one.request = replace(one.request, is_streaming=streaming)
    one.first_byte_at, one.alone_s, one.was_cold = 4.0, 2.0, was_cold
    return one


def test_a_stream_shows_its_reading_and_its_writing() -> None:
    """A cold model's first byte says nothing of reading."""
    usage = Usage(output_tokens=10)
    assert answered(streaming=True).measured(usage, 1) == (4.0, 2.0)
    assert answered(streaming=True, was_cold=True).measured(usage, 1) == (0.0, 2.0)
    assert running("r").measured(usage, 1) == (0.0, 0.0)


def test_a_reply_in_one_piece_took_as_long_as_it_was_waited_for() -> None:
    """Not the instant between its first byte and its last; who ran beside it is reckoned with."""
    usage = Usage(output_tokens=10)
    assert answered(streaming=False).measured(usage, 1) == pytest.approx((0.0, 3.9))
    assert answered(streaming=False).measured(usage, 2) == pytest.approx((0.0, 3.9 / 1.15))
    assert answered(streaming=False, was_cold=True).measured(usage, 1) == (0.0, 0.0)
    assert answered(streaming=False).measured(replace(usage, decode_s=3.0), 1) == (0.0, 3.0)
    long = answered(streaming=False)
    long.request = replace(long.request, prompt_tokens=1_000_000)
    assert long.measured(usage, 1) == (0.0, 2.0)


def test_a_reply_without_output_was_all_reading() -> None:
    """As that to an embedding is."""
    assert answered(streaming=False).measured(Usage(output_tokens=None), 1)[0] == 4.0
