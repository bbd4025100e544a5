"""The clock."""

from datetime import UTC, date, datetime, timedelta

from pairproxy.clock import MonotonicClock, today


def test_it_never_goes_back() -> None:
    """Each look at the clock is no earlier than the one before."""
    clock = MonotonicClock()
    looks = [clock.now() for _ in range(1000)]
    assert looks == sorted(looks)


def test_today_is_the_day_of_the_wall_clock() -> None:
    """Days since 1970, as the calendar counts them."""
    before = datetime.now(UTC).date()
    day = today()
    assert before <= date(1970, 1, 1) + timedelta(days=day) <= datetime.now(UTC).date()
