import json
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pairproxy.core.errors import StoreError
from pairproxy.security import private_files, trust
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.trust import PeerRecord, TrustStore, printable
from tests.support.certificates import der, forge


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


def record_of(identity: Identity, **changes: object) -> PeerRecord:
    """A valid record of that node, with some fields changed."""
    record = PeerRecord(
        node=identity.device_id,
        name="anna",
        certificate=identity.certificate,
        may_use_me=True,
        i_may_use=False,
    )
    return msgspec.structs.replace(record, **changes)


def reloaded(store: TrustStore) -> TrustStore:
    """The store as the next life of the daemon finds it."""
    again = TrustStore(store._home, store._own)
    again.load()
    return again


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


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:0",
        "host:65536",
        "ho st:1",
        "user@host:1",
        "http://host:1",
        "h\x1b:1",
        "fe80::1:1",
        "[]:1",
    ],
)
def test_addresses_are_host_and_port(store: TrustStore, peer: Identity, address: str) -> None:
    """Whatever is not host:port is refused and changes nothing."""
    with pytest.raises(StoreError, match="host:port"):
        store.add(record_of(peer, addresses=(address,)))
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


def test_names_are_made_printable(store: TrustStore, peer: Identity) -> None:
    """A hostile name loses its escapes and its length; an empty one becomes the short id (H17)."""
    hostile = "\x1b[2J\u202eanna\n\u200b" + "x" * 10_000
    record = store.add(record_of(peer, name=hostile))
    assert record.name.startswith("[2Janna")
    assert len(record.name) == 64
    assert record.name.isprintable()
    assert store.add(record_of(peer, name="\x00\u2066")).name == f"{peer.device_id[:4]}-{peer.device_id[4:8]}"
    assert printable("  Büro 3 ✓ ") == "Büro 3 ✓"


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
