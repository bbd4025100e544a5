from functools import partial

from pairproxy.core.virtual_clock import VirtualClock


def test_acts_happen_in_the_order_of_their_times() -> None:
    """Those of one time in the order they were put down; each is told its time."""
    clock = VirtualClock()
    done: list[tuple[str, float]] = []
    for name, time in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        clock.at(time, partial(lambda name, at: done.append((name, at)), name))
    while not clock.is_idle:
        clock.step()
    assert done == [("first", 1.0), ("second", 1.0), ("late", 2.0)]


def test_a_heartbeat_keeps_nothing_alive() -> None:
    """A clock with heartbeats only is idle, though they go on."""
    clock = VirtualClock()
    beats: list[float] = []

    def beat(at: float) -> None:
        beats.append(at)
        clock.at(at + 1.0, beat, is_heartbeat=True)

    clock.at(0.0, beat, is_heartbeat=True)
    idle_with_heartbeats = clock.is_idle
    clock.at(2.5, beats.append)
    while not clock.is_idle:
        clock.step()
    assert idle_with_heartbeats
    assert beats == [0.0, 1.0, 2.0, 2.5]
