"""Whether somebody uses a machine, second by second."""

from collections.abc import Callable

import pytest

from pairproxy.config import PeerSettings
from pairproxy.core.documents import Withheld
from pairproxy.guest.presence import BACK_S, UNREAD_S, Presence, Reading

SETTINGS = PeerSettings(share="idle", idle_after_s=120.0, idle_cpu=0.2, idle_gpu=0.2, idle_memory_bytes=10**9)
QUIET = Reading(processor=0.01, graphics=0.0, free_bytes=8 * 10**9, input_age_s=None)
COMPILES = Reading(processor=0.6, free_bytes=8 * 10**9)
PLAYS = Reading(processor=0.1, graphics=0.7, free_bytes=8 * 10**9)
FULL = Reading(processor=0.1, free_bytes=2 * 10**8)


class Watched:
    """A presence with a reading a second."""

    def __init__(self, settings: PeerSettings = SETTINGS) -> None:
        self.at = 0.0
        self.presence = Presence(settings, self.at)

    def sees(self, reading: Reading, seconds: float = 1.0) -> str:
        """So long; why slots are withheld then."""
        for _ in range(round(seconds)):
            self.at += 1.0
            self.presence.look(reading, self.at)
        return self.presence.withheld


def idle() -> Watched:
    """One whose machine was quiet for long enough."""
    watched = Watched()
    assert watched.sees(QUIET, 120) == ""
    return watched


def test_nothing_is_offered_before_it_was_quiet_for_long_enough() -> None:
    """At the start nobody knows."""
    watched = Watched()
    assert watched.presence.withheld == Withheld.UNKNOWN
    assert watched.sees(QUIET, 119) == Withheld.UNKNOWN
    assert watched.sees(QUIET) == ""
    assert watched.presence.why == ""


@pytest.mark.parametrize(
    ("reading", "withheld", "said"),
    [
        (COMPILES, Withheld.OWNER, "60% of its processor"),
        (PLAYS, Withheld.OWNER, "70% of its graphics card"),
        (FULL, Withheld.MEMORY, "0.2 GB of its memory"),
    ],
)
def test_use_withdraws_the_slots_within_two_seconds(reading: Reading, withheld: str, said: str) -> None:
    """A single second of it is no reason; and it is said what it was."""
    watched = idle()
    assert watched.sees(reading) == ""
    assert watched.sees(QUIET, 5) == ""
    assert watched.sees(reading, BACK_S) == withheld
    assert said in watched.presence.why


def test_slots_come_back_after_quiet_only() -> None:
    """Each use in between begins the time anew; a blip does not."""
    watched = idle()
    watched.sees(COMPILES, 10)
    watched.sees(QUIET, 100)
    assert watched.sees(COMPILES, 2) == Withheld.OWNER
    assert watched.sees(QUIET, 60) == Withheld.OWNER
    watched.sees(COMPILES)
    assert watched.sees(QUIET, 58) == Withheld.OWNER
    assert watched.sees(QUIET) == ""


def test_a_touch_counts_at_once_and_from_when_it_was() -> None:
    """It may be told some seconds late."""
    watched = idle()
    assert watched.sees(Reading(0.01, input_age_s=9.0)) == Withheld.OWNER
    touched_at = watched.at - 9.0
    while watched.presence.withheld:
        watched.sees(Reading(0.01, input_age_s=watched.at + 1 - touched_at))
    assert watched.at - touched_at == pytest.approx(120.0)


def test_an_old_touch_is_no_use() -> None:
    """Nobody was there since before the last quiet."""
    watched = idle()
    assert watched.sees(Reading(0.01, input_age_s=500.0), 10) == ""


def test_a_reading_that_says_nothing_changes_nothing() -> None:
    """An engine's process came or went; a moment later it is known again."""
    watched = idle()
    assert watched.sees(Reading(), UNREAD_S - 1) == ""
    assert watched.sees(QUIET) == ""
    watched.sees(COMPILES)
    watched.sees(Reading())
    assert watched.sees(COMPILES) == Withheld.OWNER


def test_a_processor_that_cannot_be_read_offers_nothing() -> None:
    """Nothing is guessed."""
    watched = idle()
    assert watched.sees(Reading(), UNREAD_S) == Withheld.UNKNOWN
    assert watched.sees(QUIET, 119) == Withheld.UNKNOWN
    assert watched.sees(QUIET, 1) == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda: PeerSettings(share="idle", idle_cpu=0.7),
        lambda: PeerSettings(share="idle", idle_cpu=1.0),
    ],
)
def test_thresholds_can_change_meanwhile(change: Callable[[], PeerSettings]) -> None:
    """What was use is none by the new ones."""
    watched = idle()
    watched.presence.follow(change())
    assert watched.sees(COMPILES, 30) == ""


def test_memory_may_be_of_no_interest() -> None:
    """0 bytes: any that is left will do."""
    watched = Watched(PeerSettings(share="idle", idle_memory_bytes=0, idle_after_s=1.0))
    assert watched.sees(FULL, 3) == ""
