import math

import pytest

from pairproxy.core.unlikely import LEAST_SPREAD, MOST_DEVIATIONS, Unlikely


def test_half_of_all_replies_are_longer_than_the_middle() -> None:
    """And so many as a log-normal says are longer than any other length."""
    tail = Unlikely(math.log(300.0), 1.0)
    assert tail.above(tail.tokens(0.0)) == pytest.approx(0.5)
    assert tail.above(tail.tokens(2.0)) == pytest.approx(0.02275, rel=0.01)
    assert tail.mean == pytest.approx(300.0 * math.exp(0.5))


def test_deviations_and_chances_belong_to_each_other() -> None:
    """Up to a length that hardly any reply has."""
    tail = Unlikely(math.log(300.0), 1.0)
    assert tail.above(tail.tokens(tail.deviations(0.1))) == pytest.approx(0.1)
    assert tail.deviations(1e-9) == MOST_DEVIATIONS


def test_no_two_replies_are_surely_equal() -> None:
    """However alike all of them were."""
    assert Unlikely(5.0, 0.0).spread == LEAST_SPREAD
