"""Which of the prompts that end alike was gone on with: as by looking at each, but without doing so."""

import sys
from types import FrameType

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.accounting.chains import EARLY_S, follows
from pairproxy.core.accounting.prompts import Prompts
from tests.core.accounting.conversation import served

seconds = st.integers(0, 12).map(float)
lengths = st.tuples(st.integers(1, 3), st.integers(1, 4))


@given(st.lists(st.tuples(seconds, seconds, lengths), max_size=14))
def test_the_answer_is_that_of_looking_at_each(asked: list[tuple[float, float, tuple[int, int]]]) -> None:
    """Whatever ended when, however long it was: the last end of the shorter ones, the first of several."""
    prompts, put_down = Prompts(), list[tuple[float, tuple[int, int]]]()
    until = 0.0
    for index, (step_s, takes_s, length) in enumerate(asked):
        until += step_s
        able = [one for one, (end, its) in enumerate(put_down) if end <= until and its < length]
        assert prompts.last(until, length) == max(able, key=lambda one: put_down[one][0], default=None)
        put_down.append((until + takes_s - 6.0, length))
        prompts.add(index, length, until + takes_s - 6.0)


def test_nobody_is_asked_of_its_own_prompt() -> None:
    """An empty one tells nobody; the same length is no step."""
    prompts = Prompts()
    assert prompts.last(9.0, (1, 1)) is None
    prompts.add(0, (1, 5), 1.0)
    assert prompts.last(0.5, (1, 6)) is None
    assert prompts.last(1.0, (1, 5)) is None
    assert prompts.last(1.0, (1, 6)) == 0


def test_thousands_with_the_same_system_prompt_cost_little_each() -> None:
    """Twice as many take about twice the work, be the questions behind it of one length or of many."""
    for lengths_of in (1, 97):
        few, many = (_calls(count, lengths_of) for count in (500, 1000))
        assert many < 2.5 * few


def _calls(count: int, lengths_of: int) -> int:
    """Python functions that are called to find what follows what among so many requests."""
    records = [
        served(str(at), at * 0.1, at * 0.1, at * 0.1 + 0.2 + EARLY_S, prefix=(7,), prompt=1 + at % lengths_of)
        for at in range(count)
    ]
    calls = 0

    def count_one(_: FrameType, what: str, __: object) -> None:
        nonlocal calls
        calls += what == "call"

    before = sys.getprofile()
    sys.setprofile(count_one)
    try:
        follows(records)
    finally:
        sys.setprofile(before)
    return calls
