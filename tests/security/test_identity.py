import dataclasses
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.security.identity import device_id_of, load_or_create, short_id


def test_an_identity_stays(tmp_path: Path) -> None:
    """The second call returns what the first one made, byte for byte."""
    first = load_or_create(tmp_path / "home")
    assert load_or_create(tmp_path / "home") == first
    assert first.device_id == device_id_of(first.certificate)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.device_id = NodeId("other")  # type: ignore[misc]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_home_and_files_are_closed_to_others(tmp_path: Path) -> None:
    """The home is 0700 and every file in it 0600."""
    old = os.umask(0)
    try:
        load_or_create(tmp_path / "home")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "home").iterdir()}
    names = ("key.pem", "cert.pem", "identity.checked", "identity.lock")
    assert files == dict.fromkeys(names, 0o600)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_a_loose_key_is_refused(tmp_path: Path) -> None:
    """A key that the group may read stops the start with the command that mends it."""
    load_or_create(tmp_path / "home")
    (tmp_path / "home" / "key.pem").chmod(0o640)
    with pytest.raises(StoreError, match=r"chmod 600 '.*key\.pem'"):
        load_or_create(tmp_path / "home")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_a_loose_home_is_refused_before_a_key_is_made(tmp_path: Path) -> None:
    """No key is made in a directory that others may look into."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    with pytest.raises(StoreError, match="chmod 700"):
        load_or_create(home)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("name", ["key.pem", "cert.pem"])
@pytest.mark.parametrize("damage", ["missing", "empty", "half", "another node's"])
def test_a_damaged_pair_is_refused_and_kept(tmp_path: Path, name: str, damage: str) -> None:
    """A pair of which one half is missing, cut or foreign is refused, never replaced."""
    home = tmp_path / "home"
    load_or_create(home)
    load_or_create(tmp_path / "other")
    file = home / name
    if damage == "missing":
        file.unlink()
    else:
        whole = file.read_bytes()
        other = (tmp_path / "other" / name).read_bytes()
        file.write_bytes({"empty": b"", "half": whole[: len(whole) // 2], "another node's": other}[damage])
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    with pytest.raises(StoreError, match=r"remove .* to begin as a new node") as refusal:
        load_or_create(home)
    assert str(file) in str(refusal.value)
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before


def test_the_refusal_holds_nothing_of_the_key(tmp_path: Path) -> None:
    """The sentence about an unusable key shows no line of it."""
    home = tmp_path / "home"
    load_or_create(home)
    lines = (home / "key.pem").read_text().splitlines()
    (home / "key.pem").write_text("\n".join(lines[:-2]))
    with pytest.raises(StoreError) as refusal:
        load_or_create(home)
    assert not any(line in str(refusal.value) for line in lines)


def test_processes_that_start_together_get_one_identity(tmp_path: Path) -> None:
    """Four first starts at the same moment mint one identity."""
    program = (
        "import sys; from pathlib import Path; from pairproxy.security.identity import load_or_create\n"
        "import cryptography.x509, cryptography.hazmat.primitives.asymmetric.ec\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "print(load_or_create(Path(sys.argv[1])).device_id)"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "home")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    answers = {child.communicate(timeout=30)[0].strip() for child in children}
    assert [child.returncode for child in children] == [0, 0, 0, 0]
    assert answers == {load_or_create(tmp_path / "home").device_id}


def test_the_short_id_is_two_groups_of_four() -> None:
    """People see the first eight characters as XXXX-XXXX."""
    assert short_id(NodeId("K7QF2M6A" + "B" * 44)) == "K7QF-2M6A"


def test_importing_does_not_import_cryptography() -> None:
    """Only making or reading a certificate imports cryptography."""
    program = "import sys, pairproxy.security.identity, pairproxy.security.trust, pairproxy.security.tls; "
    program += "sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == 0


def test_a_pair_that_was_found_good_is_not_checked_again(tmp_path: Path) -> None:
    """The next process needs no cryptography for it: 10 MB that a daemon would keep."""
    made = load_or_create(tmp_path / "home")
    program = "import sys, pathlib; from pairproxy.security.identity import load_or_create\n"
    program += "one = load_or_create(pathlib.Path(sys.argv[1]))\n"
    program += "print(one.device_id, one.certificate.hex(), 'cryptography' in sys.modules)"
    arguments = [sys.executable, "-c", program, str(tmp_path / "home")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == [made.device_id, made.certificate.hex(), "False"]


def test_what_is_remembered_of_a_pair_is_of_that_pair_only(tmp_path: Path) -> None:
    """Another certificate or key, or a memory that is damaged, is checked in full."""
    home, other = tmp_path / "home", tmp_path / "other"
    mine, theirs = load_or_create(home), load_or_create(other)
    for damaged in (b"", b"x", b"\xff" * 90, (other / "identity.checked").read_bytes()):
        (home / "identity.checked").write_bytes(damaged)
        assert load_or_create(home).device_id == mine.device_id
    (home / "cert.pem").write_bytes((other / "cert.pem").read_bytes())
    with pytest.raises(StoreError, match="does not belong"):
        load_or_create(home)
    (home / "key.pem").write_bytes((other / "key.pem").read_bytes())
    assert load_or_create(home).device_id == theirs.device_id
