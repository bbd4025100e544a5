"""Peers that were forgotten, in ``home/forgotten.json``: kept so that they can be told why they get nothing.

A certificate in here is never believed, even if a peer's file with it lies there again: only pairing with
that machine anew takes it out (security.trust).
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.security.private_files import read_private, write_private

FILE = "forgotten.json"
MOST_FORGOTTEN = 256  # as many as there can be peers; the one forgotten longest ago becomes a mere stranger
_FILE_BYTES = 1024 * 1024  # four times what 256 of them take


class Forgotten(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine that was a peer. ``certificate`` is DER, base64 in the file."""

    node: NodeId
    name: str
    certificate: bytes


def read_forgotten(home: Path) -> tuple[Forgotten, ...]:
    """All of them, the one forgotten last at the end. Raises StoreError for a file that cannot be used."""
    file = home / FILE
    content = read_private(file, _FILE_BYTES)
    if content is None:
        return ()
    try:
        return msgspec.json.decode(content, type=tuple[Forgotten, ...])
    except (msgspec.DecodeError, RecursionError):
        raise StoreError(
            f"{file} is damaged. Remove it; machines that were forgotten are strangers then."
        ) from None


def write_forgotten(home: Path, ones: Iterable[Forgotten]) -> None:
    """Keep these and no others, MOST_FORGOTTEN at most. Raises StoreError; the old ones stay then."""
    kept = [*ones][-MOST_FORGOTTEN:]
    write_private(home / FILE, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
