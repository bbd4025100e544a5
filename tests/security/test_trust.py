import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.security import trust
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.trust import TrustStore
from tests.support.certificates import der, forge
from tests.support.trusting import record_of, reloaded


def test_a_peer_is_found_again_after_a_restart(store: TrustStore, peer: Identity) -> None:
    """What was added is there in the next life of the daemon, by id and by certificate."""
    record = store.add(record_of(peer, addresses=("192.168.1.7:11634", "[fe80::1%eth0]:11634")))
    again = reloaded(store)
    assert again.get(peer.device_id) == record
    assert again.by_certificate(peer.certificate) == record
    assert again.peers() == (record,)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_peer_files_are_closed_to_others(store: TrustStore, peer: Identity, tmp_path: Path) -> None:
    """The directory of peers is 0700, a peer's file 0600 and named after the peer."""
    store.add(record_of(peer))
    directory = tmp_path / "own" / "peers"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    (file,) = directory.iterdir()
    assert file.name == f"{peer.device_id}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_only_the_exact_certificate_is_believed(store: TrustStore, peer: Identity) -> None:
    """Neither a forgery with the peer's subject nor a changed certificate is believed."""
    store.add(record_of(peer))
    assert store.by_certificate(der(forge(subject=peer.device_id)[0])) is None
    assert store.by_certificate(peer.certificate + b"\x00") is None
    assert store.by_certificate(peer.certificate[:-1]) is None
    assert store.by_certificate(b"") is None


def test_a_forgotten_peer_is_unknown_at_once(store: TrustStore, peer: Identity) -> None:
    """Forgetting acts on the live table and on the disk; a second time it says there was none."""
    store.add(record_of(peer))
    assert store.forget(peer.device_id) is True
    assert store.by_certificate(peer.certificate) is None
    assert store.get(peer.device_id) is None
    assert reloaded(store).peers() == ()
    assert store.forget(peer.device_id) is False


def test_a_file_of_a_newer_version_is_refused_as_such(
    store: TrustStore, peer: Identity, tmp_path: Path
) -> None:
    """A right that this version does not know might be one that was taken away; the file stays as it is."""
    store.add(record_of(peer))
    (file,) = (tmp_path / "own" / "peers").glob("*.json")
    newer = b'{"may_do_more": false, ' + file.read_bytes().lstrip()[1:]
    file.write_bytes(newer)
    with pytest.raises(StoreError, match="written by a newer pairproxy"):
        reloaded(store)
    assert file.read_bytes() == newer


def test_forgetting_acts_even_if_the_file_stays(
    store: TrustStore, peer: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer whose file cannot be removed is unknown all the same, and the person is told."""
    store.add(record_of(peer))

    def stuck(path: Path) -> None:
        raise StoreError(f"{path} cannot be removed")

    monkeypatch.setattr(trust, "remove_private", stuck)
    with pytest.raises(StoreError):
        store.forget(peer.device_id)
    assert store.by_certificate(peer.certificate) is None


def test_we_are_no_peer_of_ourselves(store: TrustStore, own: Identity) -> None:
    """Our own certificate cannot be added."""
    with pytest.raises(StoreError, match="this machine itself"):
        store.add(record_of(own))


def test_a_certificate_of_another_node_is_refused(store: TrustStore, peer: Identity, tmp_path: Path) -> None:
    """The record's node and the certificate's key must be one."""
    other = load_or_create(tmp_path / "other")
    with pytest.raises(StoreError, match="another device id"):
        store.add(record_of(peer, node=other.device_id))
    with pytest.raises(StoreError):
        store.add(record_of(peer, certificate=der(forge(subject=peer.device_id, is_ca=True)[0])))
    assert store.peers() == ()


def test_a_failed_write_changes_nothing(
    store: TrustStore, peer: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer whose file could not be written is not believed (F36)."""

    def full(path: Path, content: bytes) -> None:
        raise StoreError(f"{path} cannot be written: No space left on device.")

    monkeypatch.setattr(trust, "write_private", full)
    with pytest.raises(StoreError, match="No space left"):
        store.add(record_of(peer))
    assert store.by_certificate(peer.certificate) is None


def _damage(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        content = json.loads(file.read_text())
        change(content)
        file.write_text(json.dumps(content))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_text(""),
        lambda file: file.write_text("{"),
        lambda file: file.write_bytes(b"\xff\xfe"),
        lambda file: file.write_text("[" * 50_000),
        lambda file: file.write_text(" " * 70_000),
        lambda file: file.rename(file.with_name("A" * 52 + ".json")),
        _damage(lambda content: content.update(revoked=True)),
        _damage(lambda content: content.pop("may_use_me")),
        _damage(lambda content: content.update(node="A" * 52)),
        _damage(lambda content: content.update(certificate="AAAA")),
        _damage(lambda content: content.update(addresses=["nowhere"])),
    ],
    ids=[
        "empty",
        "cut",
        "binary",
        "deep",
        "huge",
        "moved",
        "extra",
        "less",
        "node",
        "certificate",
        "address",
    ],
)
def test_a_bad_file_is_refused_by_name(
    store: TrustStore, peer: Identity, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """A damaged peer file stops loading with its name, and the table stays as it was."""
    store.add(record_of(peer))
    damage(tmp_path / "own" / "peers" / f"{peer.device_id}.json")
    (file,) = (tmp_path / "own" / "peers").iterdir()
    with pytest.raises(StoreError) as refusal:
        store.load()
    assert str(file) in str(refusal.value)
    assert store.get(peer.device_id) is not None


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_loose_peers_are_refused(store: TrustStore, peer: Identity, tmp_path: Path) -> None:
    """A peer file or a directory of peers that others may read is refused by name."""
    store.add(record_of(peer))
    file = tmp_path / "own" / "peers" / f"{peer.device_id}.json"
    file.chmod(0o644)
    with pytest.raises(StoreError, match=rf"chmod 600 '{file}'"):
        store.load()
    file.chmod(0o600)
    file.parent.chmod(0o755)
    with pytest.raises(StoreError, match=rf"chmod 700 '{file.parent}'"):
        store.load()


def test_a_leftover_of_a_crash_is_no_peer(store: TrustStore, peer: Identity, tmp_path: Path) -> None:
    """A temporary file that a crash left behind is not read."""
    store.add(record_of(peer))
    (tmp_path / "own" / "peers" / f".{peer.device_id}.json.0123.tmp").write_text("{")
    store.load()
    assert len(store.peers()) == 1


def test_the_table_is_bounded(store: TrustStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One peer more than the table holds is refused; one that is in it can still be renewed."""
    monkeypatch.setattr(trust, "MOST_PEERS", 2)
    first, second, third = (load_or_create(tmp_path / name) for name in "abc")
    store.add(record_of(first))
    store.add(record_of(second))
    with pytest.raises(StoreError, match="Forget one"):
        store.add(record_of(third))
    assert store.add(record_of(first, name="renamed")).name == "renamed"
    assert [record.name for record in store.peers()] == ["anna", "renamed"]
