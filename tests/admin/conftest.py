"""One peer, as what looks at this node meets it."""

from pathlib import Path

import pytest

from pairproxy.config import Limits
from pairproxy.peers.book import PeerBook
from pairproxy.security import tls
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.peer_record import PeerRecord


@pytest.fixture
def other(tmp_path: Path) -> Identity:
    """A peer's identity."""
    return load_or_create(tmp_path / "other")


@pytest.fixture
def book(tmp_path: Path, other: Identity) -> PeerBook:
    """One paired peer, found at an address, and a stranger."""
    own = load_or_create(tmp_path / "own")
    book = PeerBook(lambda _: None, lambda: 0.0, lambda der: tls.client_context(own, der), Limits())
    book.add(PeerRecord(other.device_id, "bert", other.certificate, True, True))
    book.hint(other.device_id[:8], "10.0.0.7", 11634, "mdns")
    book.hint("STRANGER", "10.0.0.66", 1, "mdns")
    return book
