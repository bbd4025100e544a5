"""The undo record: which engines were moved, and every step that was begun, on disk before it was done.

It is `takeover.json` in the home, readable by its owner only. Whatever ends a takeover in the middle, this
tells `pairproxy release` how to put everything back.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pairproxy.config import EngineKind
from pairproxy.core.errors import StoreError
from pairproxy.security.private_files import (
    ensure_private_directory,
    exclusive,
    read_private,
    remove_private,
    write_private,
)
from pairproxy.takeover.steps import Step

RECORD_FILE = "takeover.json"
LOCK_FILE = "takeover.lock"  # held while an engine is moved; empty, and means nothing when nobody holds it
MOST_BYTES = 4 * 1024 * 1024  # a dozen steps for each of two engines, with files of 256 KiB at most
VERSION = 1  # of the shape of this file


class Taken(msgspec.Struct, frozen=True):
    """One engine's takeover."""

    kind: EngineKind
    usual: int  # its port before, and the front's now
    moved: int  # its private port
    mover: str
    owner: str  # who had the port, for a person
    steps: tuple[Step, ...]
    begun: int = 0  # that many steps may have been done
    is_done: bool = False  # all of them were, and a test request through the port came back
    is_for_one_run: bool = False  # put back when the daemon ends: `pairproxy up --takeover`
    facts: dict[str, str] = {}  # of the engine as it was, for the front: {"cors": "true"}
    at_unix: float = 0.0  # seconds of the epoch, when it began

    @property
    def needs_root(self) -> bool:
        """Whether a step does, and so its undoing."""
        return any(step.needs_root for step in self.steps[: self.begun])


class Record(msgspec.Struct, frozen=True):
    """All of them."""

    taken: tuple[Taken, ...] = ()
    version: int = VERSION

    def of(self, kind: str) -> Taken | None:
        """The takeover of the engine of a kind; None if there is none."""
        return next((one for one in self.taken if one.kind == kind), None)

    def with_(self, one: Taken) -> "Record":
        """This record with ``one`` in place of what there was of its kind."""
        return Record((*self.without(one.kind).taken, one))

    def without(self, kind: str) -> "Record":
        """This record without the engine of a kind."""
        return Record(tuple(one for one in self.taken if one.kind != kind))


class _Version(msgspec.Struct):
    version: int = VERSION


def read(home: Path) -> Record:
    """The record of a home, empty if there is none. Raises StoreError if it cannot be used."""
    path = home / RECORD_FILE
    told = read_private(path, MOST_BYTES)
    if told is None:
        return Record()
    try:
        if msgspec.json.decode(told, type=_Version).version > VERSION:
            raise StoreError(f"{path} was written by a newer pairproxy. Use that one to release the ports.")
        return msgspec.json.decode(told, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise StoreError(
            f"{path} cannot be read as an undo record, and nothing was changed. It is JSON: what was done "
            "stands under `steps`, to be undone by hand. Then move the file away."
        ) from None


def write(home: Path, record: Record) -> None:
    """Keep it; one of nothing is removed. Raises StoreError."""
    if not record.taken:
        remove_private(home / RECORD_FILE)
        return
    ensure_private_directory(home)
    write_private(home / RECORD_FILE, msgspec.json.format(msgspec.json.encode(record), indent=1))


@contextlib.contextmanager
def alone(home: Path) -> Iterator[None]:
    """Be the only one who moves engines for this home. Raises StoreError at once if another does."""
    ensure_private_directory(home)
    refusal = "Another pairproxy is moving an engine just now. Wait for it to end, and run this again."
    with exclusive(home / LOCK_FILE, tries=1, refusal=refusal):
        yield
