import pytest

from pairproxy.api.offering import PEER_SAYS, peer_says, until
from pairproxy.core.documents import Withheld


def test_each_reason_has_words_for_a_person() -> None:
    """None is left out, none is there that no node says."""
    assert set(PEER_SAYS) == set(Withheld)


@pytest.mark.parametrize("word", ["moving-house", "x" * 32])
def test_a_reason_of_a_newer_version_is_still_one(word: str) -> None:
    """It is not repeated: it is another machine's."""
    assert peer_says(word)
    assert word not in peer_says(word)


def test_who_offers_has_no_reason() -> None:
    """Nothing is said."""
    assert peer_says("") == ""


def test_when_a_drain_ends() -> None:
    """To the minute; a moment that no calendar has is not told."""
    assert until(1_007_200.0).startswith(" until 1970-01-1")
    assert until(None) == until(1e300) == ""
