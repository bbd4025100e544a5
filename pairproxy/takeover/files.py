"""Files that a step writes: read with all that must come back, put in place at once, as root if need be."""

import contextlib
import os
import stat
import sys
from pathlib import Path

import msgspec

from pairproxy.core.errors import SetupError
from pairproxy.takeover.running import CommandFailed, Runner

MOST_BYTES = 256 * 1024  # of a settings file; a unit's drop-in has a hundred, a plist a thousand


class FileTrouble(SetupError):
    """A file cannot be read, written or put back; the sentence says which and why."""


class FileState(msgspec.Struct, frozen=True):
    """A plain file as it was: everything that has to come back."""

    content: bytes
    mode: int  # permission bits
    uid: int | None = None  # None on Windows
    gid: int | None = None


def state_of(path: Path, runner: Runner) -> FileState | None:
    """The file as it is; None if there is none. Raises FileTrouble for what is no plain, readable file."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise FileTrouble(
                f"{path} is not a plain file, so pairproxy leaves it alone. Look at what it is."
            )
        if status.st_size > MOST_BYTES:
            raise FileTrouble(f"{path} is too large for a settings file, so pairproxy leaves it alone.")
        content = _content(path, runner)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileTrouble(f"{path} cannot be read: {error.strerror}.") from None
    ids = (None, None) if sys.platform == "win32" else (status.st_uid, status.st_gid)
    return FileState(content, stat.S_IMODE(status.st_mode), *ids)


def put(path: Path, state: FileState, runner: Runner, *, needs_root: bool) -> None:
    """Make the file be ``state``; readers see the old one or the new one.

    Raises FileTrouble, CommandFailed.
    """
    if needs_root and not runner.is_root:
        _put_by_sudo(path, state, runner)
        return
    new = _new(path)
    try:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(state.content)
            file.flush()
            os.fsync(file.fileno())
        if sys.platform != "win32" and state.uid is not None and state.gid is not None:
            os.chown(new, state.uid, state.gid)
        new.chmod(state.mode)
        new.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        raise FileTrouble(f"{path} cannot be written: {error.strerror}.") from None


def remove(path: Path, runner: Runner, *, needs_root: bool) -> None:
    """Remove the file, and what an interrupted put() left. Raises FileTrouble, CommandFailed."""
    if needs_root and not runner.is_root:
        runner.do(["rm", "-f", str(path), str(_new(path))], needs_root=True)
        return
    try:
        for one in (path, _new(path)):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                one.unlink()
    except OSError as error:
        raise FileTrouble(f"{path} cannot be removed: {error.strerror}. Remove it by hand.") from None


def sweep(path: Path, runner: Runner, *, needs_root: bool) -> None:
    """Remove what an interrupted put() of ``path`` left."""
    new = _new(path)
    if os.path.lexists(new):
        remove(new, runner, needs_root=needs_root)


def missing_directories(path: Path) -> tuple[str, ...]:
    """The directories above a file that are not there yet, outermost first."""
    missing = []
    for parent in path.parents:
        if parent.exists():
            break
        missing.append(str(parent))
    return tuple(reversed(missing))


def make_directory(path: Path, runner: Runner, *, needs_root: bool) -> None:
    """Make it (0755) if it is absent. Raises FileTrouble, CommandFailed."""
    if path.is_dir():
        return
    if needs_root and not runner.is_root:
        runner.do(["mkdir", "-m", "0755", str(path)], needs_root=True)
        return
    try:
        path.mkdir(mode=0o755)
    except OSError as error:
        raise FileTrouble(f"The directory {path} cannot be made: {error.strerror}.") from None


def remove_directory(path: Path, runner: Runner, *, needs_root: bool) -> bool:
    """Remove it if it is empty; False if somebody else put something there.

    Raises FileTrouble, CommandFailed.
    """
    if not path.is_dir():
        return True
    with contextlib.suppress(OSError):
        if any(path.iterdir()):
            return False
    if needs_root and not runner.is_root:
        runner.do(["rmdir", str(path)], needs_root=True)
        return True
    try:
        path.rmdir()
    except OSError as error:
        raise FileTrouble(f"The directory {path} cannot be removed: {error.strerror}.") from None
    return True


def _content(path: Path, runner: Runner) -> bytes:
    try:
        return path.read_bytes()
    except PermissionError:
        if runner.is_root:
            raise
        # Text only, which is what settings files are; bytes that are not would not survive the way back.
        return runner.do(["cat", str(path)], needs_root=True).out.encode()


def _put_by_sudo(path: Path, state: FileState, runner: Runner) -> None:
    """The same with the commands that a person would use, each of them seen by sudo's log."""
    new = str(_new(path))
    try:
        text = state.content.decode()
    except UnicodeDecodeError:
        raise FileTrouble(f"{path} is no text file, so it is not written. Put it back by hand.") from None
    try:
        runner.do(["tee", new], needs_root=True, text=text)
        runner.do(["chown", f"{state.uid or 0}:{state.gid or 0}", new], needs_root=True)
        runner.do(["chmod", f"{state.mode:04o}", new], needs_root=True)
        runner.do(["mv", "-f", new, str(path)], needs_root=True)
    except CommandFailed:
        with contextlib.suppress(CommandFailed):
            runner.run(["rm", "-f", new], needs_root=True)
        raise


def _new(path: Path) -> Path:
    """Where a file is written before it takes its place; no reader of settings looks at such a name."""
    return path.with_name(f".{path.name}.pairproxy-new")
