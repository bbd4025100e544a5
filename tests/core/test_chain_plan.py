"""Where chains should go on, so that the last of them ends soonest."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.chain_plan import FUTURES, Rest, Site, plan_homes
from pairproxy.core.models import Place, Rates
from tests.core.told import A, B, C, at

HERE, THERE, THIRD = at(A), at(B), at(C)
QUICK = Site(HERE, Rates(5000.0, 115.0, 0.15), 1, 600_000)
SLOW = Site(THERE, Rates(2000.0, 38.0, 0.15), 1, 600_000)
TEN = [10]


def waits(number: int, home: Place = HERE, *, context: int = 10_000, more: list[int] | None = None) -> Rest:
    """A chain whose next step waits; its prompt is cached at its home."""
    reads = {place: 500 if place == home else context for place in (HERE, THERE)}
    return Rest(number, home, reads, 0.0, 0.0, 0.0, context, more or TEN, 300.0, 2500.0, 2000.0, 5.0)


def runs(number: int, home: Place, *, more: list[int] | None = None) -> Rest:
    """A chain whose step is under way for 5 s more."""
    return replace(waits(number, home, more=more), reads={}, work_s=5.0, written=0.0)


def home_of(losses: dict[Place, float]) -> Place:
    """The one place with which nothing is lost."""
    (home,) = [place for place, loss in losses.items() if loss == 0.0]
    return home


def test_one_chain_goes_where_it_is_done_soonest() -> None:
    """A chain alone stays at the fast place, and comes back to it from the slow one."""
    assert home_of(plan_homes([waits(1)], [QUICK, SLOW])[1]) == HERE
    assert home_of(plan_homes([waits(1, THERE)], [QUICK, SLOW])[1]) == HERE


def test_a_chain_that_is_nearly_over_is_not_moved() -> None:
    """To read 100,000 tokens elsewhere pays only for a chain that goes on for long."""
    better = replace(QUICK, rates=Rates(5000.0, 50.0, 0.15))
    near = waits(1, THERE, context=100_000, more=[0])
    far = waits(1, THERE, context=100_000, more=[20])
    assert home_of(plan_homes([near], [better, SLOW])[1]) == THERE
    assert home_of(plan_homes([far], [better, SLOW])[1]) == HERE


def test_the_reply_that_sums_up_is_reckoned_with() -> None:
    """A chain whose long last reply is under way leaves its place sooner than one that writes a short one."""
    short = replace(waits(1), reads={}, written=200.0, more=[3])
    last = replace(waits(1), reads={}, written=2000.0, more=[0])
    assert short.writes(3) == 100.0 + 2 * 300.0 + 2500.0
    assert last.writes(0) == 500.0


def test_equal_places_share_the_chains() -> None:
    """Of four chains that wait at one of two equal places, two go to the other."""
    twin = replace(QUICK, place=THERE)
    losses = plan_homes([waits(number) for number in range(4)], [QUICK, twin])
    assert sorted(home_of(one) for one in losses.values()) == [HERE, HERE, THERE, THERE]


def test_the_slow_place_gets_a_chain_of_many() -> None:
    """One of five long chains on one slot is sent to a place of a third of the speed, not all."""
    losses = plan_homes([waits(number) for number in range(5)], [QUICK, SLOW])
    homes = [home_of(one) for one in losses.values()]
    assert 1 <= homes.count(THERE) <= 2


def test_what_does_not_fit_in_the_memory_is_sent_away() -> None:
    """Two chains that one place could keep if it had room go to two places if it has not."""
    both = [waits(number, context=60_000) for number in range(2)]
    plenty = [QUICK, replace(SLOW, rates=Rates(2500.0, 50.0, 0.15))]
    tight = [replace(QUICK, room_tokens=60_000), plenty[1]]
    assert [home_of(one) for one in plan_homes(both, plenty).values()] == [HERE, HERE]
    assert sorted(home_of(one) for one in plan_homes(both, tight).values()) == [HERE, THERE]


def test_what_runs_stays_and_is_reckoned_with() -> None:
    """Only chains that wait are planned; those under way make their places slower."""
    busy = [runs(number, HERE) for number in range(2, 6)]
    losses = plan_homes([waits(1), *busy], [QUICK, SLOW])
    assert set(losses) == {1}
    assert home_of(losses[1]) == THERE


def test_other_work_at_a_place_counts() -> None:
    """A place that others keep busy for ten minutes is not the soonest."""
    losses = plan_homes([waits(1)], [replace(QUICK, busy_s=600.0), SLOW])
    assert home_of(losses[1]) == THERE


def test_a_home_that_is_gone_is_left() -> None:
    """A chain whose place is known no more goes to the best of the others."""
    losses = plan_homes([replace(waits(1, THIRD), reads={HERE: 9000, THERE: 9000})], [QUICK, SLOW])
    assert home_of(losses[1]) == HERE


@given(
    st.lists(
        st.tuples(
            st.booleans(), st.booleans(), st.integers(0, 100_000), st.lists(st.integers(0, 30), min_size=1)
        ),
        min_size=1,
        max_size=8,
    ),
    st.floats(5.0, 200.0),
    st.integers(1, 8),
    st.integers(0, 300_000),
)
def test_every_waiting_chain_has_one_home(
    told: list[tuple[bool, bool, int, list[int]]], decode: float, slots: int, room: int
) -> None:
    """Whatever is known, each waiting chain has exactly one home, and no loss is negative."""
    sites = [replace(QUICK, slots=slots, room_tokens=room), replace(SLOW, rates=Rates(900.0, decode, 0.3))]
    rests = [
        waits(number, HERE if near else THERE, context=context, more=sorted(more))
        if waiting
        else runs(number, HERE if near else THERE, more=sorted(more))
        for number, (waiting, near, context, more) in enumerate(told)
    ]
    losses = plan_homes(rests, sites)
    assert set(losses) == {rest.number for rest in rests if rest.reads}
    for one in losses.values():
        assert home_of(one) in (HERE, THERE)
        assert min(one.values()) == 0.0


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(0, 1000))
def test_futures_follow_the_distribution(more: list[int], number: int) -> None:
    """The futures of a chain are drawn evenly from what is likely, the same each time."""
    rest = waits(number, more=sorted(more))
    drawn = [round(future.idle_s / rest.think_s) for future in rest.futures()]
    assert len(drawn) == FUTURES
    assert rest.futures() == rest.futures()
    assert set(drawn) <= set(more)
    if len(more) <= FUTURES:
        assert set(drawn) == set(more)
