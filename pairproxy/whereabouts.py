"""daemon.json in the home: how the commands find the running daemon. It is there exactly while one runs."""

import logging
from pathlib import Path
from typing import Any

import msgspec

from pairproxy.api.client import DAEMON_FILE
from pairproxy.api.schema import DaemonFile
from pairproxy.core.errors import StoreError
from pairproxy.security.private_files import write_private

_log = logging.getLogger(__name__)


class Whereabouts:
    """What is told of a daemon there, and kept up to date."""

    def __init__(self, home: Path) -> None:
        self._path = home / DAEMON_FILE
        self._file: DaemonFile | None = None
        self._written: DaemonFile | None = None

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
        self._written = file

    def change(self, **fields: Any) -> None:
        """Write it with other values in these fields, if it was told before.

        A disk that is full keeps no port closed: that is said in the log, and the next change writes it all.
        """
        if self._file is None:
            return
        file = msgspec.structs.replace(self._file, **fields)
        if file != self._written:
            try:
                self.tell(file)
            except StoreError as error:
                _log.error("commands may not find this daemon's ports: %s", error.sentence)

    def remove(self) -> None:
        """Nobody is here, or not any more."""
        self._file = self._written = None
        self._path.unlink(missing_ok=True)
