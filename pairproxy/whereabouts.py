"""daemon.json in the home: how the commands find the running daemon. It is there exactly while one runs."""

from pathlib import Path
from typing import Any

import msgspec

from pairproxy.api.client import DAEMON_FILE
from pairproxy.api.schema import DaemonFile
from pairproxy.core.errors import StoreError
from pairproxy.security.private_files import write_private


class Whereabouts:
    """What is told of a daemon there, and kept up to date."""

    def __init__(self, home: Path) -> None:
        self._path = home / DAEMON_FILE
        self._file: DaemonFile | None = None

    @property
    def file(self) -> DaemonFile:
        """What is told now. Raises StoreError before the first time."""
        if self._file is None:
            raise StoreError("The daemon has not said yet where it is. Wait a moment.")
        return self._file

    def tell(self, file: DaemonFile) -> None:
        """Write it. Raises StoreError."""
        self._file = file
        write_private(self._path, msgspec.json.encode(file))

    def change(self, **fields: Any) -> None:
        """Write it with other values in these fields, if it was told before. Raises StoreError."""
        if self._file is None:
            return
        file = msgspec.structs.replace(self._file, **fields)
        if file != self._file:
            self.tell(file)

    def remove(self) -> None:
        """Nobody is here, or not any more."""
        self._file = None
        self._path.unlink(missing_ok=True)
