"""Peers that are forgotten, paired again or given other rights, by several commands and through crashes."""

import time
from pathlib import Path

import msgspec
import pytest

from pairproxy.core.errors import StoreError
from pairproxy.security import private_files, trust
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.trust import TrustStore
from tests.support.trusting import record_of, reloaded


def test_a_forgotten_peer_is_told_apart_from_a_stranger(store: TrustStore, peer: Identity) -> None:
    """What is kept of it says that it was a peer, also in the next life of the daemon; it is not believed."""
    store.add(record_of(peer, name="ben"))
    assert not store.was_forgotten(peer.certificate)
    store.forget(peer.device_id)
    for one in (store, reloaded(store)):
        assert one.was_forgotten(peer.certificate)
        assert [(kept.node, kept.name) for kept in one.forgotten()] == [(peer.device_id, "ben")]
        assert one.by_certificate(peer.certificate) is None
    assert not store.was_forgotten(peer.certificate + b"x")


def test_pairing_again_lifts_it(store: TrustStore, peer: Identity) -> None:
    """A person trusts the machine anew: it is a peer and no longer a forgotten one."""
    store.add(record_of(peer))
    store.forget(peer.device_id)
    store.add(record_of(peer))
    for one in (store, reloaded(store)):
        assert one.get(peer.device_id) is not None
        assert one.forgotten() == ()


def test_a_file_that_comes_back_is_not_believed(store: TrustStore, peer: Identity, tmp_path: Path) -> None:
    """Whether from a backup or by a crash between two writes: who was forgotten stays forgotten."""
    store.add(record_of(peer))
    file = tmp_path / "own" / "peers" / f"{peer.device_id}.json"
    kept = file.read_bytes()
    store.forget(peer.device_id)
    file.write_bytes(kept)
    file.chmod(0o600)
    again = reloaded(store)
    assert again.peers() == ()
    assert again.was_forgotten(peer.certificate)


class PowerCut(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["write_forgotten", "remove_private"])
def test_a_crash_while_forgetting_leaves_the_peer_or_no_peer(
    store: TrustStore, peer: Identity, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Killed before the first write it is a peer still, after it is none; the file is never half there."""
    store.add(record_of(peer))

    def cut(*_: object) -> None:
        raise PowerCut

    monkeypatch.setattr(trust, step, cut)
    with pytest.raises(PowerCut):
        store.forget(peer.device_id)
    monkeypatch.undo()
    again = reloaded(store)
    assert len(again.peers()) == (1 if step == "write_forgotten" else 0)
    assert again.forget(peer.device_id) is (step == "write_forgotten")


@pytest.mark.parametrize("step", ["write_private", "write_forgotten"])
def test_a_crash_while_pairing_again_leaves_it_forgotten(
    store: TrustStore, peer: Identity, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The pairing is whole or it is none, and can be done anew."""
    store.add(record_of(peer))
    store.forget(peer.device_id)

    def cut(*_: object) -> None:
        raise PowerCut

    monkeypatch.setattr(trust, step, cut)
    with pytest.raises(PowerCut):
        store.add(record_of(peer))
    monkeypatch.undo()
    assert reloaded(store).peers() == ()
    assert reloaded(store).was_forgotten(peer.certificate)
    again = reloaded(store)
    again.add(record_of(peer))
    assert len(again.peers()) == 1


def test_two_commands_at_once_lose_nothing(store: TrustStore, peer: Identity, tmp_path: Path) -> None:
    """A store that was read before another one changed the files builds on what they say now."""
    other = load_or_create(tmp_path / "other")
    early = reloaded(store)
    store.add(record_of(peer))
    store.forget(peer.device_id)
    early.add(record_of(other, name="carl"))
    assert early.was_forgotten(peer.certificate)
    assert [one.name for one in reloaded(store).peers()] == ["carl"]


def test_a_change_waits_for_the_one_under_way(
    store: TrustStore, peer: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process changes the peers a command waits, and then says so and changes nothing."""
    monkeypatch.setattr(private_files, "_LOCK_TRIES", 2)
    with (
        private_files.exclusive(tmp_path / "own" / trust.LOCK_FILE),
        pytest.raises(StoreError, match="Try again"),
    ):
        store.add(record_of(peer))
    assert reloaded(store).peers() == ()


def test_reading_anew_says_what_is_different(store: TrustStore, peer: Identity, tmp_path: Path) -> None:
    """Added, changed and gone, each once."""
    daemon = reloaded(store)
    store.add(record_of(peer))
    assert daemon.reload() == ((peer.device_id,), (), ())
    assert daemon.reload() == ((), (), ())
    store.change(peer.device_id, lambda record: msgspec.structs.replace(record, slots=2))
    assert daemon.reload() == ((), (peer.device_id,), ())
    assert daemon.get(peer.device_id) == store.get(peer.device_id)
    store.forget(peer.device_id)
    assert daemon.reload() == ((), (), (peer.device_id,))
    assert daemon.was_forgotten(peer.certificate)


def test_a_right_can_be_changed_only_of_a_peer(store: TrustStore, peer: Identity) -> None:
    """Nobody becomes one by it."""
    with pytest.raises(StoreError, match="no longer paired"):
        store.change(peer.device_id, lambda record: record)


@pytest.mark.parametrize(
    "changes",
    [{"slots": 0}, {"slots": -1}, {"models": ("",)}, {"models": ("a\n",)}, {"models": ("m",) * 65}],
)
def test_rights_that_mean_nothing_are_refused(
    store: TrustStore, peer: Identity, changes: dict[str, object]
) -> None:
    """And change nothing."""
    with pytest.raises(StoreError, match=r"Correct them|slot"):
        store.add(record_of(peer, **changes))
    assert store.peers() == ()


def test_it_is_kept_since_when_a_peer_is_one(store: TrustStore, peer: Identity) -> None:
    """Changing its rights does not move that."""
    before = int(time.time())
    paired_at = store.add(record_of(peer)).paired_at
    assert before <= paired_at <= time.time()
    assert store.change(peer.device_id, lambda one: one).paired_at == paired_at


def test_a_peer_can_be_taken_back_without_a_trace(store: TrustStore, peer: Identity) -> None:
    """A pairing that failed after storing leaves a stranger, not a machine that was forgotten."""
    store.add(record_of(peer))
    store.withdraw(peer.device_id)
    assert store.peers() == ()
    assert not store.was_forgotten(peer.certificate)
    assert reloaded(store).peers() == ()
