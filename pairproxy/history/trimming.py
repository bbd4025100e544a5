"""What goes when there is too much: the oldest first, runs whole, a run that is too large by itself in parts.

A run is gone the moment its row is; its requests follow in pieces, so that no transaction is long and the
write-ahead log stays short. What a crash leaves of them goes at the next start.
"""

import sqlite3
from pathlib import Path

from pairproxy.history.schema import transaction

DAY_S = 86_400.0
LOG_BYTES = 1024 * 1024  # the write-ahead log is taken into the file at this size, and shortened to it
RESERVE_BYTES = 4 * 1024 * 1024  # of keep_bytes: for the log with the largest transaction, and its index
FULL_PART, TRIMMED_PART = 0.95, 0.85  # of what is left: at the first it is trimmed, down to the second
CHANGES_PART = 0.125  # of it for what became of nodes, which its peers say: runs are not to go for that
PIECE = 500  # requests that go in one transaction: half a megabyte of pages
PAGES = 256  # that are given back to the disk in one transaction
LIMIT_DECISIONS = 4096  # requests, the last ones: of these it can be told why they ran where they did
LIMIT_CHANGES = 10_000  # of nodes; years of one person's machines
NEXT_TO = ("", "-wal", "-shm")  # SQLite's three files


def files_of(path: Path) -> list[Path]:
    """The file and the two that SQLite keeps beside it."""
    return [path.with_name(path.name + ending) for ending in NEXT_TO]


def size_of(path: Path) -> int:
    """Bytes of all three."""
    return sum(file.stat().st_size for file in files_of(path) if file.exists())


class Trimming:
    """Keeps an open database within bounds. All methods raise sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def by_age(self, keep_days: int, now_unix: float) -> None:
        """Let go of what ended more than so many days ago."""
        before = now_unix - keep_days * DAY_S
        while (run := self._one("SELECT number FROM runs WHERE ended_unix < ? LIMIT 1", before)) is not None:
            self._drop(run)
        self._pieces("in_run IS NULL AND ended_unix < ?", before)
        self._connection.execute("DELETE FROM changes WHERE at_unix < ?", (before,))

    def by_count(self) -> None:
        """Let go of the oldest decisions and changes."""
        for table, limit in (("decisions", LIMIT_DECISIONS), ("changes", LIMIT_CHANGES)):
            last = self._one(f"SELECT MAX(number) FROM {table}") or 0  # noqa: S608 ours
            self._connection.execute(f"DELETE FROM {table} WHERE number <= ?", (last - limit,))  # noqa: S608

    def by_size(self, keep_bytes: int) -> None:
        """Let go of the oldest runs until all files together take up no more than ``keep_bytes``."""
        room = max(keep_bytes - RESERVE_BYTES, 0)
        self._changes_within(int(room * CHANGES_PART))
        if self._used() > room * FULL_PART:
            while self._used() > room * TRIMMED_PART and self._drop_oldest():
                pass
        while self._pragma("page_count") * self._pragma("page_size") > room and self._pragma(
            "freelist_count"
        ):
            before = self._pragma("page_count")
            self._connection.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
            if self._pragma("page_count") >= before:  # a file that was not made by us
                break

    def _changes_within(self, room: int) -> None:
        self._connection.execute(
            "DELETE FROM changes WHERE number IN (SELECT number FROM (SELECT number, SUM(64 + LENGTH(node)"
            " + LENGTH(CAST(detail AS BLOB))) OVER (ORDER BY number DESC) AS bytes FROM changes)"
            " WHERE bytes > ?)",
            (room,),
        )

    def leftovers(self) -> None:
        """Finish what a crash interrupted, and forget lives of which nothing is left but the last."""
        gone = "in_run IS NOT NULL AND in_run NOT IN (SELECT number FROM runs)"
        self._pieces(gone)
        self._connection.execute(
            "DELETE FROM lives WHERE life NOT IN (SELECT life FROM requests) AND life NOT IN"
            " (SELECT life FROM runs) AND life < (SELECT MAX(life) FROM lives)"
        )

    def _drop_oldest(self) -> bool:
        """Let go of the oldest run, or of guests' requests that are older; False: there is nothing."""
        run = self._one("SELECT MIN(number) FROM runs")
        alone = self._one("SELECT MIN(number) FROM requests WHERE in_run IS NULL")
        if run is None and alone is None:
            return False
        if run is None or (alone is not None and alone < run):
            self._piece("in_run IS NULL AND number < ?", run if run is not None else 2**62)
        elif self._one("SELECT COUNT(*) FROM runs") == 1:
            return self._shorten(run)
        else:
            self._drop(run)
        return True

    def _drop(self, run: int) -> None:
        self._connection.execute("DELETE FROM runs WHERE number = ?", (run,))
        self._pieces("in_run = ?", run)

    def _shorten(self, run: int) -> bool:
        """Let go of the oldest requests of the only run, and say how many; never of its row."""
        gone = self._piece("in_run = ?", run)
        self._connection.execute(
            "UPDATE runs SET requests_gone = requests_gone + ?, recording = NULL WHERE number = ?",
            (gone, run),
        )
        return gone > 0

    def _pieces(self, where: str, *values: float) -> None:
        while self._piece(where, *values) == PIECE:
            pass

    def _piece(self, where: str, *values: float) -> int:
        """Remove the oldest requests of a kind, and their decisions; returns how many."""
        found = self._connection.execute(
            f"SELECT number FROM requests WHERE {where} ORDER BY number LIMIT {PIECE}",  # noqa: S608 ours
            values,
        ).fetchall()
        if found:
            with transaction(self._connection):
                self._connection.executemany("DELETE FROM decisions WHERE number = ?", found)
                self._connection.executemany("DELETE FROM requests WHERE number = ?", found)
        return len(found)

    def _used(self) -> int:
        return (self._pragma("page_count") - self._pragma("freelist_count")) * self._pragma("page_size")

    def _pragma(self, name: str) -> int:
        return self._one(f"PRAGMA {name}") or 0

    def _one(self, statement: str, *values: float) -> int | None:
        row = self._connection.execute(statement, values).fetchone()
        return None if row is None or row[0] is None else int(row[0])
