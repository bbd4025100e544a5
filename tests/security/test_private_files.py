import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.security import private_files
from pairproxy.security.private_files import (
    claim_private,
    ensure_private_directory,
    exclusive,
    read_private,
    remove_private,
    write_private,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes and owners")


@pytest.fixture(autouse=True)
def _wide_umask() -> Iterator[None]:
    old = os.umask(0)
    yield
    os.umask(old)


def mode_of(path: Path) -> int:
    """The permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_0600_before_its_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has mode 0600 when its first byte is written, whatever the umask."""
    modes: list[tuple[int, int]] = []
    write = os.write

    def watched(descriptor: int, content: bytes) -> int:
        status = os.fstat(descriptor)
        modes.append((stat.S_IMODE(status.st_mode), status.st_size))
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", watched)
    write_private(tmp_path / "key", b"secret")
    assert modes == [(0o600, 0)]
    assert mode_of(tmp_path / "key") == 0o600
    assert (tmp_path / "key").read_bytes() == b"secret"


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk leaves what was there before, complete, and no temporary file."""
    write_private(tmp_path / "key", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        write_private(tmp_path / "key", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    assert (tmp_path / "key").read_bytes() == b"old"


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is complete although the kernel takes three bytes at a time."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, content: write(fd, bytes(content[:3])))
    write_private(tmp_path / "key", b"0123456789")
    assert (tmp_path / "key").read_bytes() == b"0123456789"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660])
def test_a_loose_file_is_refused(tmp_path: Path, mode: int) -> None:
    """A file that others may read or write is refused, with the command that mends it."""
    write_private(tmp_path / "key", b"x")
    (tmp_path / "key").chmod(mode)
    with pytest.raises(StoreError, match="chmod 600"):
        read_private(tmp_path / "key", 10)


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o755, 0o710])
def test_a_loose_directory_is_refused(tmp_path: Path, mode: int) -> None:
    """A directory that others may look into is refused, with the command that mends it."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(mode)
    with pytest.raises(StoreError, match="chmod 700"):
        ensure_private_directory(home)


def test_a_new_directory_is_0700_with_its_parents_made(tmp_path: Path) -> None:
    """A missing home is made 0700, its parents as well."""
    ensure_private_directory(tmp_path / "a" / "home")
    assert mode_of(tmp_path / "a" / "home") == 0o700


def test_what_belongs_to_someone_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory or file of another user is refused even with tight modes."""
    home = tmp_path / "home"
    ensure_private_directory(home)
    write_private(home / "key", b"x")
    someone_else = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: someone_else)
    with pytest.raises(StoreError, match="another user"):
        ensure_private_directory(home)
    with pytest.raises(StoreError, match="another user"):
        read_private(home / "key", 10)


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    """A symbolic link, a FIFO and a directory in place of the file are refused, and none of them blocks."""
    write_private(tmp_path / "real", b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "directory").mkdir(mode=0o700)
    for name in ("link", "fifo", "directory"):
        with pytest.raises(StoreError):
            read_private(tmp_path / name, 10)


def test_reading_is_bounded_and_absence_is_no_error(tmp_path: Path) -> None:
    """A file of the limit is read, one byte more is refused, none is None; removing twice is fine."""
    write_private(tmp_path / "key", b"0123456789")
    assert read_private(tmp_path / "key", 10) == b"0123456789"
    with pytest.raises(StoreError, match="larger"):
        read_private(tmp_path / "key", 9)
    remove_private(tmp_path / "key")
    remove_private(tmp_path / "key")
    assert read_private(tmp_path / "key", 10) is None


def test_the_lock_is_held_against_others_and_ends_with_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second holder is refused after its tries; a killed holder's lock is free at once."""
    monkeypatch.setattr(private_files, "_LOCK_TRIES", 3)
    program = (
        "import sys; from pathlib import Path; from pairproxy.security.private_files import exclusive\n"
        "with exclusive(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match="Another pairproxy"), exclusive(tmp_path / "lock"):
            pytest.fail("the lock was held")
        holder.kill()
        holder.wait()
    with exclusive(tmp_path / "lock"):
        assert mode_of(tmp_path / "lock") == 0o600


def test_a_file_that_is_claimed_is_its_owners_alone(tmp_path: Path) -> None:
    """From birth; one that is there keeps what it holds."""
    path = tmp_path / "claimed"
    claim_private(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"something")
    claim_private(path)
    assert path.read_bytes() == b"something"


def test_what_is_no_plain_file_of_ones_own_is_not_claimed(tmp_path: Path) -> None:
    """Loose, a link, a directory, in a place that is not there."""
    (tmp_path / "loose").touch()
    (tmp_path / "loose").chmod(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "loose")
    (tmp_path / "directory").mkdir()
    for name in ("loose", "link", "directory", "nowhere/file"):
        with pytest.raises(StoreError):
            claim_private(tmp_path / name)
