"""Files that only their owner may read: made so from birth, replaced atomically, refused when loose.

On Windows there are no POSIX modes: owner and mode are not checked there, and the lock takes the
``msvcrt`` branch below. Neither has been tried on Windows.
"""

import contextlib
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pairproxy.core.errors import StoreError

_HAS_POSIX_MODES = sys.platform != "win32"
_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_LOCK_TRIES = 200  # every 0.05 s: 10 s; whoever holds the lock needs milliseconds
_LOCK_PAUSE_S = 0.05
_LEFTOVER_S = 60.0  # since it was last written; whoever still writes it needs milliseconds
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")


def ensure_private_directory(path: Path) -> None:
    """Make ``path`` (0700) if it is absent. Raises StoreError if others may look into it or own it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        status = path.stat()
    except OSError as error:
        raise StoreError(f"The directory {path} cannot be used: {error.strerror}.") from None
    if not stat.S_ISDIR(status.st_mode):
        raise StoreError(f"{path} is not a directory. Move it away, or choose another home.")
    _refuse_loose(path, status, "700")


def read_private(path: Path, most_bytes: int) -> bytes | None:
    """Return the whole file, or None if there is none.

    Raises StoreError if it is not a plain file, larger than ``most_bytes``, or open to others.
    """
    try:
        # O_NONBLOCK: a FIFO put in our place must not hold the daemon's start.
        descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}. It must be a plain file that belongs to you."
        ) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"{path} is not a plain file. Move it away and start again.")
        _refuse_loose(path, status, "600")
        content = _read_up_to(descriptor, most_bytes + 1)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.") from None
    finally:
        os.close(descriptor)
    if len(content) > most_bytes:
        raise StoreError(f"{path} is larger than {most_bytes} bytes: not written by pairproxy. Move it away.")
    return content


def write_private(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path`` with mode 0600; readers see the old file or the new one, never a part.

    Raises StoreError when it cannot be written; what was there before stays.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        # The mode belongs to the creation: a chmod afterwards leaves a moment for others to open it.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS, 0o600)
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise StoreError(f"{path} cannot be written: {error.strerror}. Nothing was changed.") from None


def claim_private(path: Path) -> None:
    """See to it that ``path`` is a plain file that only its owner may read, empty if there was none.

    For who writes it by other means afterwards. Raises StoreError if it is something else, or open to others.
    """
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS, 0o600))
        status = path.lstat()
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}.") from None
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is not a plain file. Move it away and start again.")
    _refuse_loose(path, status, "600")


def sweep(directory: Path) -> None:
    """Remove what writers that were killed left in ``directory``; what cannot be removed stays."""
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            if _LEFTOVER.fullmatch(path.name):
                # A clock that was put back makes it look written in the future: that is long ago, too.
                with contextlib.suppress(OSError):
                    if abs(time.time() - path.lstat().st_mtime) >= _LEFTOVER_S:
                        path.unlink()


def remove_private(path: Path) -> None:
    """Remove the file for good; an absent one is fine. Raises StoreError if it stays."""
    try:
        path.unlink(missing_ok=True)
        _sync_directory(path.parent)
    except OSError as error:
        raise StoreError(f"{path} cannot be removed: {error.strerror}. Remove it by hand.") from None


@contextlib.contextmanager
def exclusive(path: Path, *, tries: int | None = None, refusal: str | None = None) -> Iterator[None]:
    """Hold the lock file ``path``: one process at a time. Tries every 0.05 s, ``tries`` times in all.

    Raises StoreError, with the sentence ``refusal`` if one is given, when another process keeps it. The
    lock is the kernel's, so it goes with its holder; the file itself stays and means nothing.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _OPEN_FLAGS, 0o600)
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}.") from None
    try:
        for _ in range(tries or _LOCK_TRIES):
            if _try_lock(descriptor):
                break
            time.sleep(_LOCK_PAUSE_S)
        else:
            usual = f"Another pairproxy holds {path}. Wait for it, or stop it, and start again."
            raise StoreError(refusal or usual)
        yield
    finally:
        os.close(descriptor)


def _read_up_to(descriptor: int, most_bytes: int) -> bytes:
    content = b""
    while len(content) < most_bytes and (part := os.read(descriptor, most_bytes - len(content))):
        content += part
    return content


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_directory(path: Path) -> None:
    if not _HAS_POSIX_MODES:
        return  # a directory cannot be opened there
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_loose(path: Path, status: os.stat_result, mode: str) -> None:
    if sys.platform == "win32":
        return
    if status.st_uid != os.geteuid():
        raise StoreError(f"{path} belongs to another user. Take it over with chown, or choose another home.")
    if status.st_mode & 0o077:
        raise StoreError(f"{path} is open to other users of this machine. Run: chmod {mode} '{path}'")


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        # Not tested: no Windows machine was at hand.
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise StoreError(f"The home directory's file system has no locks: {error.strerror}.") from None
        return True
