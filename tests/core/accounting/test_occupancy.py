from dataclasses import replace

import pytest

from pairproxy.core.accounting.occupancy import occupancy, service_s, waits
from pairproxy.core.accounting.timeline import Timeline, lay_out
from pairproxy.core.models import Outcome
from tests.core.accounting.conversation import A, B, served


def two_waves() -> Timeline:
    """Three requests at once on two slots: A is done at 4 and at 10 s, B at 6 s."""
    records = [
        served("u", 0.0, 0.0, 4.0, A),
        served("v", 0.0, 0.0, 6.0, B),
        served("w", 0.0, 4.0, 10.0, A),
    ]
    return lay_out(records, 0.0, None)


def test_a_burst_is_read_off_its_picture() -> None:
    """Three open, one waiting, and B idle for the last four seconds."""
    found = occupancy(two_waves(), 2)
    assert (found.most_open, found.most_waiting, found.last_arrival_s) == (3, 1, 0.0)
    assert [found.idle_before_s, found.idle_after_s] == pytest.approx([0.0, 4.0])
    assert found.busy == pytest.approx(16.0 / 20.0)
    assert found.longest is not None
    assert (found.longest.request, service_s(found.longest), found.median_s) == ("v", 6.0, 6.0)
    assert found.waited_s == pytest.approx(4.0 / 3.0)


def test_slots_that_idle_before_the_last_arrival_are_the_clients_doing() -> None:
    """One request a second after the last one ended: the slot idled before, the other one all the time."""
    records = [served("u", 0.0, 0.0, 4.0), served("v", 5.0, 5.0, 9.0)]
    found = occupancy(lay_out(records, 0.0, None), 2)
    assert (found.most_open, found.most_waiting, found.last_arrival_s) == (1, 0, 5.0)
    assert [found.idle_before_s, found.idle_after_s] == pytest.approx([6.0, 4.0])


def test_who_found_no_place_waited_and_was_open() -> None:
    """A refused request counts among those that waited."""
    refused = replace(served("r", 0.0, 0.0, 3.0), attempts=(), outcome=Outcome.REFUSED)
    timeline = lay_out([served("u", 0.0, 0.0, 4.0), refused], 0.0, None)
    assert list(waits(timeline)) == [(0.0, 3.0)]
    found = occupancy(timeline, 1)
    assert (found.most_open, found.most_waiting) == (2, 1)


def test_a_moment_of_placing_is_no_wait() -> None:
    """What is dispatched within 50 ms did not wait for a slot."""
    timeline = lay_out([served("u", 0.0, 0.04, 4.0), served("v", 0.0, 0.2, 4.0, B)], 0.0, None)
    assert list(waits(timeline)) == [(0.0, 0.2)]


def test_nothing_at_all_is_nothing() -> None:
    """A run without a single attempt has no longest request and divides by nothing."""
    found = occupancy(lay_out([], 0.0, None), 1)
    assert (found.most_open, found.busy, found.longest, found.waited_s) == (0, 0.0, None, 0.0)
