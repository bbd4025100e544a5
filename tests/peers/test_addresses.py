"""The order in which a peer's addresses are tried, whatever is said about them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.errors import ConfigError
from pairproxy.peers.addresses import (
    DEFAULT_PORT,
    MAX_ADDRESSES,
    MAX_STATIC,
    Address,
    PeerAddresses,
    parse_address,
    static_addresses,
)


def at(host: str, source: str = "mdns", port: int = 11634) -> Address:
    """Where the peer may be."""
    return Address(host, port, source)


def hosts(known: PeerAddresses) -> list[str]:
    """In the order in which they are tried."""
    return [one.host for one in known.dialled()]


def test_without_an_address_there_is_nothing_to_try() -> None:
    """A peer of which nothing is known has no best address."""
    known = PeerAddresses()
    assert (known.best, known.address("/"), len(known)) == (None, ("", 0), 0)


def test_what_worked_last_is_tried_first_then_our_networks_then_the_rest_and_link_local_last() -> None:
    """I09: one peer at many addresses of several interfaces is one list, each address in it once."""
    known = PeerAddresses(lambda host: host.startswith("10.1."))
    for host in ("fe80::7%eth0", "192.0.2.7", "10.1.0.7", "2001:db8::7", "10.9.0.7", "10.9.0.8"):
        known.add(at(host))
    known.prove(at("10.9.0.7"))
    known.prove(at("10.9.0.8"))
    known.add(at("10.9.0.7", "inbound"))
    assert hosts(known) == ["10.9.0.8", "10.9.0.7", "10.1.0.7", "2001:db8::7", "192.0.2.7", "fe80::7%eth0"]
    assert known.address("/") == ("10.9.0.8", 11634)


def test_a_hint_never_displaces_the_address_in_use() -> None:
    """I01: a forged address is one more to try, after the one that works."""
    known = PeerAddresses()
    known.prove(at("10.0.0.1"))
    known.add(at("10.77.0.3"))
    assert (known.best, hosts(known)) == (at("10.0.0.1"), ["10.0.0.1", "10.77.0.3"])


def test_where_another_key_answered_is_tried_last_until_it_proves_itself() -> None:
    """F23: it is news once, and no longer the best even if it once worked."""
    known = PeerAddresses()
    known.prove(at("10.0.0.1"))
    known.add(at("10.0.0.2"))
    assert known.deny(at("10.0.0.1"))
    assert not known.deny(at("10.0.0.1"))
    assert hosts(known) == ["10.0.0.2", "10.0.0.1"]
    assert known.best == at("10.0.0.2")
    known.prove(at("10.0.0.1"))
    assert (hosts(known), known.best) == (["10.0.0.1", "10.0.0.2"], at("10.0.0.1"))


def test_what_is_known_already_is_not_kept_twice_but_wakes_the_link() -> None:
    """An announcement that is repeated is a reason to try again, not a second address."""
    known = PeerAddresses()
    known.add(at("10.0.0.1"))
    known.news.clear()
    known.add(at("10.0.0.1", "static"))
    assert (len(known), known.news.is_set()) == (1, True)


def test_forged_hints_drive_out_neither_what_worked_nor_the_settings_nor_the_newest() -> None:
    """I12: however many addresses are invented, what is kept is bounded, and the newest is among it."""
    known = PeerAddresses()
    known.prove(at("10.0.0.1"))
    known.add(at("10.0.0.9", "static"))
    for number in range(1000):
        known.add(at(f"10.77.{number // 250}.{number % 250}"))
        known.deny(at(f"10.77.{number // 250}.{number % 250}"))
    assert len(known) == MAX_ADDRESSES + 1
    assert hosts(known)[:2] == ["10.0.0.1", "10.0.0.9"]
    assert "10.77.3.249" in hosts(known)
    assert len(known._denied) <= MAX_ADDRESSES + 1


def test_forged_announcements_do_not_drive_out_what_the_peer_itself_told() -> None:
    """I12: told when pairing, or by its own call; and neither do those keep the newest announcement out."""
    known = PeerAddresses()
    for number in range(MAX_ADDRESSES):
        known.add(at(f"10.0.0.{number}", "pairing" if number % 2 else "inbound"))
    for number in range(100):
        known.add(at(f"10.77.0.{number}"))
    kept = hosts(known)
    assert sum(host.startswith("10.77.") for host in kept) == MAX_ADDRESSES // 2
    assert {"10.77.0.99", "10.0.0.15", "10.0.0.8"} <= set(kept)
    assert len(kept) == MAX_ADDRESSES


def test_only_a_new_first_address_is_worth_a_write() -> None:
    """Proving the same address again changes nothing."""
    known = PeerAddresses()
    assert known.prove(at("10.0.0.1"))
    assert not known.prove(at("10.0.0.1"))
    assert known.prove(at("10.0.0.2"))
    assert known.proved == (at("10.0.0.2"), at("10.0.0.1"))


def test_the_peers_own_port_is_guessed_by_what_worked() -> None:
    """A call tells the address it came from and not the port at which its sender listens."""
    known = PeerAddresses()
    assert known.ports() == [DEFAULT_PORT]
    known.add(at("10.0.0.1", port=4001))
    known.prove(at("10.0.0.2", port=4002))
    assert known.ports() == [4002, 4001]


def test_other_settings_replace_the_static_addresses() -> None:
    """What is no longer in the settings is no longer tried, unless it proved itself."""
    known = PeerAddresses()
    known.add(at("10.0.0.1", "static"))
    known.add(at("10.0.0.2", "static"))
    known.prove(at("10.0.0.2", "static"))
    known.forget_static()
    assert hosts(known) == ["10.0.0.2"]


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.7", "10.0.0.7", DEFAULT_PORT),
        ("10.0.0.7:4000", "10.0.0.7", 4000),
        ("127.0.0.1:4000", "127.0.0.1", 4000),
        ("169.254.169.254", "169.254.169.254", DEFAULT_PORT),
        ("ben-ws", "ben-ws", DEFAULT_PORT),
        ("ben-ws.tailnet.example:4000", "ben-ws.tailnet.example", 4000),
        ("[fe80::1%e0]:4000", "fe80::1%e0", 4000),
        ("fe80::1%e0", "fe80::1%e0", DEFAULT_PORT),
        ("2001:db8::7", "2001:db8::7", DEFAULT_PORT),
    ],
)
def test_a_static_address_is_a_host_or_host_and_port(text: str, host: str, port: int) -> None:
    """I13: also of loopback and of metadata services, since only the paired key is spoken to there."""
    assert static_addresses((text,)) == [Address(host, port, "static")]


@pytest.mark.parametrize(
    "text",
    [
        "http://user:pw@x",
        "http://x:80",
        "user@x",
        "x:99999",
        "x:0",
        "x:",
        ":80",
        "",
        "a b",
        "x:٣",
        "999.1.1.1",
    ],
)
def test_a_static_address_that_is_none_is_named(text: str) -> None:
    """I13: the sentence says which one, and how one looks."""
    with pytest.raises(ConfigError, match=r"peers\.static") as told:
        static_addresses((text,))
    assert repr(text) in told.value.sentence


def test_static_addresses_are_bounded() -> None:
    """Each of them is dialled for every peer."""
    with pytest.raises(ConfigError, match=str(MAX_STATIC)):
        static_addresses(tuple(f"10.0.0.{number}" for number in range(MAX_STATIC + 1)))


@given(st.sampled_from(["10.0.0.7", "ben-ws", "fe80::1%e0", "2001:db8::7"]), st.integers(1, 65535))
def test_what_is_written_is_read_again(host: str, port: int) -> None:
    """The text of an address leads back to it."""
    assert parse_address(str(Address(host, port, "x")), "x") == Address(host, port, "x")


@given(st.text(max_size=80))
def test_any_text_is_an_address_or_none(text: str) -> None:
    """Nothing that is typed raises anything else."""
    found = parse_address(text, "static")
    assert found is None or (found.host and 0 < found.port < 65536 and "/" not in found.host)
