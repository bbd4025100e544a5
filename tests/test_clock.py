"""The clock."""

import time
from datetime import UTC, date, datetime, timedelta

from pairproxy.clock import MonotonicClock, today, worked


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


def test_work_is_counted_and_waiting_is_not() -> None:
    """What a thread computes takes its time; what it sleeps does not."""
    began = worked()
    time.sleep(0.05)
    slept = worked() - began
    while worked() - began - slept < 0.01:
        pass
    assert slept < 0.04
