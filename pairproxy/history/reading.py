"""What history.db tells, read-only: for the daemon's own faces, and for commands when no daemon runs.

It is read in short transactions: who reads for long keeps the writer's log from being emptied.
"""

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from pairproxy.api.reports import report_of
from pairproxy.api.runs import RunSummary
from pairproxy.api.schema import Report
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.runs import SHORT_ID, Run
from pairproxy.core.errors import StoreError
from pairproxy.core.models import Decision, NodeId
from pairproxy.core.whatif.recording import Recording
from pairproxy.history import faults, schema
from pairproxy.history.changes import NodeChange
from pairproxy.history.rebuilding import without_speeds
from pairproxy.history.rows import COLUMNS, LATEST_UNIX, decision_of, lenient, record_of, summary_of

BUSY_S = 2.0  # for who writes
MOST_REQUESTS = 10_000  # of one run in one report: a dozen megabytes of JSON; the last ones
WHOLE_ID = 32  # characters of an id of ours
PAGE = 500  # rows that are read in one transaction

_RUN = "number, life, run, name, started_s, started_unix, summary, report, recording, names, requests_gone"
_SHORT = f"(name IS NULL AND length(?1) >= {SHORT_ID} AND substr(run, 1, length(?1)) = ?1)"  # as is_id()
_WANTED = f"(?1 IS NULL OR ?1 IN (name, run) OR {_SHORT})"
_CALLED = ("name = ?1", "run = ?1", _SHORT, "number IN (SELECT in_run FROM requests WHERE request = ?1)")
_RunRow = tuple[
    int, int, str, str | None, float, float, str, str | None, bytes | None, str, int
]  # of _RUN; SQLite holds to no types, and on a disk that rots it may be anything


class StoredRun(NamedTuple):
    """One run as it stands in the file."""

    number: int
    summary: RunSummary


class StoredRequest(NamedTuple):
    """One request as it stands in the file; ``run`` is the number of its run, None: a guest's."""

    number: int
    run: int | None
    ended_unix: float
    record: RequestRecord


class Past:
    """history.db of one home. Every method opens and closes it; all raise StoreError with a sentence."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def runs(self, since_unix: float, limit: int, name: str | None = None) -> list[StoredRun]:
        """Those that started then or later (of this name, or with this id), the latest first."""
        with self._opened() as connection:
            rows = connection.execute(
                f"SELECT number, summary FROM runs WHERE {_WANTED} AND started_unix >= ?2"  # noqa: S608 ours
                " ORDER BY started_unix DESC, number DESC LIMIT ?3",
                (name, since_unix, limit),
            ).fetchall()
        return [
            StoredRun(number, summary) for number, told in rows if (summary := summary_of(told)) is not None
        ]

    def node(self) -> NodeId:
        """Whose history it is."""
        with self._opened() as connection:
            row = connection.execute("SELECT node FROM lives ORDER BY life DESC LIMIT 1").fetchone()
        return NodeId(str(row[0]) if row else "")

    def names(self) -> dict[str, str]:
        """What each node was called last."""
        found: dict[str, str] = {}
        with self._opened() as connection:
            for (told,) in connection.execute("SELECT DISTINCT names FROM runs ORDER BY number"):
                found |= _names(told)
        return found

    def count(self, since_unix: float) -> int:
        """How many requests ended then or later."""
        with self._opened() as connection:
            row = connection.execute("SELECT COUNT(*) FROM requests WHERE ended_unix >= ?", (since_unix,))
            return int(row.fetchone()[0])

    def numbers(self, name: str) -> list[int]:
        """The numbers of the runs of this name, else with this id or request, the earliest first."""
        with self._opened() as connection:
            for where in _CALLED:
                statement = f"SELECT number FROM runs WHERE {where} ORDER BY number"  # noqa: S608 ours
                found = connection.execute(statement, (name,)).fetchall()
                if found:
                    return [number for (number,) in found]
        return []

    def report(self, name: str, *, with_recording: bool = False) -> Report | None:
        """The last run of this name, else with this id or request; None if there is none."""
        numbers = self.numbers(name)
        return self.report_of(numbers[-1], with_recording=with_recording) if numbers else None

    def report_of(self, run: int, *, with_recording: bool = False) -> Report | None:
        """The report of one run by its number; None if it is gone, or cannot be read."""
        with self._opened() as connection:
            row = connection.execute(f"SELECT {_RUN} FROM runs WHERE number = ?", (run,)).fetchone()  # noqa: S608
            if row is None:
                return None
            own = connection.execute("SELECT node FROM lives WHERE life = ?", (row[1],)).fetchone()
        try:
            _, _, id_, name, started_s, started_unix, summary, told, recording, names, gone = msgspec.convert(
                row, _RunRow
            )
        except msgspec.ValidationError:
            return None
        records = sorted(self.records(run, MOST_REQUESTS), key=lambda one: one.arrived_at)
        if not records:
            return None
        counted = summary_of(summary)
        found = Run(id_, name, tuple(records))
        return report_of(
            _report(found, told, len(records) if counted is None else counted.requests, gone),
            records,
            started_s,
            node=NodeId(str(own[0]) if own else ""),
            names=_names(names),
            started_unix=started_unix,
            recording=_recording(recording) if with_recording and recording else None,
        )

    def requests(self, since_unix: float, run: int | None = None) -> Iterator[StoredRequest]:
        """Requests that ended then or later, of one run or of all and of guests, the earliest end first."""
        where, values = ("ended_unix >= ?", [since_unix]) if run is None else ("in_run = ?", [run])
        for page in self._pages(where, values):
            yield from page

    def request(self, wanted: str | None) -> StoredRequest | None:
        """The request of this id, or the one whose id begins so; None: the last of this node's own.

        None if there is none, or several begin so.
        """
        where: str = "origin IS NULL"
        values: list[Any] = []
        if wanted is not None:
            where, values = "request = ?", [wanted]
            if len(wanted) < WHOLE_ID:
                where, values = "request >= ? AND request < ?", [wanted, f"{wanted}\U0010ffff"]
        for page in self._pages(where, values, is_backwards=True):
            return page[0] if page and (wanted is None or len({one.record.id for one in page}) == 1) else None
        return None

    def records(self, run: int, limit: int | None = None) -> list[RequestRecord]:
        """The requests of a run, the last ``limit`` of them, with their decisions as far as they are kept."""
        found: list[RequestRecord] = []
        for page in self._pages("in_run = ?", (run,), is_backwards=True):
            found += [one.record for one in page]
            if limit is not None and len(found) >= limit:
                return found[:limit]
        return found

    def _pages(
        self, where: str, values: Sequence[Any], *, is_backwards: bool = False
    ) -> Iterator[list[StoredRequest]]:
        """Requests by number, in pages; those whose run is about to go are left out."""
        where = f"({where}) AND (in_run IS NULL OR in_run IN (SELECT number FROM runs))"  # noqa: S608
        last, sign, order = (2**62, "<", "DESC") if is_backwards else (-1, ">", "ASC")
        statement = (
            f"SELECT {', '.join(COLUMNS)}, in_run FROM requests WHERE {where} AND number {sign} ?"  # noqa: S608 ours
            f" ORDER BY number {order} LIMIT {PAGE}"
        )
        while True:
            with self._opened() as connection:
                rows = connection.execute(statement, (*values, last)).fetchall()
                decided = _decisions(connection, [row[0] for row in rows])
            yield [
                StoredRequest(row[0], row[-1], row[COLUMNS.index("ended_unix")], record)
                for row in rows
                if (record := _record(row[:-1], decided.get(row[0], {}))) is not None
            ]
            if len(rows) < PAGE:
                return
            last = rows[-1][0]

    def changes(self, since_unix: float) -> list[NodeChange]:
        """What became of nodes since then, the earliest first."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT at_unix, node, what, detail FROM changes WHERE at_unix >= ? ORDER BY number",
                (since_unix,),
            ).fetchall()
        found = []
        for row in rows:
            with contextlib.suppress(msgspec.ValidationError):
                found.append(NodeChange(*msgspec.convert(row, tuple[float, NodeId, str, str])))
        return [change for change in found if 0.0 <= change.at_unix <= LATEST_UNIX]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            raise StoreError(
                f"There is no history in {self._path.parent} yet. It begins with the first request to a"
                " daemon: `pairproxy up`."
            )
        try:
            name = f"file:{quote(str(self._path))}?mode=ro"
            connection = sqlite3.connect(name, timeout=BUSY_S, isolation_level=None, uri=True)
            connection.text_factory = lenient
            try:
                _refuse_other_versions(schema.version_of(connection), self._path)
                yield connection
            finally:
                connection.close()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if faults.is_broken(error):
                raise StoreError(
                    f"{self._path} is damaged. The next `pairproxy up` moves it aside and begins a new one."
                ) from None
            raise StoreError(f"{self._path} cannot be read now. Try again in a moment.") from None


def _refuse_other_versions(version: int, path: Path) -> None:
    if version > schema.VERSION:
        raise StoreError(f"{path} was written by a newer pairproxy. Update this one to read it.")
    if version < schema.VERSION:
        raise StoreError(f"{path} was written by an older pairproxy. `pairproxy up` brings it up to date.")


def _record(row: Sequence[Any], decisions: dict[int, Decision]) -> RequestRecord | None:
    try:
        return record_of(row, decisions)
    except (msgspec.MsgspecError, ValueError):  # words that this version does not know
        return None


def _decisions(connection: sqlite3.Connection, numbers: list[int]) -> dict[int, dict[int, Decision]]:
    found: dict[int, dict[int, Decision]] = {}
    if numbers:
        rows = connection.execute(
            "SELECT number, attempt, decision FROM decisions WHERE number BETWEEN ? AND ?",
            (min(numbers), max(numbers)),
        )
        for number, attempt, told in rows:
            with contextlib.suppress(msgspec.MsgspecError, TypeError):
                found.setdefault(number, {})[attempt] = decision_of(told)
    return found


def _names(told: object) -> dict[str, str]:
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(told, type=dict[str, str]) if isinstance(told, str) else {}
    return {}


def _report(run: Run, told: str | None, requests: int, gone: int) -> RunReport:
    """The report as it was made; one of the requests that are there, without speeds, where none was."""
    if told is not None:
        with contextlib.suppress(msgspec.MsgspecError):
            report = msgspec.json.decode(told, type=RunReport)
            if report.requests == requests:
                return report
    report, notes = without_speeds(run), []
    if gone:
        notes.append(f"{gone} of its oldest requests were let go of, to keep within history.keep_bytes.")
    elif len(run.records) < requests:
        notes.append(f"Only the last {len(run.records)} of its {requests} requests are looked at.")
    return replace(report, notes=(*report.notes, *notes))


def _recording(told: bytes) -> Recording | None:
    with contextlib.suppress(msgspec.MsgspecError, zlib.error):
        return msgspec.json.decode(zlib.decompress(told), type=Recording)
    return None
