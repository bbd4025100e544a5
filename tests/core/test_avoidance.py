import pytest

from pairproxy.core.avoidance import (
    AVOID_FIRST_S,
    AVOID_LONGEST_S,
    BUSY_HOLD_S,
    BUSY_LONGEST_S,
    FORGET_S,
    GONE_HOLD_S,
    HOLD_BACK_S,
    MOST_PLACES,
    REFUSALS,
    Avoidance,
)
from pairproxy.core.errors import BrokenReply, SlotsTaken, Unreachable, UpstreamBusy
from pairproxy.core.models import EngineId, NodeId
from tests.core.told import A, B, at, document


def test_who_said_not_now_is_held_back_for_a_moment() -> None:
    """A refused slot for a quarter of a second, a busy engine for a second."""
    avoidance = Avoidance()
    avoidance.blame(at(A), SlotsTaken("taken"), 10.0)
    avoidance.blame(at(B), UpstreamBusy("busy"), 10.0)
    assert avoidance.held_back_s(at(A), 10.0 + HOLD_BACK_S - 0.01) > 0.0
    assert 0.0 < avoidance.held_back_s(at(A), 10.0 + HOLD_BACK_S - 0.01) < 0.02
    assert avoidance.held_back_s(at(A), 10.0 + HOLD_BACK_S) == 0.0
    assert not avoidance.is_avoided(at(A), 10.0 + HOLD_BACK_S)
    assert avoidance.held_back_s(at(B), 10.0 + BUSY_HOLD_S - 0.01) > 0.0
    assert avoidance.next_end(10.0) == 10.0 + HOLD_BACK_S
    assert avoidance.next_end(10.0 + HOLD_BACK_S) == 10.0 + BUSY_HOLD_S
    assert avoidance.next_end(20.0) is None


def test_who_fails_is_avoided_twice_as_long_each_time() -> None:
    """Up to half a minute; it stays a last resort."""
    avoidance, time = Avoidance(), 0.0
    for failures in range(8):
        avoidance.blame(at(A), BrokenReply("gone"), time)
        lasts = min(AVOID_FIRST_S * 2**failures, AVOID_LONGEST_S)
        assert avoidance.is_avoided(at(A), time + lasts - 0.01)
        assert avoidance.held_back_s(at(A), time) == 0.0
        assert not avoidance.is_avoided(at(A), time + lasts)
        time += lasts


def test_a_refusal_does_not_shorten_what_a_failure_began() -> None:
    """The later blame never ends sooner than the one before."""
    avoidance = Avoidance()
    for time in (0.0, 1.0, 3.0):
        avoidance.blame(at(A), BrokenReply("gone"), time)
    avoidance.blame(at(A), SlotsTaken("taken"), 3.1)
    assert avoidance.is_avoided(at(A), 6.9)


def test_a_reply_forgives_all() -> None:
    """The place works, so the count begins anew."""
    avoidance = Avoidance()
    avoidance.blame(at(A), Unreachable("gone"), 0.0)
    avoidance.forgive(at(A))
    avoidance.forgive(at(B))
    assert not avoidance.is_avoided(at(A), 0.1)


def test_news_of_a_free_slot_end_a_hold_back_but_no_avoidance() -> None:
    """A document says that there is a slot, not that the way there works."""
    avoidance = Avoidance()
    avoidance.blame(at(B), SlotsTaken("taken"), 0.0)
    avoidance.hear(document(B, frees=(1.0,)), A)
    assert avoidance.is_avoided(at(B), 0.1)
    avoidance.hear(document(B), A)
    assert not avoidance.is_avoided(at(B), 0.1)
    avoidance.blame(at(B), Unreachable("gone"), 0.2)
    avoidance.hear(document(B), A)
    assert avoidance.is_avoided(at(B), 0.3)


def test_an_engine_that_says_503_says_for_how_long_within_bounds() -> None:
    """F11: twice as long each time, or as its Retry-After asks, and never longer than half a minute."""
    avoidance = Avoidance()
    avoidance.blame(at(A), UpstreamBusy("full"), 0.0)
    avoidance.blame(at(A), UpstreamBusy("full"), 10.0)
    assert avoidance.held_back_s(at(A), 10.0) == 2 * BUSY_HOLD_S
    avoidance.blame(at(A), UpstreamBusy("full", retry_after_s=7), 20.0)
    assert avoidance.held_back_s(at(A), 20.0) == 7.0
    avoidance.blame(at(B), UpstreamBusy("full", retry_after_s=86_400), 20.0)
    assert avoidance.held_back_s(at(B), 20.0) == BUSY_LONGEST_S


def test_free_slots_do_not_end_what_the_engine_itself_says() -> None:
    """F11: a node counts its slots; its engine may be full with the requests of others."""
    avoidance = Avoidance()
    avoidance.blame(at(B), UpstreamBusy("full"), 0.0)
    avoidance.hear(document(B), A)
    assert avoidance.held_back_s(at(B), 0.5) > 0.0


def test_a_place_in_trouble_is_tried_by_one() -> None:
    """Until that one has its first byte it is busy for the others."""
    avoidance = Avoidance()
    avoidance.sent(at(A), 0.0)
    assert not avoidance.is_avoided(at(A), 0.0)
    avoidance.blame(at(A), UpstreamBusy("full"), 0.0)
    assert avoidance.has_trouble
    avoidance.sent(at(A), 1.0)
    assert avoidance.held_back_s(at(A), 1.0) == BUSY_LONGEST_S
    avoidance.begun(at(A))
    assert (avoidance.has_trouble, avoidance.held_back_s(at(A), 1.0)) == (False, 0.0)


def test_where_nothing_answers_is_looked_at_twice_a_second() -> None:
    """F18: an engine of this node is no worse for it; a peer is avoided as well."""
    avoidance = Avoidance()
    for place, is_own in ((at(A), True), (at(B), False)):
        avoidance.blame(place, Unreachable("gone"), 0.0, is_own=is_own)
        assert avoidance.held_back_s(place, 0.0) == GONE_HOLD_S
    assert avoidance.held_back_s(at(A), 0.0) > 0.0
    assert not avoidance.is_avoided(at(A), GONE_HOLD_S)
    assert avoidance.is_avoided(at(B), GONE_HOLD_S)


def test_who_publishes_free_slots_and_never_gives_one_is_avoided() -> None:
    """A node that lies costs a few round trips, then ever fewer."""
    avoidance = Avoidance()
    for _ in range(REFUSALS):
        avoidance.blame(at(B), SlotsTaken("taken"), 0.0)
        avoidance.hear(document(B), A)
        assert not avoidance.is_avoided(at(B), 0.0)
    for number in range(3):
        avoidance.blame(at(B), SlotsTaken("taken"), 100.0 * number)
        avoidance.hear(document(B), A)
        assert avoidance.is_avoided(at(B), 100.0 * number + AVOID_FIRST_S * 2**number - 0.01)


def test_a_reply_that_began_forgives_for_now_and_one_that_ended_well_for_good() -> None:
    """So replies that always break off are avoided for a growing time."""
    avoidance = Avoidance()
    avoidance.blame(at(B), BrokenReply("broke"), 0.0)
    avoidance.begun(at(B))
    assert not avoidance.is_avoided(at(B), 0.0)
    avoidance.blame(at(B), BrokenReply("broke"), 0.0)
    assert avoidance.is_avoided(at(B), 2 * AVOID_FIRST_S - 0.01)
    avoidance.forgive(at(B))
    avoidance.blame(at(B), BrokenReply("broke"), 100.0)
    assert not avoidance.is_avoided(at(B), 100.0 + AVOID_FIRST_S)


def test_what_is_remembered_is_bounded_in_number_and_in_time() -> None:
    """A node that is gone for good leaves nothing behind, however many there were."""
    avoidance = Avoidance()
    for number in range(MOST_PLACES + 50):
        avoidance.blame(at(NodeId(f"n{number}"), EngineId("gpu")), BrokenReply("broke"), number / 100.0)
    assert len(avoidance) == MOST_PLACES
    avoidance.blame(at(B), BrokenReply("broke"), FORGET_S + AVOID_LONGEST_S + 100.0)
    assert len(avoidance) == 1


@pytest.mark.parametrize("error", [BrokenReply("broke"), SlotsTaken("taken"), UpstreamBusy("full")])
def test_the_next_end_is_that_of_whatever_ends_first(error: BrokenReply) -> None:
    """The scheduler is woken then, and never for what is over."""
    avoidance = Avoidance()
    avoidance.blame(at(B), error, 5.0)
    end = avoidance.next_end(5.0)
    assert end is not None
    assert not avoidance.is_avoided(at(B), end)
    assert avoidance.next_end(end) is None
