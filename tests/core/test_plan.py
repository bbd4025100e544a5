import pytest

from pairproxy.core.documents import ReplicaState
from pairproxy.core.models import Rates, Replica
from pairproxy.core.plan import MIN_REMAINING_S, Occupancy, price
from tests.core.told import A, M, at

WARM = ReplicaState(Replica(M, "sha256:1"), True, Rates(prefill=1000.0, decode=100.0, beta=0.5, load_s=7.0))
COLD = ReplicaState(Replica(M, "sha256:1", called="org/M"), False, WARM.rates)


def test_free_slots_are_free_now() -> None:
    """Whatever else runs there."""
    occupancy = Occupancy.of(at(A), 3, [9.0])
    assert (occupancy.wait_s, occupancy.in_flight, occupancy.slots) == (0.0, 1, 3)


def test_a_full_place_is_free_when_its_first_request_ends() -> None:
    """One that has outlived its prediction still holds its slot for a moment."""
    assert Occupancy.of(at(A), 2, [9.0, 4.0]).wait_s == 4.0
    assert Occupancy.of(at(A), 2, [9.0, -4.0]).wait_s == MIN_REMAINING_S


def test_more_running_than_slots_must_end_first() -> None:
    """Somebody uses the engine directly: as many as are too many must end before a slot is ours."""
    assert Occupancy.of(at(A), 2, [1.0, 2.0, 3.0, 4.0]).wait_s == 3.0


def test_who_is_planned_takes_the_slot_that_is_free_first() -> None:
    """And those behind wait for the next."""
    occupancy = Occupancy.of(at(A), 2, [5.0, 3.0])
    waits = []
    for _ in range(4):
        waits.append(occupancy.wait_s)
        occupancy.take(1.0)
    assert waits == [3.0, 4.0, 5.0, 5.0]


def test_a_request_is_priced_in_seconds() -> None:
    """Prefill at the engine's rate, decode at the share it gets among those that run."""
    alone = price(Occupancy.of(at(A), 2, []), WARM, 500, 200.0, 300.0)
    assert (alone.wait_s, alone.load_s, alone.prefill_s, alone.decode_s) == (0.0, 0.0, 0.5, 2.0)
    assert alone.margin_s == pytest.approx(1.0)
    second = price(Occupancy.of(at(A), 2, [9.0]), COLD, 500, 200.0, 200.0)
    assert (alone.called, second.called) == (None, "org/M")
    assert (second.load_s, second.decode_s, second.margin_s) == pytest.approx((7.0, 3.0, 0.0))
    third = price(Occupancy.of(at(A), 2, [9.0, 8.0]), WARM, 500, 200.0, 200.0)
    assert (third.wait_s, third.decode_s) == pytest.approx((8.0, 3.0))
