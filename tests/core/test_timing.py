import pytest

from pairproxy.core.timing import Timing


def test_what_the_engine_says_of_its_decoding_counts() -> None:
    """It is divided among the company that was seen; without any, it ran alone."""
    seen = Timing(company_s={1: 1.0, 2: 3.0})
    assert seen.decoding(None) == {1: 1.0, 2: 3.0}
    assert seen.decoding(2.0) == pytest.approx({1: 0.5, 2: 1.5})
    assert Timing().decoding(2.0) == {1: 2.0}


@pytest.mark.parametrize("told_s", [None, 0.0])
def test_no_time_is_no_decoding(told_s: float | None) -> None:
    """Neither said nor seen."""
    assert Timing().decoding(told_s) == {}
    assert Timing(company_s={2: 0.0}).decoding(told_s) == {}
