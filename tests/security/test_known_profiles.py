import subprocess
import sys
from pathlib import Path

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.known_profiles import FILE, KnownProfiles, are_known
from pairproxy.security.trust import TrustStore
from tests.support.certificates import der, forge
from tests.support.trusting import record_of


def test_a_peer_that_was_found_good_is_not_checked_again(
    store: TrustStore, peer: Identity, tmp_path: Path
) -> None:
    """The next process needs no cryptography to believe it: 12 MB that a daemon would keep."""
    store.add(record_of(peer))
    program = "import sys, pathlib; from pairproxy.security.trust import TrustStore\n"
    program += "store = TrustStore(pathlib.Path(sys.argv[1]), sys.argv[2]); store.load()\n"
    program += "print(*[one.node for one in store.peers()], 'cryptography' in sys.modules)"
    arguments = [sys.executable, "-c", program, str(tmp_path / "own"), store._own]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == [peer.device_id, "False"]


@pytest.mark.parametrize("damaged", [b"", b"x", b"\xff" * 90, b" \n \n", b"a" * 70_000])
def test_a_memory_that_is_damaged_is_none(
    store: TrustStore, peer: Identity, tmp_path: Path, damaged: bytes
) -> None:
    """All are checked in full then, and remembered anew."""
    store.add(record_of(peer))
    file = tmp_path / "own" / FILE
    good = file.read_bytes()
    file.write_bytes(damaged)
    store.reload()
    assert [one.node for one in store.peers()] == [peer.device_id]
    assert file.read_bytes() == good


def test_what_has_not_our_profile_is_never_remembered(peer: Identity, tmp_path: Path) -> None:
    """Neither a forgery with the subject of one that is known, nor one that differs by a bit."""
    home = tmp_path / "home"
    load_or_create(home)
    profiles = KnownProfiles(home)
    assert profiles.device_id(peer.certificate) == peer.device_id
    profiles.keep()
    for _ in range(2):
        again = KnownProfiles(home)
        for foreign in (der(forge(subject=peer.device_id)[0]), peer.certificate[:-1] + b"\0", b""):
            with pytest.raises(StoreError):
                again.device_id(foreign)
        again.keep()


def test_a_memory_open_to_others_counts_for_nothing(
    store: TrustStore, peer: Identity, tmp_path: Path
) -> None:
    """Whoever may write it would say which certificates are ours."""
    store.add(record_of(peer))
    (tmp_path / "own" / FILE).chmod(0o666)
    assert KnownProfiles(tmp_path / "own")._before == {}
    store.reload()
    assert [one.node for one in store.peers()] == [peer.device_id]


def test_only_a_home_with_peers_has_anything_to_check(
    store: TrustStore, peer: Identity, tmp_path: Path
) -> None:
    """Without one nothing is left to another process; with one that was never checked it is."""
    home = tmp_path / "own"
    assert are_known(home)
    store.add(record_of(peer))
    assert are_known(home)
    (home / FILE).unlink()
    assert not are_known(home)
