from pairproxy.core.avoidance import AVOID_FIRST_S, AVOID_LONGEST_S, BUSY_HOLD_S, HOLD_BACK_S, Avoidance
from pairproxy.core.errors import SlotsTaken, Unreachable, UpstreamBusy
from tests.core.told import A, B, at, document


def test_who_said_not_now_is_held_back_for_a_moment() -> None:
    """A refused slot for a quarter of a second, a busy engine for a second."""
    avoidance = Avoidance()
    avoidance.blame(at(A), SlotsTaken("taken"), 10.0)
    avoidance.blame(at(B), UpstreamBusy("busy"), 10.0)
    assert avoidance.is_held_back(at(A), 10.0 + HOLD_BACK_S - 0.01)
    assert 0.0 < avoidance.held_back_s(at(A), 10.0 + HOLD_BACK_S - 0.01) < 0.02
    assert avoidance.held_back_s(at(A), 10.0 + HOLD_BACK_S) == 0.0
    assert not avoidance.is_avoided(at(A), 10.0 + HOLD_BACK_S)
    assert avoidance.is_held_back(at(B), 10.0 + BUSY_HOLD_S - 0.01)
    assert avoidance.next_end(10.0) == 10.0 + HOLD_BACK_S
    assert avoidance.next_end(10.0 + HOLD_BACK_S) == 10.0 + BUSY_HOLD_S
    assert avoidance.next_end(20.0) is None


def test_who_fails_is_avoided_twice_as_long_each_time() -> None:
    """Up to half a minute; it stays a last resort."""
    avoidance, time = Avoidance(), 0.0
    for failures in range(8):
        avoidance.blame(at(A), Unreachable("gone"), time)
        lasts = min(AVOID_FIRST_S * 2**failures, AVOID_LONGEST_S)
        assert avoidance.is_avoided(at(A), time + lasts - 0.01)
        assert not avoidance.is_held_back(at(A), time)
        assert not avoidance.is_avoided(at(A), time + lasts)
        time += lasts


def test_a_refusal_does_not_shorten_what_a_failure_began() -> None:
    """The later blame never ends sooner than the one before."""
    avoidance = Avoidance()
    for time in (0.0, 1.0, 3.0):
        avoidance.blame(at(A), Unreachable("gone"), time)
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
