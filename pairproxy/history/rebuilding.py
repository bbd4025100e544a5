"""Runs that a killed daemon did not write are put together from their requests, at the next start."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.report import RunReport, report_run
from pairproxy.core.accounting.runs import Run
from pairproxy.history.keeping import RunBook, Settled, told_by
from pairproxy.history.marks import LIMIT_MARKS, Mark
from pairproxy.history.rows import COLUMNS, record_of, summary_of
from pairproxy.history.schema import transaction

NO_SPEEDS = "Put together from its requests: the speeds of the nodes at that time are not known."
MOST_REPORTS = 20  # a kill leaves the last run or two without one; a file of an older version all
MOST = LIMIT_MARKS  # requests of one life, the last ones; a kill leaves those of seconds


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


def reckon(connection: sqlite3.Connection) -> int:
    """Make the reports that a killed daemon did not, of the last MOST_REPORTS such runs; returns how many.

    Without speeds, which nobody knows any more: it claims no speedup. Raises sqlite3.Error.
    """
    rows = connection.execute(
        "SELECT number, run, name, summary FROM runs WHERE report IS NULL AND requests_gone = 0"
        " ORDER BY number DESC LIMIT ?",
        (MOST_REPORTS,),
    ).fetchall()
    made = 0
    for number, run, name, told in rows:
        summary = summary_of(told)
        if summary is None or summary.requests > MOST:
            continue
        found = connection.execute(
            f"SELECT {', '.join(COLUMNS)} FROM requests WHERE in_run = ?",  # noqa: S608 ours
            (number,),
        ).fetchall()
        records = sorted((record for _, record in _records(found)), key=lambda one: one.arrived_at)
        if len(records) == summary.requests:
            report = without_speeds(Run(run, name, tuple(records)))
            connection.execute(
                "UPDATE runs SET report = ?, summary = ? WHERE number = ?",
                (_json(report), _json(told_by(summary, report)), number),
            )
            made += 1
    return made


def without_speeds(run: Run) -> RunReport:
    """What can be said of a run whose nodes' speeds nobody knows any more."""
    report = report_run(run, {}, None)
    return replace(report, notes=(*report.notes, NO_SPEEDS))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _grouped(connection: sqlite3.Connection, life: int) -> Settled:
    rows = connection.execute(
        f"SELECT {', '.join(COLUMNS)}, in_run FROM requests WHERE life = ? AND origin IS NULL"  # noqa: S608 ours
        " ORDER BY number DESC LIMIT ?",
        (life, MOST),
    ).fetchall()
    read = list(_records(rows))
    book = RunBook({row[0]: row[-1] for row, _ in read if isinstance(row[-1], int)})
    for row, record in read:
        book.marks.note(record.id, Mark(row[0], row[COLUMNS.index("ended_unix")]))
    return book.settle([record for _, record in read], {}, 0.0)


def _records(rows: list[tuple[Any, ...]]) -> Iterator[tuple[tuple[Any, ...], RequestRecord]]:
    """Each row that can be read, and its record."""
    for row in rows:
        try:
            yield row, record_of(row[: len(COLUMNS)])
        except (msgspec.MsgspecError, ValueError):  # of a version that knew other words, or damaged
            continue


def _write(connection: sqlite3.Connection, life: int, found: Settled) -> None:
    with transaction(connection):
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
                    one.ended_unix, _json(one.summary()),
                )
                for one in found.grown
            ],
        )  # fmt: skip
