"""Which peer a word means, and how sentences call it."""

from pathlib import Path

import pytest

from pairproxy.cli.trusting import NOBODY, found_in, named, share, store_of
from pairproxy.core.errors import StoreError
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.peer_record import PeerRecord
from pairproxy.security.trust import TrustStore


def befriend(home: Path, peer: Identity, name: str) -> None:
    """Let the home trust a machine of this name."""
    store = TrustStore(home, load_or_create(home).device_id)
    store.load()
    store.add(PeerRecord(peer.device_id, name, peer.certificate, may_use_me=True, i_may_use=True))


@pytest.fixture
def ben(tmp_path: Path) -> Identity:
    """A machine."""
    return load_or_create(tmp_path / "ben")


@pytest.fixture
def carl(tmp_path: Path) -> Identity:
    """Another machine."""
    return load_or_create(tmp_path / "carl")


def meant(home: Path, word: str) -> str:
    """The name of the peer that a word means."""
    return found_in(home, word)[1].name


def test_where_nothing_was_set_up_nothing_is_made(home: Path) -> None:
    """Looking makes no identity; the sentence says how to begin."""
    assert store_of(home) is None
    assert not any(home.iterdir())
    with pytest.raises(StoreError, match="pairproxy pair"):
        found_in(home, "ben")
    load_or_create(home)
    with pytest.raises(StoreError) as refusal:
        found_in(home, "ben")
    assert str(refusal.value) == NOBODY


def test_a_peer_is_meant_by_name_id_or_the_beginning_of_either(
    home: Path, ben: Identity, carl: Identity
) -> None:
    """Case counts only where two names differ by nothing else."""
    befriend(home, ben, "ben-ws")
    befriend(home, carl, "Carl")
    node = ben.device_id
    for word in ("ben-ws", "BEN-WS", "ben", node, node[:8], f"{node[:4]}-{node[4:8]}", node[:8].lower()):
        assert meant(home, word) == "ben-ws", word
    befriend(home, carl, "BEN-ws")
    assert meant(home, "ben-ws") == "ben-ws"
    assert meant(home, "BEN-ws") == "BEN-ws"
    for word in ("BEN-WS", "b"):
        with pytest.raises(StoreError, match="Several machines"):
            meant(home, word)


@pytest.mark.parametrize("word", ["", "x", "en-ws", "AB", "\x1b[2J"])
def test_a_word_that_means_nobody_is_answered_with_who_there_is(home: Path, ben: Identity, word: str) -> None:
    """Nothing is guessed."""
    befriend(home, ben, "ben-ws")
    with pytest.raises(StoreError, match='There is "ben-ws"') as refusal:
        found_in(home, word)
    assert str(refusal.value).isprintable()


def test_a_name_that_looks_like_another_peers_id_means_neither(
    home: Path, ben: Identity, carl: Identity
) -> None:
    """A peer chooses its name: forgetting by id must not forget another machine."""
    befriend(home, ben, "ben-ws")
    befriend(home, carl, f"{ben.device_id[:4]}-{ben.device_id[4:8]}")
    with pytest.raises(StoreError, match="Several machines"):
        found_in(home, f"{ben.device_id[:4]}-{ben.device_id[4:8]}")
    assert meant(home, ben.device_id) == "ben-ws"


def test_rights_and_machines_in_a_few_words(ben: Identity) -> None:
    """As they stand in tables and sentences."""
    assert share(True, None, ()) == "yes"
    assert share(True, 1, ()) == "1 slot"
    assert share(True, 2, ("qwen*", "m:1")) == "2 slots, qwen*, m:1"
    assert share(False, 2, ()) == "no"
    record = PeerRecord(ben.device_id, "ben", ben.certificate, may_use_me=True, i_may_use=True)
    assert named(record) == f'"ben" (id {ben.device_id[:4]}-{ben.device_id[4:8]})'
