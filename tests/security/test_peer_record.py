"""What can stand in a peer's file; what is done with whole files is in test_trust.py."""

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.security.identity import Identity, short_id
from pairproxy.security.peer_record import (
    MOST_ADDRESSES,
    MOST_PATTERNS,
    PATTERN_CHARACTERS,
    are_patterns,
    checked,
    printable,
)
from tests.support.trusting import record_of


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:0",
        "host:65536",
        "ho st:1",
        "user@host:1",
        "http://host:1",
        "h\x1b:1",
        "fe80::1:1",
        "[]:1",
    ],
)
def test_addresses_are_host_and_port(own: Identity, peer: Identity, address: str) -> None:
    """Whatever else stands there is refused."""
    with pytest.raises(StoreError, match="host:port"):
        checked(record_of(peer, addresses=(address,)), own.device_id)


def test_there_is_an_end_to_the_addresses(own: Identity, peer: Identity) -> None:
    """As many as may be are kept."""
    many = tuple(f"10.0.0.{number}:1" for number in range(MOST_ADDRESSES + 1))
    assert checked(record_of(peer, addresses=many[:-1]), own.device_id).addresses == many[:-1]
    with pytest.raises(StoreError, match="host:port"):
        checked(record_of(peer, addresses=many), own.device_id)


def test_names_are_made_printable(own: Identity, peer: Identity) -> None:
    """A hostile name loses its escapes and its length; an empty one becomes the short id (H17)."""
    hostile = "\x1b[2J\u202eanna\n\u200b" + "x" * 10_000
    record = checked(record_of(peer, name=hostile), own.device_id)
    assert record.name.startswith("[2Janna")
    assert len(record.name) == 64
    assert record.name.isprintable()
    nameless = checked(record_of(peer, name="\x00\u2066"), own.device_id)
    assert nameless.name == short_id(peer.device_id)
    assert printable("  Büro 3 ✓ ") == "Büro 3 ✓"


def test_models_are_names_in_which_stars_stand_for_text() -> None:
    """Not empty ones, not what no terminal may see, not too long ones, not too many."""
    assert are_patterns(())
    assert are_patterns(("qwen*", "m:1", "x" * PATTERN_CHARACTERS, *["?"] * (MOST_PATTERNS - 3)))
    for bad in (("",), ("a\x1b",), ("x" * (PATTERN_CHARACTERS + 1),), ("?",) * (MOST_PATTERNS + 1)):
        assert not are_patterns(bad)


def test_a_share_is_one_slot_at_least(own: Identity, peer: Identity) -> None:
    """None would be a right to use this machine that is none."""
    assert checked(record_of(peer, slots=1), own.device_id).slots == 1
    with pytest.raises(StoreError, match="one slot at least"):
        checked(record_of(peer, slots=0), own.device_id)
