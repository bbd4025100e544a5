"""The clock."""

from pairproxy.clock import MonotonicClock


def test_it_never_goes_back() -> None:
    """Each look at the clock is no earlier than the one before."""
    clock = MonotonicClock()
    looks = [clock.now() for _ in range(1000)]
    assert looks == sorted(looks)
