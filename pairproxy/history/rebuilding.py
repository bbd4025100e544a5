"""Runs that a killed daemon did not write are put together from their requests, at the next start."""

import sqlite3
from collections import Counter
from collections.abc import Iterator

import msgspec

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.history.keeping import Mark, RunBook, Settled
from pairproxy.history.rows import COLUMNS, record_of

MOST = 20_000  # requests of one life, the last ones: some 20 MB for a second; a kill leaves those of seconds


def rebuild(connection: sqlite3.Connection) -> Counter[str]:
    """Group what is in no run; returns how many requests and runs that were. Raises sqlite3.Error.

    No hash of a prompt is kept, so of an unnamed run with pauses beyond five seconds several may become.
    """
    made: Counter[str] = Counter()
    loose = connection.execute("SELECT DISTINCT life FROM requests WHERE in_run IS NULL AND origin IS NULL")
    for (life,) in loose.fetchall():
        found = _grouped(connection, life)
        _write(connection, life, found)
        made.update(requests=len(found.joined), runs=len(found.grown))
    return made


def _grouped(connection: sqlite3.Connection, life: int) -> Settled:
    rows = connection.execute(
        f"SELECT {', '.join(COLUMNS)}, in_run FROM requests WHERE life = ? AND origin IS NULL"  # noqa: S608 ours
        " ORDER BY number DESC LIMIT ?",
        (life, MOST),
    ).fetchall()
    records = list(_records(rows))
    book = RunBook({row[0]: row[-1] for row in rows if row[-1] is not None})
    for row in rows:
        book.note(row[COLUMNS.index("request")], Mark(row[0], row[COLUMNS.index("ended_unix")]))
    return book.settle(records, {}, 0.0)


def _records(rows: list[tuple[object, ...]]) -> Iterator[RequestRecord]:
    for row in rows:
        try:
            yield record_of(row[:-1])
        except (msgspec.MsgspecError, ValueError):  # of a version that knew other words
            continue


def _write(connection: sqlite3.Connection, life: int, found: Settled) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for gone, run in found.merged.items():
            connection.execute("UPDATE requests SET in_run = ? WHERE in_run = ?", (run, gone))
            connection.execute("DELETE FROM runs WHERE number = ?", (gone,))
        connection.executemany(
            "UPDATE requests SET in_run = ? WHERE number = ?",
            [(run, number) for number, run in found.joined.items()],
        )
        connection.executemany(
            "INSERT INTO runs (number, life, run, name, started_s, started_unix, ended_unix, summary, names)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, '{}') ON CONFLICT (number) DO UPDATE SET run = excluded.run,"
            " started_s = excluded.started_s, started_unix = excluded.started_unix,"
            " ended_unix = excluded.ended_unix, summary = excluded.summary",
            [
                (
                    one.number, life, one.run.id, one.run.name, one.started_at, one.started_unix,
                    one.ended_unix, msgspec.json.encode(one.summary()).decode(),
                )
                for one in found.grown
            ],
        )  # fmt: skip
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
