"""Whether a disk has room for a model."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from pairproxy.core.errors import CopyFailed

RESERVE_BYTES = 2 * 1024**3  # left free: for the system, swap and what else Ollama writes


def check_room(directory: Path, needed_bytes: int) -> None:
    """Raise CopyFailed where a model does not fit. ``directory`` need not be there or readable. Blocks."""
    free = _free_bytes(directory)
    if free is None or needed_bytes + RESERVE_BYTES <= free:
        return
    raise CopyFailed(
        f"The model needs {_gigabytes(needed_bytes)}, and {_gigabytes(free)} are free on the disk of Ollama's"
        f" models ({_gigabytes(RESERVE_BYTES)} are left free). Make room there, `ollama rm` a model for one."
    )


def begun_bytes(blobs: Path, digests: Iterable[str]) -> int:
    """What a try before this one left on the disk of these blobs, where that can be seen. Blocks."""
    found = 0
    for digest in digests:
        try:
            seen = (blobs / f"{digest.replace(':', '-')}-partial").stat()
        except OSError:
            continue
        found += getattr(seen, "st_blocks", 0) * 512  # it is sparse; Windows does not tell
    return found


def _free_bytes(directory: Path) -> int | None:
    for place in (directory, *directory.parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
