import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.drawing.scale import counts, merged, tick_label, ticks


@given(st.floats(1e-3, 1e6), st.integers(2, 20))
def test_ticks_are_round_and_even_and_fit(end_s: float, most: int) -> None:
    """From 0, no more than asked for and not many fewer, none behind the end."""
    found = ticks(end_s, most)
    assert found[0] == 0.0
    assert len(found) <= most
    assert found[-1] <= end_s * (1 + 1e-6)
    if len(found) > 1:
        step = found[1]
        assert all(tick == pytest.approx(number * step) for number, tick in enumerate(found))
        assert float(f"{step:e}".split("e")[0]) in (1.0, 2.0, 5.0)


def test_nothing_has_one_tick() -> None:
    """A run of no length."""
    assert ticks(0.0, 5) == [0.0]


@pytest.mark.parametrize(
    ("at_s", "step_s", "text"),
    [(10.0, 5.0, "10"), (0.5, 0.5, "0.5"), (0.02, 0.02, "0.02"), (100.0, 100.0, "100")],
)
def test_labels_have_the_digits_of_their_step(at_s: float, step_s: float, text: str) -> None:
    """No more and no fewer."""
    assert tick_label(at_s, step_s) == text


def test_spans_are_counted_where_the_number_changes() -> None:
    """Two that overlap, and one that begins when another ends."""
    assert counts([(0.0, 4.0), (1.0, 2.0), (4.0, 5.0)]) == [(0.0, 1), (1.0, 2), (2.0, 1), (5.0, 0)]
    assert counts([]) == []


def test_spans_that_touch_become_one() -> None:
    """Their union by time; what is empty is left out."""
    assert list(merged([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (3.0, 4.0), (7.0, 7.0)])) == [
        (0.0, 4.0),
        (5.0, 6.0),
    ]
    assert list(merged([])) == []
