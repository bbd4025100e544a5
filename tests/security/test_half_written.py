"""Every write of the home directory, failed and killed at each call: what is left is the old or the new.

F35 and F36: a full or broken disk, a power switch; no store may be left that the next start cannot open.
"""

import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import msgspec
import pytest

from pairproxy.core.costs import Costs
from pairproxy.core.models import ModelName
from pairproxy.peers.addresses import Address
from pairproxy.peers.remembered import AddressMemory
from pairproxy.security.identity import Identity, load_or_create, reset
from pairproxy.security.peer_record import PeerRecord
from pairproxy.security.private_files import sweep
from pairproxy.security.trust import TrustStore
from pairproxy.speeds import FILE as SPEEDS
from pairproxy.speeds import KeptFile, SpeedStore
from tests.support.failing_disk import every_fault

M = ModelName("m:1")


@cache
def identity(name: str) -> Identity:
    """A key of its own for each name."""
    return load_or_create(Path(mkdtemp(prefix="pairproxy-test-")) / name)


def age(home: Path) -> None:
    """Make what is left here look an hour old."""
    for path in home.rglob("*.tmp"):
        os.utime(path, (time.time() - 3600.0,) * 2)


def nothing_is_left(home: Path) -> bool:
    """Whether the next start removes all leftovers, and did not have to be told where."""
    age(home)
    for directory in (home, home / "peers"):
        sweep(directory)
    return not list(home.rglob("*.tmp"))


def cleared(home: Path) -> None:
    """An empty home, 0700."""
    for path in sorted(home.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_first_start_that_is_cut_anywhere_is_made_good_by_the_next(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key without its certificate is no state that a person has to mend: the next start makes both anew."""
    for disk in every_fault(monkeypatch, lambda: cleared(home), lambda: load_or_create(home)):
        made = load_or_create(home)
        assert load_or_create(home) == made, disk.at
        assert {path.name for path in home.iterdir() if not path.name.endswith(".tmp")} == {
            "cert.pem", "key.pem", "identity.lock", "identity.checked"
        }  # fmt: skip
        assert nothing_is_left(home)


def test_an_identity_that_was_used_is_never_made_anew(home: Path) -> None:
    """A certificate that is lost later is no unfinished start: it is refused; there may be a backup."""
    load_or_create(home)
    (home / "cert.pem").unlink()
    with pytest.raises(Exception, match="Put it back from a backup"):
        load_or_create(home)


def test_a_new_identity_that_is_cut_anywhere_is_the_old_or_the_new(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`reset-identity` ends with a whole pair of files, whatever happens to it: at the next start at last."""
    olds: list[Identity] = []

    def prepare() -> None:
        cleared(home)
        olds[:] = [load_or_create(home)]

    for disk in every_fault(monkeypatch, prepare, lambda: reset(home)):
        made = load_or_create(home)
        assert load_or_create(home) == made, disk.at
        assert not (home / "identity.making").exists()
        assert reset(home) not in (made, *olds)
        assert nothing_is_left(home)


def record(who: Identity, **facts: object) -> PeerRecord:
    """A peer."""
    return msgspec.structs.replace(
        PeerRecord(who.device_id, "ben", who.certificate, True, True, paired_at=1), **facts
    )


ADD: Callable[[TrustStore], object] = lambda store: store.add(record(identity("carl")))  # noqa: E731
CHANGE: Callable[[TrustStore], object] = lambda store: store.add(record(identity("ben"), slots=2))  # noqa: E731
FORGET: Callable[[TrustStore], object] = lambda store: store.forget(identity("ben").device_id)  # noqa: E731


@pytest.mark.parametrize("act", [ADD, CHANGE, FORGET], ids=["pairing", "a right", "forgetting"])
def test_a_change_of_trust_is_done_or_not(
    home: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[TrustStore], object]
) -> None:
    """F36: pairing, a changed right and forgetting leave the old peers or the new ones, which open again."""

    def store() -> TrustStore:
        opened = TrustStore(home, identity("anna").device_id)
        opened.load()
        return opened

    def prepare() -> None:
        cleared(home)
        store().add(record(identity("ben")))

    prepare()
    old = store().peers()
    act(store())
    new = store().peers()
    assert old != new
    for disk in every_fault(monkeypatch, prepare, lambda: act(store())):
        assert store().peers() in (old, new), disk.at
        act(store())
        assert store().peers() == new
        assert nothing_is_left(home)


def test_speeds_are_the_old_or_the_new(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F35: the file of speeds is never half of one."""
    costs = Costs()
    store = SpeedStore(home, costs, "cpu", lambda: 1)

    def learn(tokens: int) -> None:
        costs.lengths.restore(M, (tokens,))
        costs.changes += 1
        store.save()

    def prepare() -> None:
        cleared(home)
        learn(5)
        costs.lengths.restore(M, (5,))

    for disk in every_fault(monkeypatch, prepare, lambda: learn(7)):
        kept = msgspec.json.decode((home / SPEEDS).read_bytes(), type=KeptFile)
        assert len(kept.lengths) == 1, disk.at
        assert nothing_is_left(home)


def test_addresses_are_the_old_or_the_new(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F35: where peers were is never half known, and written again when the disk is well."""
    ben = identity("ben").device_id
    memory = AddressMemory(home, lambda: 1)

    def learn(host: str) -> None:
        memory.keep(ben, [Address(host, 1, "mdns")])
        memory.save()

    def known() -> list[str]:
        opened = AddressMemory(home, lambda: 1)
        opened.load([ben])
        return [one.host for one in opened.of(ben)]

    def prepare() -> None:
        cleared(home)
        learn("10.0.0.1")

    for disk in every_fault(monkeypatch, prepare, lambda: learn("10.0.0.2")):
        assert known() in (["10.0.0.1"], ["10.0.0.2"]), disk.at
        learn("10.0.0.3")
        assert known() == ["10.0.0.3"]
        assert nothing_is_left(home)


def test_only_what_was_left_is_swept(home: Path) -> None:
    """A file that is being written stays, and so does everything that is not a writer's temporary file."""
    kept = [home / ".key.pem.0123456789abcdef.tmp", home / "notes.tmp", home / ".mine.tmp", home / "key.pem"]
    old = home / ".speeds.json.0123456789abcdef.tmp"
    future = home / ".trust.json.0123456789abcdef.tmp"
    for path in (*kept, old, future):
        path.write_bytes(b"")
    for path, shift_s in ((old, -3600.0), (future, 3600.0), (kept[1], -3600.0), (kept[2], -3600.0)):
        os.utime(path, (time.time() + shift_s,) * 2)
    sweep(home)
    sweep(home / "no such directory")
    assert sorted(home.iterdir()) == sorted(kept)
