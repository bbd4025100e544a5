"""Why history is not written, in a sentence; and whether the file itself is at fault."""

import sqlite3
from pathlib import Path

from pairproxy.core.errors import StoreError

CAUGHT = (sqlite3.Error, StoreError, OSError, UnicodeDecodeError)
"""What a file and its disk do to who uses it; the last is sqlite3's own, of a schema that is damaged."""

_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SENTENCES = {
    sqlite3.SQLITE_FULL: "The disk of {directory} is full: history is not written. Free some space",
    sqlite3.SQLITE_READONLY: "{path} may not be written: history is off. Give its owner the right to write",
    sqlite3.SQLITE_CANTOPEN: "{path} cannot be opened: history is off. Let its owner use {directory}",
    sqlite3.SQLITE_IOERR: "The disk of {directory} fails: history is not written. See to that disk",
    sqlite3.SQLITE_BUSY: "Another program has locked {path}: history is not written. Close that program",
    sqlite3.SQLITE_LOCKED: "Another program has locked {path}: history is not written. Close that program",
    sqlite3.SQLITE_NOMEM: "There is no memory left to write history with. Close other programs",
}
_OTHER = "{path} cannot be written: history is off. Move that file away if it stays so"


def is_broken(error: Exception) -> bool:
    """Whether the file holds no database that SQLite can use."""
    if isinstance(error, UnicodeDecodeError):
        return True
    return isinstance(error, sqlite3.Error) and _code(error) in _BROKEN


def sentence(error: Exception, path: Path) -> str:
    """What is wrong and what to do; it goes on by itself when that is done."""
    told = str(error)
    if isinstance(error, sqlite3.Error):
        told = _SENTENCES.get(_code(error), _OTHER).format(path=path, directory=path.parent)
        return f"{told}; it goes on by itself then."
    if isinstance(error, OSError):
        return f"{path} cannot be written: {error.strerror}. History goes on by itself when it can be."
    return told  # an error of ours is a sentence


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # without what extends it
