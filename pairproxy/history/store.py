"""The file itself: opened, brought to this version, written in whole batches. For one thread at a time."""

import contextlib
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import msgspec

from pairproxy import __version__
from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.history import schema
from pairproxy.history.changes import NodeChange
from pairproxy.history.keeping import KeptRun
from pairproxy.history.marks import Ended
from pairproxy.history.rows import COLUMNS, decision_row, lenient, row_of
from pairproxy.history.trimming import LOG_BYTES, RESERVE_BYTES, Trimming, files_of
from pairproxy.security.private_files import claim_private

FILE = "history.db"
BUSY_S = 2.0  # for another program that has the file locked; then the batch waits for the next try
BROKEN = ".broken"  # what is added to the name of a file that is moved aside; the last one is kept

TOGETHER = 32  # requests in one statement: between two the loop goes on, and SQLite takes 999 values at least

_encode = msgspec.json.Encoder().encode
_VALUES = ", ".join("?" * len(COLUMNS))
_INSERT = f"INSERT OR IGNORE INTO requests ({', '.join(COLUMNS)}) VALUES ({_VALUES})"  # noqa: S608 ours
# Python asks each None of a row whether it can adapt itself, by an AttributeError: a tenth of all it takes to
# write one. An adapter is not asked.
sqlite3.register_adapter(type(None), {None: None}.get)

_DECIDED = "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?)"
_INSERT_TOGETHER = f"{_INSERT}{f', ({_VALUES})' * (TOGETHER - 1)}"
_DECIDED_TOGETHER = f"{_DECIDED}{', (?, ?, ?)' * (TOGETHER - 1)}"
_RUN = (
    "run", "name", "started_s", "started_unix", "ended_unix", "summary", "report", "recording", "names",
)  # fmt: skip
_UPSERT = (
    f"INSERT INTO runs (number, life, {', '.join(_RUN)}) VALUES (?, ?, {', '.join('?' * len(_RUN))})"  # noqa: S608
    f" ON CONFLICT (number) DO UPDATE SET {', '.join(f'{one} = excluded.{one}' for one in _RUN)}"
)


class Newer(StoreError):
    """The file was written by a newer version, which may mean other things by it."""


class Broken(StoreError):
    """What is in the file is no database of ours any more."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is written together, or not at all. Numbers are those of this life; ``names`` of its nodes."""

    ended: Sequence[Ended] = ()
    joined: Mapping[int, int] = field(default_factory=dict)  # request -> run
    merged: Mapping[int, int] = field(default_factory=dict)  # run that is none any more -> run
    runs: Sequence[KeptRun] = ()
    changes: Sequence[NodeChange] = ()
    names: Mapping[str, str] = field(default_factory=dict)


class Store:
    """history.db of one home, for the daemon. Raises sqlite3.Error, StoreError and OSError throughout."""

    def __init__(self, path: Path, node: NodeId, started_unix: float) -> None:
        self.path = path
        self._node = node
        self._started_unix = started_unix
        self._connection: sqlite3.Connection | None = None
        self._life: int | None = None
        self._first = 0  # what is added to the numbers of this life

    @property
    def first(self) -> int:
        """What the numbers of this life begin after, in the file."""
        return self._first

    def open(self) -> sqlite3.Connection:
        """The database, of this version; made if there is none. Raises Newer."""
        if self._connection is None:
            connection = _connect(self.path)
            try:
                self._begin(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _begin(self, connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise Broken(f"{self.path} is damaged.")
        schema.upgrade(connection)
        Trimming(connection).leftovers()
        life, number = connection.execute(
            "SELECT (SELECT COALESCE(MAX(life), 0) FROM lives), MAX((SELECT COALESCE(MAX(number), 0)"
            " FROM requests), (SELECT COALESCE(MAX(number), 0) FROM runs))"
        ).fetchone()
        if self._life is None:
            self._life, self._first = life + 1, number
        connection.execute(
            "INSERT OR IGNORE INTO lives VALUES (?, ?, ?, ?)",
            (self._life, self._node, __version__, self._started_unix),
        )

    def write(self, batch: Batch) -> int:
        """Write it; returns how many of its requests could not be put into a row."""
        connection = self.open()
        self._shorten_log(connection)
        with schema.transaction(connection):
            return self._write(connection, batch)

    def _write(self, connection: sqlite3.Connection, batch: Batch) -> int:
        life, first = self._life or 0, self._first
        lost = 0
        for at in range(0, len(batch.ended), TOGETHER):
            lost += self._write_ended(connection, batch.ended[at : at + TOGETHER])
        for gone, run in batch.merged.items():
            connection.execute("UPDATE requests SET in_run = ? WHERE in_run = ?", (first + run, first + gone))
            connection.execute("DELETE FROM runs WHERE number = ?", (first + gone,))
        connection.executemany(
            "UPDATE requests SET in_run = ? WHERE number = ?",
            [(first + run, first + number) for number, run in batch.joined.items()],
        )
        for one in batch.runs:
            with contextlib.suppress(TypeError, ValueError, OverflowError):  # as above
                connection.execute(_UPSERT, _run_row(one, first, life, batch.names))
        for change in batch.changes:
            self._write_change(connection, change)
        return lost

    def _write_ended(self, connection: sqlite3.Connection, ended: Sequence[Ended]) -> int:
        """Write a few requests that ended; returns how many could not be put into a row."""
        rows, decisions = [], []
        life, first = self._life or 0, self._first
        for one in ended:
            number = first + one.number
            try:
                rows.append(row_of(number, life, one.ended_unix, one.record))
            except (TypeError, ValueError, OverflowError):  # what no row can hold must not stop the others
                continue
            decisions += [
                (number, attempt.number, decision_row(attempt.decision))
                for attempt in one.record.attempts
                if attempt.decision is not None
            ]
        if len(rows) == TOGETHER:
            connection.execute(_INSERT_TOGETHER, [*chain.from_iterable(rows)])
        else:
            connection.executemany(_INSERT, rows)
        if len(decisions) == TOGETHER:
            connection.execute(_DECIDED_TOGETHER, [*chain.from_iterable(decisions)])
        else:
            connection.executemany(_DECIDED, decisions)
        return len(ended) - len(rows)

    def _write_change(self, connection: sqlite3.Connection, change: NodeChange) -> None:
        what = change.what
        if (
            what == "up"
            and not connection.execute(
                "SELECT 1 FROM changes WHERE node = ? AND what IN ('new', 'up') LIMIT 1", (change.node,)
            ).fetchone()
        ):
            what = "new"
        detail = change.detail.encode(errors="replace").decode()
        connection.execute(  # a batch that nobody waited for any more may be written twice
            "INSERT INTO changes (at_unix, node, what, detail) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS"
            " (SELECT 1 FROM changes WHERE at_unix = ?1 AND node = ?2 AND what IN (?3, ?5) AND detail = ?4)",
            (change.at_unix, change.node, what, detail, "new" if change.what == "up" else what),
        )

    def trim(self, keep_days: int, keep_bytes: int, now_unix: float) -> None:
        """Keep the file within bounds."""
        trimming = Trimming(self.open())
        trimming.by_count()
        trimming.by_age(keep_days, now_unix)
        trimming.by_size(keep_bytes)

    def _shorten_log(self, connection: sqlite3.Connection) -> None:
        """Nothing is added while another program that reads for long keeps the log from being emptied."""
        log = files_of(self.path)[1]
        if log.exists() and log.stat().st_size > RESERVE_BYTES - LOG_BYTES:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if log.exists() and log.stat().st_size > RESERVE_BYTES - LOG_BYTES:
                raise StoreError(
                    f"Another program has been reading {self.path} for long. It is written on when that ends."
                )

    def close(self) -> None:
        """Give the file back."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def move_aside(self) -> Path:
        """Put a file that is broken elsewhere, for who may want to look; returns where. Raises OSError."""
        self.close()
        for file in files_of(self.path):
            with contextlib.suppress(FileNotFoundError):
                file.replace(file.with_name(f"{self.path.name}{BROKEN}{file.name[len(self.path.name) :]}"))
        return self.path.with_name(self.path.name + BROKEN)


def _connect(path: Path) -> sqlite3.Connection:
    claim_private(path)
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    connection.text_factory = lenient
    try:
        if schema.version_of(connection) > schema.VERSION:
            raise Newer(
                f"{path} was written by a newer pairproxy. History is off, and that file is left as it is: "
                "update pairproxy, or move it away, and start again."
            )
        for pragma in (
            "auto_vacuum = INCREMENTAL",  # before the first table: deleted pages can be given back
            "journal_mode = WAL",  # others read while we write
            "synchronous = NORMAL",  # nothing is lost by kill -9; the last second may be when the power fails
            f"wal_autocheckpoint = {LOG_BYTES // 4096}",
            f"journal_size_limit = {LOG_BYTES}",
            "cache_size = -512",  # KiB; its usual 2,000 save nothing where rows are only added
            "temp_store = MEMORY",
            "trusted_schema = OFF",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _run_row(one: KeptRun, first: int, life: int, names: Mapping[str, str]) -> tuple[object, ...]:
    report = None if one.report is None else _encode(one.report).decode()
    recording = None if one.recording is None else zlib.compress(_encode(one.recording))
    nodes = {place.node for record in one.run.records for place in (record.place,) if place}
    known = {node: name for node, name in names.items() if node in nodes or node in one.slots}
    return (
        first + one.number, life, one.run.id, one.run.name, one.started_at, one.started_unix, one.ended_unix,
        _encode(one.summary()).decode(), report, recording, _encode(known).decode(),
    )  # fmt: skip
