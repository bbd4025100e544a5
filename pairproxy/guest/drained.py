"""That a person wants this node to take nothing of others (`pairproxy drain`), kept over a restart.

Wall-clock times: "for two hours" means the person's hours, also where the machine slept or was off.
"""

from pathlib import Path

import msgspec

from pairproxy.core.errors import StoreError
from pairproxy.security.private_files import read_private, remove_private, write_private

FILE = "drained.json"  # in the home directory
MOST_BYTES = 4096  # of it; two numbers


class Drained(msgspec.Struct, frozen=True):
    """Since when, and until when (None: until somebody says resume), in seconds of the epoch."""

    since_unix: float
    until_unix: float | None = None


def read(home: Path, now_unix: float) -> Drained | None:
    """What was wanted when the daemon ended; None: nothing of the kind. Blocks.

    A file that cannot be read stands for a wish without an end: it was there.
    """
    try:
        content = read_private(home / FILE, MOST_BYTES)
        if content is None:
            return None
        return msgspec.json.decode(content, type=Drained)
    except (StoreError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Drained(now_unix)


def keep(home: Path, drained: Drained | None) -> None:
    """Write it down, or that it is over. Blocks. Raises StoreError."""
    if drained is None:
        remove_private(home / FILE)
    else:
        write_private(home / FILE, msgspec.json.encode(drained))
