"""A daemon among its peers: what follows from the trust store."""

from pathlib import Path

import msgspec
import pytest

from pairproxy.config import PeerSettings, Settings
from pairproxy.peering import bind_peer_port
from pairproxy.proxy.listening import all_or_none
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.trust import PeerRecord, TrustStore

ANY_PORT = Settings(peers=PeerSettings(listen="127.0.0.1:0"))


@pytest.fixture
def own(tmp_path: Path) -> Identity:
    """This node."""
    return load_or_create(tmp_path / "own")


@pytest.fixture
def trust(own: Identity, tmp_path: Path) -> TrustStore:
    """Its store, without a peer."""
    store = TrustStore(tmp_path / "own", own.device_id)
    store.load()
    return store


def test_the_peer_port_is_closed_until_somebody_is_paired(trust: TrustStore, tmp_path: Path) -> None:
    """Nobody can knock at a node that believes nobody."""
    with all_or_none() as keep:
        assert bind_peer_port(ANY_PORT, trust, keep) == []
        peer = load_or_create(tmp_path / "peer")
        trust.add(PeerRecord(peer.device_id, "ben", peer.certificate, may_use_me=True, i_may_use=True))
        (sock,) = bind_peer_port(ANY_PORT, trust, keep)
        assert sock.getsockname()[0] == "127.0.0.1"
        sock.close()


def test_a_peer_port_goes_where_the_settings_say(trust: TrustStore) -> None:
    """An address that is none is named with its key, also before anybody is paired."""
    wrong = msgspec.structs.replace(ANY_PORT, peers=PeerSettings(listen="nowhere"))
    with all_or_none() as keep, pytest.raises(Exception, match=r"peers\.listen"):
        bind_peer_port(wrong, trust, keep)
