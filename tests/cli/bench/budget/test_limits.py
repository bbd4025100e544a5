import pytest

from pairproxy.cli.bench.budget.limits import BUDGETS, CALLS_ROOM, RATIO_ROOM, Budget, rows
from pairproxy.cli.bench.budget.measuring import CALLS, CASES


def test_every_case_has_a_limit() -> None:
    """And no other has one."""
    assert [one.name for one in BUDGETS] == [one.case.name for one in (*CASES, *CALLS)]


@pytest.mark.parametrize("one", BUDGETS, ids=lambda one: one.name)
def test_a_path_that_is_twice_as_slow_is_beyond_it(one: Budget) -> None:
    """And what a busy machine does to a figure is not."""
    assert one.measured * 1.4 < one.limit < one.measured * 2
    assert one.room in {RATIO_ROOM, CALLS_ROOM}


def test_figures_stand_beside_their_limits() -> None:
    """A limit that is reached is kept."""
    assert all(row.is_met for row in rows({one.name: one.limit for one in BUDGETS}))
    assert not any(row.is_met for row in rows({one.name: one.limit + 0.01 for one in BUDGETS}))
