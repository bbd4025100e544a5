import pytest

from pairproxy.core.company import ALL_APART, APART_BITS, Clock, Company, Users, group_of, middle_of
from pairproxy.core.models import NodeId


def test_seconds_are_those_between_two_marks_by_how_many_ran() -> None:
    """What ran before the mark is not told, nor what lasted no time at all."""
    clock = Clock()
    company = Company(clock)
    company.join()
    clock.at = 1.0
    mark, _ = company.join()
    clock.at = 3.0
    company.join()
    company.leave(is_reader=True)
    clock.at = 3.5
    company.leave(is_reader=True)
    clock.at = 7.5
    assert company.seconds_since(mark) == {2: 2.5, 1: 4.0}
    begun, _ = company.begin(0.0)
    assert company.seconds_since(begun) == {}
    clock.at = 8.0
    assert company.seconds_since(begun) == {1: 0.5}


def test_more_than_ever_before_are_no_trouble() -> None:
    """A mark says nothing of how many ran later."""
    clock = Clock()
    company = Company(clock)
    mark, _ = company.join()
    for number in range(1, 6):
        clock.at = float(number)
        company.join()
    clock.at = 8.0
    assert company.seconds_since(mark) == {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0, 5: 1.0, 6: 3.0}


def test_of_many_those_that_are_alike_count_as_one() -> None:
    """So that a mark of hundreds is short, and a look at it takes no longer than one at a few dozen."""
    assert [group_of(company) for company in range(ALL_APART)] == [*range(ALL_APART)]
    groups = [group_of(company) for company in range(5000)]
    assert groups == sorted(groups)
    assert set(groups) == {*range(groups[-1] + 1)}
    for company, group in enumerate(groups):
        assert group_of(middle_of(group)) == group
        assert abs(middle_of(group) - company) <= company / 2**APART_BITS
    assert group_of(512) < 3 * ALL_APART


def test_seconds_among_hundreds_are_told_by_about_how_many() -> None:
    """None of them is lost."""
    clock = Clock()
    company = Company(clock)
    mark, _ = company.join()
    for number in range(1, 300):
        clock.at = float(number)
        company.join()
    seconds = company.seconds_since(mark)
    assert sum(seconds.values()) == 299.0
    assert all(seconds[ran] == 1.0 for ran in range(1, ALL_APART))
    assert sum(ran * each for ran, each in seconds.items()) == pytest.approx(sum(range(300)), rel=0.01)
    assert len(company.seconds_since(mark)) < 2 * ALL_APART + 20


def test_reading_is_shared_by_those_that_read() -> None:
    """Whoever writes takes nothing of it."""
    clock = Clock()
    company = Company(clock)
    _, first = company.join()
    clock.at = 1.0
    _, second = company.join()
    clock.at = 3.0
    assert (company.reading_since(first), company.reading_since(second)) == (2.0, 1.0)
    assert company.begin(first)[1] == 2.0
    clock.at = 4.0
    assert company.reading_since(second) == 2.0
    company.leave(is_reader=True)
    clock.at = 9.0
    assert company.reading_since(second) == pytest.approx(2.0)


def test_an_empty_place_counts_nothing() -> None:
    """However long it is empty."""
    clock = Clock()
    company = Company(clock)
    mark, _ = company.join()
    company.leave(is_reader=True)
    clock.at = 5.0
    assert company.seconds_since(mark) == {}


def test_a_place_that_was_empty_begins_anew() -> None:
    """So neither marks nor sums grow with how many ran there in a day."""
    clock = Clock()
    company = Company(clock)
    company.join()
    company.join()
    clock.at = 5.0
    company.leave(is_reader=True)
    company.leave(is_reader=True)
    mark, reading_s = company.join()
    assert ([*mark], reading_s) == ([0.0], 0.0)


def test_others_are_seen_as_long_as_they_are_remembered() -> None:
    """This node's own clients are none."""
    clock = Clock()
    users = Users(clock)
    users.join(None)
    assert not users.has_others
    clock.events = 5
    users.leave(None, 0)
    assert not users.has_others
    users.join(NodeId("peer"))
    assert users.has_others
    users.leave(NodeId("peer"), 0)
    assert users.has_others


def test_who_used_a_place_lately_is_told() -> None:
    """This node's own clients as well, but not for an attempt that nobody saw."""
    clock, peer = Clock(), NodeId("peer")
    users = Users(clock)
    users.join(None)
    users.join(None)
    users.leave(None, 0)
    assert users.recent(9.0, 1.0) == {None}
    users.join(peer)
    clock.events, clock.before = 5, 10.0
    users.leave(None, 0)
    users.leave(peer, 0)
    assert users.recent(10.5, 1.0) == {None, peer}
    assert users.recent(11.0, 1.0) == set()
    clock.before = 20.0
    users.join(None)
    users.leave(None, 4)
    assert users.recent(20.0, 1.0) == set()
