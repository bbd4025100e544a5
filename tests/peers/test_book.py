import ssl
from pathlib import Path

import msgspec
import pytest

from pairproxy.config import Limits
from pairproxy.core.errors import Unreachable
from pairproxy.core.models import NodeId
from pairproxy.peers.addresses import Address
from pairproxy.peers.announcement import FORGET_S
from pairproxy.peers.book import MAX_UNPAIRED, PeerBook
from pairproxy.peers.exchange import needs_update
from pairproxy.peers.own_addresses import OwnAddress
from pairproxy.peers.remembered import AddressMemory
from pairproxy.security import tls
from pairproxy.security.identity import load_or_create
from pairproxy.security.peer_record import PeerRecord


@pytest.fixture
def record(tmp_path: Path) -> PeerRecord:
    """A paired peer, reachable at two addresses before."""
    other = load_or_create(tmp_path / "other")
    addresses = ("10.0.0.7:11634", "[fe80::1%eth0]:11635")
    return PeerRecord(other.device_id, "bert", other.certificate, True, True, addresses)


@pytest.fixture
def book(tmp_path: Path) -> PeerBook:
    """An empty book of a node of its own."""
    own = load_or_create(tmp_path / "own")
    pinned: list[bytes] = []

    def tls_for(certificate: bytes) -> ssl.SSLContext:
        pinned.append(certificate)
        return tls.client_context(own, certificate)

    return PeerBook(lambda event: None, lambda: 0.0, tls_for, Limits())


def known(book: PeerBook) -> list[tuple[str, int, str]]:
    """Every address of the only peer, the one in use first."""
    (link,) = book.links
    return [(one.host, one.port, one.source) for one in link.addresses.dialled()]


def test_a_peer_comes_with_the_addresses_it_was_reached_at(book: PeerBook, record: PeerRecord) -> None:
    """IPv4 and IPv6, as it was told when they were paired."""
    link = book.add(record)
    assert (link.node, link.name, link.is_up) == (record.node, "bert", False)
    assert known(book) == [("10.0.0.7", 11634, "pairing"), ("fe80::1%eth0", 11635, "pairing")]


def test_a_new_record_of_a_peer_is_gone_by_at_once(book: PeerBook, record: PeerRecord) -> None:
    """Its name, and where it is now before where it was; a peer without a link has nothing to renew."""
    assert not book.renew(record)
    link = book.add(record)
    assert book.renew(msgspec.structs.replace(record, name="bob", addresses=("10.0.0.9:1", "10.0.0.8:1")))
    assert link.name == "bob"
    assert [host for host, *_ in known(book)] == ["10.0.0.9", "10.0.0.8", "10.0.0.7", "fe80::1%eth0"]


def test_a_hint_becomes_an_address_of_the_paired_peer_only(book: PeerBook, record: PeerRecord) -> None:
    """The peer's short name leads to it; anybody else's is shown as unpaired and never dialled."""
    book.add(record)
    book.hint(record.node[:8], "10.0.0.9", 4000, "mdns")
    book.hint("STRANGER", "10.0.0.66", 4000, "mdns")
    assert ("10.0.0.9", 4000, "mdns") in known(book)
    assert len(known(book)) == 3
    assert book.unpaired == {"STRANGER": "10.0.0.66:4000"}
    assert book.is_paired(record.node[:8])
    assert not book.is_paired("STRANGER")


def test_strangers_are_bounded_the_oldest_go(book: PeerBook) -> None:
    """Ten thousand announcements leave the last 64."""
    for number in range(10_000):
        book.hint(f"{number:08}", "10.0.0.66", 4000, "mdns")
    assert len(book.unpaired) == MAX_UNPAIRED
    assert list(book.unpaired)[-1] == "00009999"


def test_a_peer_that_is_not_used_is_no_stranger(record: PeerRecord) -> None:
    """It is paired, though it has no link: nobody is asked to pair with it."""

    def no_link(certificate: bytes) -> ssl.SSLContext:
        raise AssertionError("nobody is followed here")

    book = PeerBook(lambda event: None, lambda: 0.0, no_link, Limits(), None, record.node.startswith)
    book.hint(record.node[:8], "10.0.0.7", 11634, "mdns")
    book.hint("BBBBBBBB", "10.0.0.8", 11634, "mdns")
    assert [*book.unpaired] == ["BBBBBBBB"]
    assert book.is_paired(record.node[:8])


def test_an_address_from_the_settings_may_be_anybodys(book: PeerBook, record: PeerRecord) -> None:
    """Its certificate will tell whose it is."""
    book.add(record)
    book.use_static([Address("10.0.0.8", 11634, "static")])
    assert ("10.0.0.8", 11634, "static") in known(book)


def test_a_node_that_is_not_paired_has_no_upstream(book: PeerBook, record: PeerRecord) -> None:
    """A request can only go to a paired peer, over an upstream pinned to its certificate."""
    with pytest.raises(Unreachable):
        book.upstream(NodeId("STRANGER"))
    link = book.add(record)
    assert book.upstream(record.node) is link.upstream
    assert link.upstream._pin == record.certificate


def other_port(book: PeerBook) -> list[tuple[str, int]]:
    """Where the only peer is tried, without the sources."""
    return [(host, port) for host, port, _ in known(book)]


def test_a_peers_own_call_teaches_where_it_is(book: PeerBook, record: PeerRecord) -> None:
    """F26, F28: the address it called from, with the port it is known to have; a stranger teaches nothing."""
    link = book.add(record)
    link.addresses.prove(Address("10.0.0.7", 4000, "mdns"))
    book.came_from(record.node, "10.9.0.7")
    book.came_from(NodeId("STRANGER"), "10.66.0.6")
    assert ("10.9.0.7", 4000) in other_port(book)
    assert link.addresses.news.is_set()
    assert not any(host == "10.66.0.6" for host, _ in other_port(book))


def test_where_it_proved_its_key_is_known_in_the_next_life(
    tmp_path: Path, record: PeerRecord, book: PeerBook
) -> None:
    """F28: before what was told when they were paired; a peer that is removed is forgotten there, too."""

    def life() -> tuple[AddressMemory, PeerBook]:
        memory = AddressMemory(tmp_path, lambda: 1)
        memory.load([record.node])
        return memory, PeerBook(lambda event: None, lambda: 0.0, book._tls_for, Limits(), memory)

    tmp_path.chmod(0o700)
    memory, first = life()
    link = first.add(record)
    assert link.addresses.prove(Address("10.5.5.5", 4000, "static"))
    link._proved()
    memory.save()
    memory, second = life()
    second.add(record)
    assert known(second)[0] == ("10.5.5.5", 4000, "remembered")
    assert second.remove(record.node) is not None
    assert second.remove(record.node) is None
    memory.save()
    _, third = life()
    third.add(record)
    assert ("10.5.5.5", 4000) not in other_port(third)


def test_strangers_are_shown_while_they_are_heard(tmp_path: Path, book: PeerBook) -> None:
    """I03, and what ended daemons left behind: gone after ten minutes, at a goodbye, and when paired."""
    time = [0.0]
    found = PeerBook(lambda event: None, lambda: time[0], book._tls_for, Limits())
    for short in ("STRANGER", "LEAVING2"):
        found.hint(short, "10.0.0.66", 4000, "mdns")
    assert set(found.unpaired) == {"STRANGER", "LEAVING2"}
    found.goodbye("LEAVING2")
    found.goodbye("UNKNOWN2")
    assert set(found.unpaired) == {"STRANGER"}
    time[0] = FORGET_S - 1
    assert set(found.unpaired) == {"STRANGER"}
    time[0] = FORGET_S + 1
    assert found.unpaired == {}


def test_a_node_of_another_protocol_is_shown_as_one_that_needs_an_update(
    book: PeerBook, record: PeerRecord
) -> None:
    """I11, F42: paired or not; one that is heard is not judged by what somebody announced."""
    link = book.add(record)
    book.outdated("STRANGER", "2")
    book.outdated("ANCIENT2", "0")
    book.outdated(record.node[:8], "2")
    assert book.unpaired == {"STRANGER": "newer: this machine needs update", "ANCIENT2": "needs update"}
    assert link.problem == needs_update(2)
    link.is_up, link.problem = True, None
    book.outdated(record.node[:8], "2")
    assert link.problem is None


def test_a_goodbye_makes_a_peer_doubtful_and_takes_nothing_from_it(
    book: PeerBook, record: PeerRecord
) -> None:
    """I02, F22: forged or not, the peer is asked whether it is there, and no address is forgotten."""
    link = book.add(record)
    link.is_up = True
    before = known(book)
    book.goodbye(record.node[:8])
    assert link._doubt.is_set()
    assert (link.is_up, known(book)) == (True, before)


def test_a_request_that_found_no_way_makes_its_peer_doubtful(book: PeerBook, record: PeerRecord) -> None:
    """F1, F2: the peer is asked at once, not when its heartbeat is late."""
    link = book.add(record)
    link.is_up = True
    assert link.upstream._failed is not None
    link.upstream._failed()
    assert link._doubt.is_set()


def test_another_network_is_seen_to_at_once(book: PeerBook, record: PeerRecord) -> None:
    """F26, F29: after a change or a sleep every peer is asked, and what is on our networks is tried first."""
    link = book.add(record)
    for host in ("192.0.2.7", "10.9.0.7"):
        link.addresses.add(Address(host, 4000, "mdns"))
    home = frozenset({OwnAddress("eth0", 2, "192.168.1.7", 24)})
    work = frozenset({OwnAddress("eth0", 2, "10.9.0.1", 16)})
    book.network_changed(home)
    assert not link._doubt.is_set()  # the start is no change
    book.network_changed(work)
    assert link._doubt.is_set()
    assert other_port(book)[0] == ("10.9.0.7", 4000)


def test_a_sleep_is_seen_to_also_where_only_loopback_counts(book: PeerBook, record: PeerRecord) -> None:
    """F29: there are no interfaces to look at then, and waking up is told all the same."""
    link = book.add(record)
    book.network_changed(frozenset())
    assert not link._doubt.is_set()
    book.network_changed(frozenset())
    assert link._doubt.is_set()


def test_other_settings_replace_the_static_addresses_of_every_peer(
    book: PeerBook, record: PeerRecord
) -> None:
    """Also of peers that come later."""
    book.use_static([Address("10.1.1.1", 1, "static")])
    book.add(record)
    assert ("10.1.1.1", 1) in other_port(book)
    book.use_static([Address("10.1.1.2", 1, "static")])
    assert ("10.1.1.1", 1) not in other_port(book)
    assert ("10.1.1.2", 1) in other_port(book)
