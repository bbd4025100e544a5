"""Two nodes and the empty store of one of them."""

from pathlib import Path

import pytest

from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.trust import TrustStore


@pytest.fixture
def own(tmp_path: Path) -> Identity:
    """This node."""
    return load_or_create(tmp_path / "own")


@pytest.fixture
def peer(tmp_path: Path) -> Identity:
    """Another node."""
    return load_or_create(tmp_path / "peer")


@pytest.fixture
def store(own: Identity, tmp_path: Path) -> TrustStore:
    """The empty store of this node."""
    store = TrustStore(tmp_path / "own", own.device_id)
    store.load()
    return store
