import errno
import sqlite3
from pathlib import Path

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.history import faults

PATH = Path("/somewhere/history.db")


def sqlite_error(code: int) -> sqlite3.Error:
    """As SQLite raises it."""
    error = sqlite3.OperationalError("words of SQLite")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (sqlite_error(sqlite3.SQLITE_FULL), "The disk of /somewhere is full: history is not written."),
        (sqlite_error(sqlite3.SQLITE_IOERR_WRITE), "The disk of /somewhere fails"),
        (sqlite_error(sqlite3.SQLITE_READONLY_DIRECTORY), "may not be written"),
        (sqlite_error(sqlite3.SQLITE_CANTOPEN), "cannot be opened"),
        (sqlite_error(sqlite3.SQLITE_BUSY), "Another program has locked"),
        (sqlite3.OperationalError("no code"), "cannot be written"),
        (OSError(errno.EROFS, "Read-only file system"), "Read-only file system"),
        (StoreError("Our own sentence."), "Our own sentence."),
    ],
)
def test_each_fault_has_a_sentence_that_says_what_to_do(error: Exception, part: str) -> None:
    """None of SQLite's own words, which may name a statement."""
    told = faults.sentence(error, PATH)
    assert part in told
    assert "words of SQLite" not in told
    assert told.endswith(".")


def test_a_broken_file_is_told_from_a_broken_disk() -> None:
    """Only the first is moved aside."""
    assert faults.is_broken(sqlite_error(sqlite3.SQLITE_CORRUPT_INDEX))
    assert faults.is_broken(sqlite_error(sqlite3.SQLITE_NOTADB))
    assert not faults.is_broken(sqlite_error(sqlite3.SQLITE_FULL))
    assert not faults.is_broken(OSError(errno.EIO, "x"))
