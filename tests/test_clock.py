"""The clock."""

from pairproxy.clock import MonotonicClock, today


def test_it_never_goes_back() -> None:
    """Each look at the clock is no earlier than the one before."""
    clock = MonotonicClock()
    looks = [clock.now() for _ in range(1000)]
    assert looks == sorted(looks)


def test_today_is_a_day_of_our_time() -> None:
    """Days since 1970: after this was written, and no longer ago than a person lives."""
    assert 20_000 < today() < 60_000
    assert today() <= today()
