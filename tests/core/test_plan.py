import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.documents import ReplicaState
from pairproxy.core.models import AttemptId, Rates, Replica, RequestId
from pairproxy.core.plan import MIN_REMAINING_S, Occupancy, price
from pairproxy.core.simulated_gpu import Phase, SimulatedGpu
from tests.core.told import A, M, at

WARM = ReplicaState(Replica(M, "sha256:1"), True, Rates(prefill=1000.0, decode=100.0, beta=0.5, load_s=7.0))
COLD = ReplicaState(Replica(M, "sha256:1", called="org/M"), False, WARM.rates)


def occupancy(slots: int, *works: float, beta: float = 0.5, reading: tuple[float, ...] = ()) -> Occupancy:
    """A place with these seconds of work left, each counted alone on the engine."""
    return Occupancy.of(at(A), slots, beta, works, reading)


def test_free_slots_are_free_now() -> None:
    """Whatever else runs there."""
    there = occupancy(3, 9.0)
    assert (there.wait_s, there.in_flight, there.slots) == (0.0, 1, 3)


def test_a_full_place_is_free_when_its_shortest_request_ends() -> None:
    """Each of two has two thirds of the rate; what outlived its prediction holds its slot for a moment."""
    assert occupancy(2, 9.0, 4.0).wait_s == pytest.approx(6.0)
    assert occupancy(2, 9.0, -4.0).wait_s == pytest.approx(1.5 * MIN_REMAINING_S)


def test_more_running_than_slots_must_end_first() -> None:
    """Somebody uses the engine directly: as many as are too many must end before a slot is ours."""
    assert occupancy(2, 1.0, 2.0, 3.0, 4.0).wait_s == pytest.approx(1.0 * 2.5 + 1.0 * 2.0 + 1.0 * 1.5)


def test_a_request_is_faster_once_its_company_has_ended() -> None:
    """Six seconds of work beside two and four: at 1/2, then at 2/3, then alone; a short one sees less."""
    there = occupancy(4, 2.0, 4.0)
    assert there.lasts_s(0.0, 6.0) == pytest.approx(2.0 * 2.0 + 2.0 * 1.5 + 2.0)
    assert there.lasts_s(0.0, 1.0) == pytest.approx(2.0)
    assert there.lasts_s(5.0, 1.0) == pytest.approx(5.0 + 1.5)


def test_who_is_planned_makes_the_others_slower() -> None:
    """Two that run alone for four and six seconds end after six and eight."""
    there = occupancy(3, 4.0)
    there.take(0.0, 6.0)
    assert there.lasts_s(0.0, 0.0) == 0.0
    there.take(0.0, 100.0)
    assert there.wait_s == pytest.approx(8.0)


def test_who_is_planned_takes_the_slot_that_is_free_first() -> None:
    """And those behind wait for the next; without contention these are the seconds of each."""
    there = occupancy(2, 5.0, 3.0, beta=0.0)
    waits = []
    for _ in range(4):
        waits.append(there.wait_s)
        there.take(0.0, 1.0)
    assert waits == pytest.approx([3.0, 4.0, 5.0, 5.0])


def test_prompts_are_read_in_turns() -> None:
    """Of those that begin now each waits for as much of the others' as its own; later ones are not known."""
    there = occupancy(3, 9.0, reading=(2.0,))
    assert there.reading_s(1.0) == 2.0
    there.take(3.0, 1.0)
    assert there.reading_s(5.0) == 10.0
    there.take(5.0, 1.0)
    assert there.reading_s(1.0) == 1.0


@given(
    works=st.lists(st.floats(0.1, 100.0), max_size=6),
    slots=st.integers(1, 7),
    beta=st.floats(0.0, 2.0),
    alone_s=st.floats(0.1, 100.0),
)
def test_the_plan_is_what_the_machine_does(
    works: list[float], slots: int, beta: float, alone_s: float
) -> None:
    """A simulated GPU that gets the same work frees its slot and ends the request when the plan says so."""
    gpu, rates = SimulatedGpu(100), Rates(1.0, 1.0, beta)
    for number, work in enumerate(works):
        gpu.start(0.0, AttemptId(RequestId(str(number)), 1), M, rates, 0.0, work)
    there = occupancy(slots, *works, beta=beta)
    gpu.advance(there.wait_s)
    assert gpu.in_flight < slots
    new = AttemptId(RequestId("new"), 1)
    gpu.start(there.wait_s, new, M, rates, 0.0, alone_s)
    ended = [one.at for one in gpu.advance(1e9) if one.attempt == new and one.phase is Phase.DECODE]
    assert ended == pytest.approx([there.wait_s + there.lasts_s(0.0, alone_s)], rel=1e-6)


def test_a_request_is_priced_in_seconds() -> None:
    """Prefill at the engine's rate, decode at the share it gets among those that run."""
    alone = price(occupancy(2), WARM, 500, 200.0)
    assert (alone.wait_s, alone.load_s, alone.prefill_s, alone.decode_s) == (0.0, 0.0, 0.5, 2.0)
    assert (alone.alone_s, alone.read_s) == (2.0, 0.5)
    second = price(occupancy(2, 99.0), COLD, 500, 200.0)
    assert (alone.called, second.called) == (None, "org/M")
    assert (second.load_s, second.decode_s) == pytest.approx((7.0, 3.0))
    third = price(occupancy(2, 9.0, 8.0), WARM, 500, 200.0)
    assert (third.wait_s, third.decode_s) == pytest.approx((12.0, 7 / 3))


def test_what_is_cached_is_not_read() -> None:
    """The rest is, at the engine's rate."""
    there = price(occupancy(1), WARM, 500, 200.0, cached=400)
    assert (there.prefill_s, there.cached_tokens) == (0.1, 400)


@given(
    st.lists(st.sampled_from([0.1, 0.5, 1.0, 1.5, 2.0, 7.0, 7.5]), max_size=70),
    st.floats(0.0, 900.0),
    st.sampled_from([0.0, 0.03, 0.8]),
)
def test_among_many_a_request_ends_when_those_that_end_before_are_gone_through(
    works: list[float], before_s: float, beta: float
) -> None:
    """However many of them end at once."""
    left, now_s, advanced = sorted(works), 0.0, 0.0
    for number, end in enumerate(left):
        took_s = (end - advanced) * (1.0 + beta * (len(left) - number))
        if now_s + took_s > before_s:
            break
        now_s, advanced = now_s + took_s, end
    company = len([one for one in left if one > advanced])
    level = advanced + (before_s - now_s) / (1.0 + beta * company) + 2.0
    own_s = level + beta * sum(min(one, level) for one in left)
    assert occupancy(99, *works, beta=beta).lasts_s(before_s, 2.0) == pytest.approx(own_s)


def test_lists_that_are_lent_stay_as_they_are() -> None:
    """Whatever is planned there, and whatever has to end first."""
    ends, reading = [1.0, 2.0, 3.0], [0.5]
    there = Occupancy.of_sorted(at(A), 2, 0.5, ends, reading)
    there.take(0.1, 1.0)
    roomy = Occupancy.of_sorted(at(A), 9, 0.5, ends, reading)
    roomy.take(0.1, 1.0)
    assert (ends, reading) == ([1.0, 2.0, 3.0], [0.5])
    assert (there.in_flight, roomy.in_flight) == (4, 4)
