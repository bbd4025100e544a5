import ssl
from pathlib import Path

import pytest

from pairproxy.config import Limits
from pairproxy.core.errors import Unreachable
from pairproxy.core.models import NodeId
from pairproxy.peers.book import MAX_UNPAIRED, PeerBook
from pairproxy.security import tls
from pairproxy.security.identity import load_or_create
from pairproxy.security.trust import PeerRecord


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


def test_an_address_from_the_settings_may_be_anybodys(book: PeerBook, record: PeerRecord) -> None:
    """Its certificate will tell whose it is."""
    book.add(record)
    book.add_everywhere("10.0.0.8", 11634)
    assert ("10.0.0.8", 11634, "static") in known(book)


def test_a_node_that_is_not_paired_has_no_upstream(book: PeerBook, record: PeerRecord) -> None:
    """A request can only go to a paired peer, over an upstream pinned to its certificate."""
    with pytest.raises(Unreachable):
        book.upstream(NodeId("STRANGER"))
    link = book.add(record)
    assert book.upstream(record.node) is link.upstream
    assert link.upstream._pin == record.certificate
