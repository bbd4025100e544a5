from dataclasses import replace

import pytest

from pairproxy.core.lengths import Lengths
from pairproxy.core.models import AttemptId, NodeId, RequestId, Usage
from pairproxy.core.running import LATE_TIMES, Running, RunningTable
from pairproxy.core.timing import Timing
from tests.core.told import FAST, A, B, C, ask, at


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


def test_what_is_left_is_what_others_of_its_kind_had_left() -> None:
    """Before the first byte all of the reply; then what those went on for that were as long by now."""
    one = running("r")  # 100 tokens in 0.1 s, at most 100 out at 100 a second
    lengths = Lengths([40, 80, 80] * 60)
    assert one.left_s(lengths, 0.0) == pytest.approx((0.1, 0.1 + 66.7 / 100), rel=0.01)
    table, other = RunningTable(), running("r2")
    table.add(one)
    table.add(other)  # is read beside it: each has half of what passes
    table.count_time(0.1)
    assert one.left_s(lengths, 0.1)[0] == pytest.approx(0.05)
    table.begin(one, 0.1)
    table.count_time(0.1 + 0.1 * 1.15)
    table.remove(other.attempt)
    table.count_time(0.315)
    assert one.company_s == pytest.approx({1: 0.1, 2: 0.1 * 1.15})
    assert one.left_s(lengths, 0.315) == pytest.approx((0.0, 46.7 / 100), rel=0.01)
    table.count_time(0.615)
    assert one.left_s(lengths, 0.6) == pytest.approx((0.0, 30 / 100), rel=0.02)
    assert one.left_s(lengths, 35.0)[1] == 5.0


def test_a_reply_in_one_piece_is_not_known_to_have_begun() -> None:
    """Its first byte is its end; until then all of it may be to come."""
    one = running("r")
    one.request = replace(one.request, is_streaming=False)
    table = RunningTable()
    table.add(one)
    table.count_time(0.5)
    assert one.left_s(Lengths([80] * 100), 0.5)[1] == pytest.approx(0.8, rel=0.02)


def test_time_is_counted_by_company() -> None:
    """Before the first byte and after it; one that still reads its prompt is company, too."""
    table = RunningTable()
    first, second = running("r1"), running("r2")
    table.add(first)
    table.count_time(1.0)
    assert (first.all_s, first.company_s) == ({1: 1.0}, {})
    table.begin(first, 1.0)
    table.count_time(3.0)
    table.add(second)
    table.count_time(4.0)
    assert (first.all_s, first.company_s) == ({1: 3.0, 2: 1.0}, {1: 2.0, 2: 1.0})
    assert (second.all_s, second.company_s) == ({2: 1.0}, {})
    table.add(running("elsewhere", node=B))
    table.remove(second.attempt)
    table.count_time(5.0)
    assert first.company_s == {1: 3.0, 2: 1.0}


def test_prompts_that_are_read_at_once_have_a_part_of_the_machine_each() -> None:
    """One of two that read has half of it, one that reads beside a reply all of it."""
    table = RunningTable()
    first, second = running("r1"), running("r2")
    table.add(first)
    table.add(second)
    table.count_time(4.0)
    table.begin(first, 4.0)
    table.count_time(6.0)
    table.begin(second, 6.0)
    usage = Usage(output_tokens=None)
    assert first.timing(usage) == Timing(4.0, 0.5, {2: 2.0})
    later = second.timing(usage)
    assert (later.ttft_s, later.company_s) == (6.0, {})
    assert later.own_part == pytest.approx(4.0 / 6.0)


def test_an_attempt_that_settles_no_longer_serves_its_request() -> None:
    """The next attempt of the same request does."""
    table = RunningTable()
    first, second = running("r", 1), running("r", 2, node=B)
    table.add(first)
    assert table.of_request(RequestId("r")) is first
    table.settle(first)
    assert table.of_request(RequestId("r")) is None
    table.add(second)
    assert table.of_request(RequestId("r")) is second
    assert (table.count(at(A)), table.count(at(B)), table.count(at(C))) == (1, 1, 0)
    assert (table.at_place(at(A)), table.at_node(B), len(table)) == ([first], [second], 2)
    table.remove(first.attempt)
    table.remove(first.attempt)
    assert list(table) == [second]
    assert table.has_request(RequestId("r"))
    table.remove(second.attempt)
    assert not table.has_request(RequestId("r"))
    assert table.get(first.attempt) is None


def answered(*, streaming: bool, was_cold: bool = False, prompt: int = 100) -> Running:
    """An attempt whose first byte came after 4 s and whose last came 2 s later; its prompt takes 0.1 s."""
    one = running("r")
    one.request = replace(one.request, is_streaming=streaming, prompt_tokens=prompt)
    one.was_cold = was_cold
    table = RunningTable()
    table.add(one)
    table.count_time(4.0)
    table.begin(one, 4.0)
    table.count_time(5.0)
    table.add(running("beside"))
    table.count_time(6.0)
    return one


def test_a_stream_shows_its_reading_and_its_writing() -> None:
    """A cold model's first byte says nothing of reading."""
    usage = Usage(output_tokens=10, records=12)
    assert answered(streaming=True).timing(usage) == Timing(4.0, company_s={1: 1.0, 2: 1.0})
    assert answered(streaming=True, was_cold=True).timing(usage) == Timing(0.0, company_s={1: 1.0, 2: 1.0})
    assert running("r").timing(usage) == Timing()


@pytest.mark.parametrize(("streaming", "records"), [(False, None), (True, 2)])
def test_a_reply_in_one_piece_took_as_long_as_it_was_waited_for(streaming: bool, records: int | None) -> None:
    """Not the instant between first byte and last; a stream may be held back, as the call of a tool is."""
    usage = Usage(output_tokens=10, records=records)

    def company_s(one: Running, usage: Usage = usage) -> dict[int, float]:
        timing = one.timing(usage)
        assert timing.ttft_s == 0.0
        return dict(timing.company_s)

    part = 1 - 0.1 / 6
    assert company_s(answered(streaming=streaming)) == pytest.approx({1: 5 * part, 2: part})
    assert company_s(answered(streaming=streaming, was_cold=True)) == {}
    assert company_s(answered(streaming=streaming, prompt=10**6)) == pytest.approx({1: 2.5, 2: 0.5})
    told = answered(streaming=streaming).timing(replace(usage, decode_s=3.0, records=records))
    assert told.decoding(3.0) == pytest.approx({1: 2.5, 2: 0.5})
    read = company_s(answered(streaming=streaming), replace(usage, prefill_s=1.5, records=records))
    assert read == pytest.approx({1: 5 * 0.75, 2: 0.75})


def test_a_reply_without_output_was_all_reading() -> None:
    """As that to an embedding is."""
    assert answered(streaming=False).timing(Usage(output_tokens=None)).ttft_s == 4.0


def test_who_used_a_place_is_remembered_for_a_while() -> None:
    """Also after the last attempt of a user is over there: until the event before that."""
    table = RunningTable()
    table.count_time(0.0)
    own, guest = running("r1"), running("r2")
    guest.request = replace(guest.request, origin=B)
    table.add(own)
    table.add(guest)
    table.count_time(2.0)
    table.count_time(3.0)
    table.remove(guest.attempt)
    assert table.users(at(A), 3.0, 5.0) == {None, B}
    assert table.users(at(A), 6.9, 5.0) == {None, B}
    assert table.users(at(A), 7.0, 5.0) == {None}
    assert table.users(at(B), 3.0, 5.0) == set()


def test_a_stream_of_an_own_client_is_silent_until_it_begins() -> None:
    """One that settles is over for its client, and of a guest its own node judges."""
    table = RunningTable()
    one, other, gone = running("r1"), running("r2"), running("r3", node=B)
    guest, whole = running("r4"), running("r5")
    guest.request = replace(guest.request, origin=B)
    whole.request = replace(whole.request, is_streaming=False)
    for each in (one, other, gone, guest, whole):
        table.add(each)
    assert [[*ones] for ones in table.silent()] == [[one, other], [gone]]
    table.begin(one, 1.0)
    table.settle(gone)
    assert [[*ones] for ones in table.silent()] == [[other]]
    table.remove(other.attempt)
    assert [*table.silent()] == []
