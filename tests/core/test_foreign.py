from pairproxy.core.foreign import LOWER_AFTER_S, MIN_REPLIES, RAISE_AFTER_S, SLOW, ForeignWork
from pairproxy.core.models import EngineId

GPU, OTHER = EngineId("gpu"), EngineId("other")


def test_slow_replies_over_ten_seconds_cost_a_slot_and_each_ten_more_another() -> None:
    """One is always left, and another engine is not touched."""
    foreign = ForeignWork()
    for second in range(1, 41):
        foreign.saw(GPU, 0.5, 1.0, float(second))
        assert foreign.lost(GPU, 8) == second // LOWER_AFTER_S
    assert (foreign.lost(GPU, 3), foreign.lost(GPU, 1), foreign.lost(OTHER, 8)) == (2, 0, 0)


def test_a_moment_of_slowness_is_none() -> None:
    """Neither a short one, nor one slow reply however long, nor one that a good reply interrupts."""
    foreign = ForeignWork()
    foreign.saw(GPU, 0.1, 60.0, 100.0)
    assert (foreign.lost(GPU, 8), MIN_REPLIES) == (0, 2)
    foreign.saw(GPU, SLOW, 1.0, 101.0)
    foreign.saw(GPU, 0.5, 1.0, 102.0)
    foreign.saw(GPU, 0.5, 1.0, 103.0)
    assert foreign.lost(GPU, 8) == 0


def test_a_slot_comes_back_with_each_clean_while() -> None:
    """Also when nothing runs that could tell."""
    foreign = ForeignWork()
    for second in range(1, 21):
        foreign.saw(GPU, 0.5, 1.0, float(second))
    assert foreign.lost(GPU, 8) == 2
    foreign.count_time(20.0 + RAISE_AFTER_S - 0.1)
    assert foreign.lost(GPU, 8) == 2
    foreign.count_time(20.0 + RAISE_AFTER_S)
    assert foreign.lost(GPU, 8) == 1
    foreign.saw(GPU, 1.0, 1.0, 60.0)
    foreign.count_time(20.0 + 2 * RAISE_AFTER_S)
    assert foreign.lost(GPU, 8) == 0


def test_an_engine_that_starts_anew_has_all_its_slots() -> None:
    """What slowed it is not known to be there."""
    foreign = ForeignWork()
    for second in range(1, 21):
        foreign.saw(GPU, 0.5, 1.0, float(second))
    foreign.forget(GPU)
    assert foreign.lost(GPU, 8) == 0
