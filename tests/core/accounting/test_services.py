import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.accounting.services import (
    Service,
    Tally,
    at_node,
    at_place,
    busy_seconds,
    peak,
    percentile,
    seen_slots,
    tally,
)
from pairproxy.core.models import EngineId, Place
from tests.core.accounting.conversation import A, B, C, at, worked

intervals = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))
)


def test_a_tally_counts_each_place() -> None:
    """Overlapping requests make a place busy once; the share is of all output tokens."""
    counts = tally([worked(A, 0, 4), worked(A, 2, 6), worked(A, 8, 9), worked(B, 0, 5, tokens=300)], at_place)
    assert counts == {
        at(A): Tally(requests=3, prompt_tokens=30, output_tokens=300, busy_s=7, share=0.5),
        at(B): Tally(requests=1, prompt_tokens=10, output_tokens=300, busy_s=5, share=0.5),
    }


def test_two_engines_of_one_node_are_counted_together() -> None:
    """Per node, the engines' work is added and their busy time united."""
    other = Service(Place(A, EngineId("second")), 3.0, 6.0, output_tokens=100)
    counts = tally([worked(A, 0, 4), other], at_node)
    assert counts == {A: Tally(requests=2, prompt_tokens=10, output_tokens=200, busy_s=6.0, share=1.0)}


def test_an_attempt_that_led_to_nothing_is_busy_time_only() -> None:
    """A failed attempt is no request of its place; without any tokens the share is of the replies."""
    counts = tally([Service(at(A), 0.0, 2.0, is_reply=False), Service(at(B), 2.0, 5.0)], at_node)
    assert counts == {A: Tally(busy_s=2.0), B: Tally(requests=1, busy_s=3.0, share=1.0)}
    assert tally([Service(at(A), 0.0, 2.0, is_reply=False)], at_node) == {A: Tally(busy_s=2.0)}
    assert tally([], at_node) == {}


@given(intervals)
def test_busy_time_is_the_length_of_the_union(spans: list[tuple[int, int]]) -> None:
    """Busy seconds equal the number of unit steps that some interval covers."""
    covered = {step for start, end in spans for step in range(start, end)}
    assert busy_seconds(spans) == len(covered)


@given(intervals)
def test_peak_is_the_most_that_cover_one_step(spans: list[tuple[int, int]]) -> None:
    """The peak is the deepest pile of intervals over any unit step."""
    piles = [sum(start <= step < end for start, end in spans) for step in range(41)]
    assert peak(spans) == max(piles)


def test_slots_are_never_fewer_than_were_seen_in_use() -> None:
    """A node that did two at once has two slots, an unlisted one has at least one, an idle one stays."""
    services = [worked(A, 0, 4), worked(A, 2, 6), worked(B, 0, 4), worked(B, 4, 6)]
    assert seen_slots(services, {A: 1, C: 3}) == {A: 2, C: 3, B: 1}


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [([], 0.5, None), ([3.0], 0.9, 3.0), ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0), ([*range(1, 11)], 0.9, 9)],
)
def test_percentiles_are_values_that_were_seen(
    values: list[float], part: float, expected: float | None
) -> None:
    """The nearest-rank percentile is one of the values; of nothing there is none."""
    assert percentile(values, part) == expected


def test_an_end_that_is_heard_of_late_is_no_overlap() -> None:
    """The next request of the slot began a moment before the origin of the last one knew of its end."""
    assert peak([(0.0, 10.01), (10.0, 20.0)]) == 1
    assert peak([(0.0, 10.2), (10.0, 20.0)]) == 2
