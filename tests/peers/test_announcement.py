"""Rows of group I of the bad inputs, on the function that turns a service record into addresses to try."""

import base64
import time

import pytest

from pairproxy.peers.announcement import (
    FORGET_S,
    MOST_ADDRESSES,
    MOST_INSTANCES,
    PAUSE_S,
    SERVICE,
    Announcement,
    Reader,
    Sighting,
    Sightings,
    read,
)

OWN = "AAAAAAAA"
OTHER = "K7QF2M6A"
READER = Reader(OWN, 11634, frozenset({"192.168.1.5", "172.17.0.1", "fe80::5", "fd00::5"}))


def txt(*entries: bytes) -> bytes:
    """A TXT record of these strings."""
    return b"".join(bytes([len(entry)]) + entry for entry in entries)


GOOD_TEXT = txt(b"id=" + OTHER.encode(), b"v=1")


def announce(
    *addresses: str, text: bytes = GOOD_TEXT, port: int | None = 11634, instance: str = f"0123.{SERVICE}"
) -> Announcement:
    """An announcement of another node."""
    return Announcement(instance, text, port, addresses or ("192.168.1.7",))


def sight(*addresses: str, reader: Reader = READER, **changes: object) -> Sighting:
    """What is read of an announcement that is worth something."""
    sighting = read(announce(*addresses, **changes), reader)  # type: ignore[arg-type]
    assert sighting is not None
    return sighting


def test_a_good_announcement_gives_its_addresses() -> None:
    """Id, protocol, printable name and dialable addresses are what an announcement is worth."""
    expected = (("192.168.1.7", 11634), ("fd00::7", 11634))
    assert sight("192.168.1.7", "fd00::7") == Sighting(OTHER, "1", "0123", expected)


def test_a_moved_record_only_adds_an_address() -> None:
    """I01: the same id at another address is one more address to try; nothing is taken back."""
    sightings = Sightings(lambda hint: True)
    assert sightings.note(sight("192.168.1.7"), 0.0) == (("192.168.1.7", 11634),)
    moved = sight("10.77.0.3", port=6666, instance=f"rogue.{SERVICE}")
    assert sightings.note(moved, 0.1) == (("10.77.0.3", 6666),)
    assert {sighting.addresses[0][0] for sighting in sightings.lately(0.2)} == {"192.168.1.7", "10.77.0.3"}


@pytest.mark.parametrize("port", [None, 0, 22, 443, 1023, 65536, -1])
def test_a_port_that_is_not_ours_is_ignored(port: int | None) -> None:
    """I05: ports that a peer port never has are never called."""
    assert read(announce(port=port), READER) is None


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.251",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "169.254.169.254",
        "192.168.1.5",
        "172.17.0.1",
        "::1",
        "::",
        "ff02::fb",
        "fd00::5",
        "fd00:0:0::5",
        "fe80::5%2",
        "fe80::7",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:192.168.1.5",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "2001:0:7f00:1::1",
        "localhost",
        "anna.local",
        "",
        "192.168.1.7/24",
        "192.168.1",
        "1" * 5000,
    ],
)
def test_an_address_that_leads_elsewhere_is_ignored(address: str) -> None:
    """I05: loopback, nowhere, multicast, cloud metadata, ourselves and rubbish are never dialled."""
    assert read(announce(address), READER) is None
    assert sight(address, "192.168.1.7").addresses == (("192.168.1.7", 11634),)


def test_link_local_addresses_come_last_and_keep_their_zone() -> None:
    """Link-local addresses are tried after all others, IPv6 ones with the zone they came from."""
    hosts = [host for host, _ in sight("fe80::7%3", "169.254.3.4", "192.168.1.7", "2001:db8::7").addresses]
    assert hosts == ["192.168.1.7", "2001:db8::7", "fe80::7%3", "169.254.3.4"]


def test_one_address_counts_once_and_many_are_cut() -> None:
    """I09: an address told twice is one; an announcement gives sixteen at most."""
    assert len(sight("192.168.1.7", "::ffff:192.168.1.7", "192.168.1.7").addresses) == 1
    assert len(sight(*(f"10.0.0.{number}" for number in range(200))).addresses) == MOST_ADDRESSES


def test_with_loopback_only_this_machine_counts() -> None:
    """A demo hears loopback addresses of other nodes, nothing of the LAN, and not itself."""
    reader = Reader(OWN, 40001, frozenset({"127.0.0.1"}), allow_loopback=True)
    assert sight("127.0.0.1", "192.168.1.7", port=40002, reader=reader).addresses == (("127.0.0.1", 40002),)
    assert read(announce("127.0.0.1", port=40001), reader) is None
    assert read(announce("192.168.1.7"), reader) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        txt(b""),
        txt(b"id", b"v"),
        txt(b"id=K7QF2M6A"),
        txt(b"v=1"),
        txt(b"id=", b"v=1"),
        txt(b"id=k7qf2m6a", b"v=1"),
        txt(b"id=K7QF2M6", b"v=1"),
        txt(b"id=K7QF2M6AB", b"v=1"),
        txt(b"id=K7QF-2M6", b"v=1"),
        txt(b"id=K7QF2M6\n", b"v=1"),
        txt(b"id=\x1b[2JK7QF", b"v=1"),
        txt(b"id=\xff\xfe7QF2M6A", b"v=1"),
        txt("id=\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661".encode(), b"v=1"),
        txt(b"id=K7QF2M6A", b"v=one"),
        txt(b"id=K7QF2M6A", b"v=99999999999999999999"),
        txt(b"id=K7QF2M6A", "v=\u0661".encode()),
        txt(*[b"x" * 255] * 36, b"id=K7QF2M6A", b"v=1"),
        b"\xff" + b"id=K7QF2M6A",
        b"\x00" * 9000,
        b"\xff" * 9000,
    ],
)
def test_a_malformed_text_is_ignored(text: bytes) -> None:
    """I07: 9 KB, no '=', non-UTF-8, cut lengths or odd values: no node, no hint, no exception."""
    assert read(announce(text=text), READER) is None


def test_odd_entries_beside_good_ones_do_no_harm() -> None:
    """I07: of equal keys the first counts, and what is malformed is passed over."""
    text = txt(
        b"\xff\xfe=\xff", b"noise", b"", b"ID=K7QF2M6A", b"id=BBBBBBBB", b"v=1", b"v=2", b"x=" + b"y" * 200
    )
    assert (sight(text=text).node_hint, sight(text=text).protocol) == (OTHER, "1")
    assert sight(text=GOOD_TEXT + b"\xc8cut").node_hint == OTHER


def test_our_own_id_is_marked() -> None:
    """I04: our id from an address that is not ours is marked as our own, and from ours is nothing."""
    own_text = txt(b"id=" + OWN.encode(), b"v=1")
    assert sight(text=own_text).is_own
    assert read(announce("192.168.1.5", "fd00::5", text=own_text), READER) is None


def test_names_are_made_printable() -> None:
    """I08: escapes, newlines and direction marks of an instance name do not get through."""
    assert sight(instance=f"\x1b[31mred\n\u202e.{SERVICE}").instance == "[31mred"
    assert len(sight(instance="x" * 10_000).instance) == 64


def test_another_protocol_is_seen_but_not_told() -> None:
    """I11: a node of protocol 2 is shown as one that needs an update, and none of its addresses is tried."""
    newer = sight(text=txt(b"id=K7QF2M6A", b"v=2"))
    sightings = Sightings(lambda hint: False)
    assert sightings.note(newer, 0.0) == ()
    assert sightings.lately(0.0) == (newer,)
    assert not newer.speaks_ours


def test_an_address_is_told_again_after_a_pause() -> None:
    """I12: a repeated address is told once in two seconds, then again."""
    sightings = Sightings(lambda hint: True)
    told = [now / 100 for now in range(500) if sightings.note(sight(), now / 100)]
    assert told == [0.0, PAUSE_S, 2 * PAUSE_S]


def test_flapping_addresses_are_bounded() -> None:
    """I12: a new address every 10 ms yields sixteen hints in two seconds, not two hundred."""
    sightings = Sightings(lambda hint: True)
    told = sum(len(sightings.note(sight(f"10.0.{n // 250}.{n % 250}"), n / 100)) for n in range(199))
    assert told == MOST_ADDRESSES


def test_a_flood_of_names_is_bounded_and_spares_the_paired() -> None:
    """I06: 10 000 names leave 256, the paired node among them, in a tenth of the minute they had."""
    sightings = Sightings(lambda hint: hint == OTHER)
    sightings.note(sight(), 0.0)
    began = time.process_time()
    for number in range(10_000):
        node_hint = base64.b32encode(number.to_bytes(5, "big"))
        text = txt(b"id=" + node_hint, b"v=1")
        sightings.note(sight(text=text, instance=f"{number}.{SERVICE}"), 0.001 * number)
    assert time.process_time() - began < 6.0  # a tenth of the minute
    seen = sightings.lately(10.0)
    assert len(seen) == MOST_INSTANCES
    assert seen[0].node_hint == OTHER
    assert [sighting.instance for sighting in seen[1:]] == [str(n) for n in range(10_000 - 255, 10_000)]
    assert len(sightings._told) <= MOST_INSTANCES


def test_who_is_silent_for_long_is_no_longer_shown() -> None:
    """A sighting is shown for ten minutes; it says nothing about who is there."""
    sightings = Sightings(lambda hint: False)
    sightings.note(sight(), 0.0)
    assert len(sightings.lately(FORGET_S - 1)) == 1
    assert sightings.lately(FORGET_S) == ()
