from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.accounting.throughput import MOST_NODES, MOST_WRITING, RECENT_S, Throughput
from pairproxy.core.commands import Command
from pairproxy.core.errors import BrokenReply, QueueFull, SlotsTaken
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    FirstByteReceived,
    ReplyBroken,
    RequestAbandoned,
    RequestArrived,
    TimePassed,
)
from pairproxy.core.models import AttemptId, NodeId, Outcome, RequestId, Usage
from tests.core.accounting.conversation import A, B, asked, dispatch, refuse


class Told:
    """A throughput that is told of replies; ``written``: tokens of each that came, as a meter counts them."""

    def __init__(self) -> None:
        self.written: dict[str, int] = {}
        self.throughput = Throughput(self._written_of)

    def _written_of(self, attempt: AttemptId) -> Callable[[], int] | None:
        return lambda: self.written.get(attempt.request, 0)

    def sent(self, at: float, name: str, node: NodeId = A, number: int = 1) -> None:
        commands: list[Command] = [dispatch(name, node, number)]
        self.throughput.record(RequestArrived(at, asked(name)), commands)

    def begun(self, at: float, name: str) -> None:
        self.throughput.record(FirstByteReceived(at, AttemptId(RequestId(name), 1)), [])

    def ended(self, at: float, name: str, tokens: int | None, decode_s: float | None = None) -> None:
        usage = Usage(output_tokens=tokens, decode_s=decode_s)
        attempt = AttemptId(RequestId(name), 1)
        self.throughput.record(AttemptFinished(at, attempt, Outcome.DONE, usage), [])

    def recent(self, at: float, node: NodeId = A) -> list[float]:
        """What the last whole seconds brought, without the empty ones before."""
        told = list(self.throughput.recent(node, at))
        while told and not told[0]:
            del told[0]
        return told


def test_a_stream_that_nobody_looked_at_is_spread_from_its_first_byte_to_its_end() -> None:
    """Four seconds of five tokens each, and none while its prompt was read."""
    told = Told()
    told.sent(0.0, "r")
    told.begun(2.0, "r")
    told.written["r"] = 20
    told.ended(6.0, "r", 20)
    assert told.recent(6.0) == pytest.approx([5.0, 5.0, 5.0, 5.0])
    assert told.recent(8.0) == pytest.approx([5.0, 5.0, 5.0, 5.0, 0.0, 0.0])
    assert told.throughput.recent(B, 6.0) == (0.0,) * RECENT_S


def test_what_came_since_the_last_look_counts_since_then() -> None:
    """An engine that falters is seen to; the end tells the rest."""
    told = Told()
    told.sent(0.0, "r")
    told.begun(0.0, "r")
    for at, written in ((1.0, 10), (2.0, 10), (3.0, 14)):
        told.written["r"] = written
        told.throughput.look(at)
    assert told.throughput.tokens_of(AttemptId(RequestId("r"), 1)) == 14
    told.written["r"] = 20
    told.ended(4.0, "r", 20)
    assert told.recent(4.0) == pytest.approx([10.0, 0.0, 4.0, 6.0])
    assert told.throughput.tokens_of(AttemptId(RequestId("r"), 1)) == 0


def test_the_last_second_is_a_mean_that_slides() -> None:
    """So that it does not jump at each whole second; it is over a second later."""
    told = Told()
    told.sent(0.0, "r")
    told.begun(0.0, "r")
    told.written["r"] = 20
    told.ended(2.0, "r", 20)
    for at, rate in ((2.0, 10.0), (2.25, 7.5), (3.0, 0.0)):
        assert told.throughput.current(A, at) == pytest.approx(rate)


def test_a_reply_in_one_piece_is_spread_over_the_time_of_its_writing() -> None:
    """As its engine tells it; else over all the time it had. It shows no token before."""
    told = Told()
    for name in ("r", "s"):
        told.sent(0.0, name, A if name == "r" else B)
        told.begun(4.0, name)
    told.throughput.look(4.0)
    assert told.recent(4.0) == []
    told.ended(4.0, "r", 8, decode_s=2.0)
    told.ended(4.0, "s", 8)
    assert told.recent(4.0) == pytest.approx([4.0, 4.0])
    assert told.recent(4.0, B) == pytest.approx([2.0, 2.0, 2.0, 2.0])


def test_a_stream_that_came_in_a_lump_counts_like_one_in_one_piece() -> None:
    """The call of a tool is held back by its engine, and comes at the end."""
    told = Told()
    told.sent(0.0, "r")
    told.begun(4.0, "r")
    told.written["r"] = 2
    told.ended(4.0, "r", 40)
    assert told.recent(4.0) == pytest.approx([10.0] * 4)


def test_an_engine_that_does_not_count_has_what_was_seen() -> None:
    """Nothing is made up for one that came in one piece."""
    told = Told()
    for name, written in (("r", 6), ("s", 0)):
        told.sent(0.0, name, A if name == "r" else B)
        told.begun(0.0, name)
        told.written[name] = written
        told.ended(2.0, name, None)
    assert told.recent(2.0) == pytest.approx([3.0, 3.0])
    assert told.recent(2.0, B) == []


def test_more_records_than_tokens_are_set_right_at_the_end() -> None:
    """Events that hold no token were counted; no second goes below nothing."""
    told = Told()
    told.sent(0.0, "r")
    told.begun(0.0, "r")
    told.written["r"] = 20
    told.throughput.look(1.0)
    told.ended(2.0, "r", 12)
    assert sum(told.throughput.recent(A, 2.0)) == pytest.approx(16.0)  # 20 - 4, and -4 that is not shown
    assert min(told.throughput.recent(A, 2.0)) == 0.0


def test_what_was_written_for_who_left_or_was_lost_counts() -> None:
    """The node did it. What failed before its first byte wrote nothing."""
    told = Told()
    for name in ("left", "lost", "failed"):
        told.sent(0.0, name)
    for name in ("left", "lost"):
        told.begun(0.0, name)
        told.written[name] = 4
    told.throughput.record(RequestAbandoned(1.0, RequestId("left")), [])
    told.throughput.record(ReplyBroken(1.0, AttemptId(RequestId("lost"), 1), 6), [])
    told.throughput.record(AttemptFailed(1.0, AttemptId(RequestId("failed"), 1), BrokenReply("b")), [])
    assert told.recent(1.0) == pytest.approx([10.0])
    told.written |= {"left": 99, "lost": 99, "failed": 99}
    told.throughput.look(2.0)
    assert told.recent(2.0) == pytest.approx([10.0, 0.0])


def test_the_attempt_that_lost_the_race_is_forgotten() -> None:
    """A request that ended writes no more, whoever else was at it."""
    told = Told()
    told.sent(0.0, "r")
    told.sent(0.0, "r", B, 2)
    told.ended(1.0, "r", 5)
    told.throughput.record(FirstByteReceived(1.0, AttemptId(RequestId("r"), 2)), [])
    told.written["r"] = 50
    told.throughput.look(2.0)
    assert told.recent(2.0, B) == []


@pytest.mark.parametrize("first", [1, 2, 3])
def test_of_several_attempts_each_can_fail_first(first: int) -> None:
    """The others write on, and the one that ended wrote no more."""
    told = Told()
    for number, node in ((1, A), (2, B), (3, A)):
        told.sent(0.0, "r", node, number)
    failed = [AttemptId(RequestId("r"), number) for number in (first, first % 3 + 1)]
    for attempt in failed:
        told.throughput.record(FirstByteReceived(0.0, attempt), [])
        told.throughput.record(AttemptFailed(0.5, attempt, BrokenReply("b")), [])
        told.throughput.record(AttemptFailed(0.5, attempt, BrokenReply("b")), [])
    (left,) = {1, 2, 3} - {attempt.number for attempt in failed}
    last = AttemptId(RequestId("r"), left)
    told.throughput.record(FirstByteReceived(1.0, last), [])
    told.written["r"] = 6
    told.throughput.look(2.0)
    assert (told.throughput.tokens_of(last), told.throughput.tokens_of(failed[0])) == (6, 0)
    told.throughput.record(AttemptFinished(2.0, last, Outcome.DONE, Usage(output_tokens=6)), [])
    assert told.throughput._writing == {}


def test_nothing_is_kept_of_what_is_over() -> None:
    """However it ended: also refused after it was sent, and when its client left before its first byte."""
    told = Told()
    for name in ("refused", "left", "ended", "failed"):
        told.sent(0.0, name)
    told.throughput.record(TimePassed(1.0), [refuse("refused", QueueFull("full"))])
    told.throughput.record(RequestAbandoned(1.0, RequestId("left")), [])
    told.throughput.record(AttemptFailed(1.0, AttemptId(RequestId("failed"), 1), BrokenReply("b")), [])
    told.ended(1.0, "ended", 1)
    assert told.throughput._writing == {}


def test_a_request_that_is_refused_for_its_id_takes_nothing_from_the_one_that_has_it() -> None:
    """A peer may send an attempt twice; the first one writes on."""
    told = Told()
    told.sent(0.0, "r")
    told.begun(0.0, "r")
    told.throughput.record(RequestArrived(0.5, asked("r")), [refuse("r", SlotsTaken("here"))])
    told.ended(1.0, "r", 8)
    assert told.recent(1.0) == pytest.approx([8.0])


def test_seconds_that_are_over_are_let_go_of() -> None:
    """A node that writes for days has a minute of it in memory."""
    told = Told()
    for number in range(10 * RECENT_S):
        told.sent(number, f"r{number}")
        told.ended(number + 1.0, f"r{number}", 5)
    (kept,) = told.throughput._seconds.values()
    assert len(kept) <= RECENT_S + 2
    assert told.recent(10.0 * RECENT_S) == [5.0] * RECENT_S


def test_only_so_many_attempts_are_followed() -> None:
    """Were there ever more, the first ones are told of, and the others again when those have ended."""
    told = Told()
    for number in range(MOST_WRITING + 1):
        told.sent(0.0, f"r{number}")
    assert len(told.throughput._writing) == MOST_WRITING
    told.ended(1.0, "r0", 5)
    told.sent(1.0, "late")
    assert len(told.throughput._writing) == MOST_WRITING
    told.ended(2.0, "late", 3)
    assert told.recent(2.0) == [5.0, 3.0]


def test_only_so_many_nodes_are_kept() -> None:
    """Who wrote longest ago is forgotten."""
    told = Told()
    for number in range(MOST_NODES + 1):
        told.sent(0.0, f"r{number}", NodeId(f"n{number}"))
        told.ended(1.0, f"r{number}", 3)
    assert told.recent(1.0, NodeId("n0")) == []
    assert told.recent(1.0, NodeId("n1")) == [3.0]


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 20.0), st.floats(0.0, 5.0), st.floats(0.0, 20.0), st.integers(0, 500),
            st.lists(st.floats(0.0, 1.0), max_size=3),
        ),
        min_size=1,
        max_size=5,
    )
)  # fmt: skip
def test_whoever_looks_no_token_is_lost_and_none_is_counted_twice(
    replies: list[tuple[float, float, float, int, list[float]]],
) -> None:
    """The sum of all seconds is the sum of all replies, however often somebody looked meanwhile."""
    told = Told()
    last = 0.0
    for number, (start, reading, writing, tokens, looks) in enumerate(replies):
        name, begun, end = f"r{number}", start + reading, start + reading + writing
        told.sent(start, name)
        told.begun(begun, name)
        for part in sorted(looks):
            told.written[name] = int(tokens * part)
            told.throughput.look(begun + writing * part)
        told.written[name] = tokens
        told.ended(end, name, tokens)
        last = max(last, end)
    told_in_all = sum(told.throughput.recent(A, last + 1.0))
    assert told_in_all == pytest.approx(sum(reply[3] for reply in replies), abs=1e-6)
