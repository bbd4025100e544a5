"""A log in a file of bounded size, for systems that keep no output of services: older parts beside it."""

import contextlib
import os
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING

from pairproxy.core.errors import SetupError

if TYPE_CHECKING:
    from typing_extensions import Buffer

MOST_BYTES = 10 * 1024 * 1024  # of each part: weeks of a usual log, and an editor opens it
KEPT = 2  # older parts: 30 MiB in all


class LogFile(RawIOBase):
    """Appends to ``path`` (only its owner may read it); what is full is renamed to path.1, .2, and so on."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        """Raises SetupError if it cannot be written."""
        super().__init__()
        self._path = path
        self._most_bytes = most_bytes
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = self._open()
        except OSError as error:
            raise SetupError(f"The log {path} cannot be written: {error.strerror}.") from None

    def write(self, data: "Buffer", /) -> int:
        """Write it whole or in part; returns how many bytes."""
        size = memoryview(data).nbytes
        if self._size and self._size + size > self._most_bytes:
            self._rotate()
        written = os.write(self._descriptor, data)
        self._size += written
        return written

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """Its descriptor, until it is full."""
        return self._descriptor

    def close(self) -> None:
        """Close it; again is fine."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        more = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(self._path, flags | more, 0o600)
        self._size = os.fstat(descriptor).st_size
        return descriptor

    def _rotate(self) -> None:
        os.close(self._descriptor)  # first: Windows renames no open file
        for number in range(KEPT, 0, -1):
            with contextlib.suppress(OSError):
                newer = self._path if number == 1 else older(self._path, number - 1)
                newer.replace(older(self._path, number))
        self._descriptor = self._open()


def older(path: Path, number: int) -> Path:
    """The name of an older part; 1 is the newest of them."""
    return path.with_name(f"{path.name}.{number}")
