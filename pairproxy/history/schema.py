"""The tables of history.db, as steps: a file of version N gets all steps after the N-th, or none of them.

Times that end in ``_s`` are on the monotonic clock of one life of the daemon, so that no jump of the wall
clock touches a duration; those in ``_unix`` are what the wall clock said then, to tell a person.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

APPLICATION = 0x70_61_69_72  # "pair": in the header of the file, for who asks what it is

_REQUESTS = """
CREATE TABLE lives (life INTEGER PRIMARY KEY, node TEXT NOT NULL, version TEXT NOT NULL,
  started_unix REAL NOT NULL);
CREATE TABLE requests (number INTEGER PRIMARY KEY, life INTEGER NOT NULL, request TEXT NOT NULL,
  model TEXT NOT NULL, dialect TEXT NOT NULL, path TEXT NOT NULL, client TEXT NOT NULL, run TEXT,
  chain TEXT NOT NULL, origin TEXT, arrived_s REAL NOT NULL, ended_s REAL NOT NULL, ended_unix REAL NOT NULL,
  outcome TEXT NOT NULL, estimated_tokens INTEGER NOT NULL, max_output_tokens INTEGER,
  is_streaming INTEGER NOT NULL, error TEXT NOT NULL, usage TEXT NOT NULL, attempts TEXT NOT NULL)
"""
# requests.in_run is runs.number; NULL: of a guest, or not grouped yet. A request whose run is not there any
# more is about to go (trimming).
_RUNS = """
ALTER TABLE requests ADD COLUMN in_run INTEGER;
CREATE INDEX requests_in_run ON requests (in_run);
CREATE TABLE runs (number INTEGER PRIMARY KEY, life INTEGER NOT NULL, run TEXT NOT NULL, name TEXT,
  started_s REAL NOT NULL, started_unix REAL NOT NULL, ended_unix REAL NOT NULL, summary TEXT NOT NULL,
  report TEXT, recording BLOB, names TEXT NOT NULL, requests_gone INTEGER NOT NULL DEFAULT 0);
CREATE INDEX runs_started ON runs (started_unix);
CREATE TABLE decisions (number INTEGER NOT NULL, attempt INTEGER NOT NULL, decision TEXT NOT NULL,
  PRIMARY KEY (number, attempt)) WITHOUT ROWID;
CREATE TABLE changes (number INTEGER PRIMARY KEY, at_unix REAL NOT NULL, node TEXT NOT NULL,
  what TEXT NOT NULL, detail TEXT NOT NULL)
"""
STEPS = tuple(tuple(step.split(";")) for step in (_REQUESTS, _RUNS))
VERSION = len(STEPS)


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a file; 0: it is new. Raises sqlite3.Error."""
    found = connection.execute("PRAGMA user_version").fetchone()
    return int(found[0])


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is written in the block, or none of it. Raises sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def upgrade(connection: sqlite3.Connection) -> None:
    """Bring an older file to VERSION, or none of it: it is all in one transaction. Raises sqlite3.Error."""
    version = version_of(connection)
    if version >= VERSION:
        return
    with transaction(connection):
        for statement in (one for step in STEPS[version:] for one in step):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
