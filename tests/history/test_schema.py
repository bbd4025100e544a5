import sqlite3
from pathlib import Path

import pytest

from pairproxy.history import schema
from pairproxy.history.reading import Past
from pairproxy.history.rebuilding import rebuild, reckon
from pairproxy.history.store import FILE, Store
from tests.core.accounting.conversation import A

DATA = Path(__file__).parent.parent / "data"


def dumped(version: int, path: Path) -> Path:
    """A file of this version, as one was written in its time."""
    connection = sqlite3.connect(path / FILE)
    connection.executescript((DATA / f"history-v{version}.sql").read_text())
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    (path / FILE).chmod(0o600)
    return path / FILE


def shape(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Every table with its columns, every index with its columns."""
    names = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    return {
        f"{kind} {name}": [
            row[2 if kind == "index" else 1] for row in connection.execute(f"PRAGMA {kind}_info({name})")
        ]
        for kind, name in names.fetchall()
    }


def test_there_is_a_file_of_every_older_version() -> None:
    """Who adds a step adds what the step before it wrote."""
    assert {path.name for path in DATA.glob("history-v*.sql")} == {
        f"history-v{version}.sql" for version in range(1, schema.VERSION)
    }


@pytest.mark.parametrize("version", range(1, schema.VERSION))
def test_an_older_file_becomes_one_of_this_version(version: int, tmp_path: Path) -> None:
    """The same tables as a new one has, with all requests in them, now in their runs."""
    path = dumped(version, tmp_path)
    before = sqlite3.connect(path)
    requests = before.execute("SELECT request, attempts FROM requests ORDER BY number").fetchall()
    before.close()
    assert len(requests) == 9

    store = Store(path, A, 0.0)
    connection = store.open()
    rebuild(connection)
    reckon(connection)
    new = sqlite3.connect(":memory:")
    schema.upgrade(new)
    assert shape(connection) == shape(new)
    assert schema.version_of(connection) == schema.VERSION
    told = connection.execute("SELECT request, attempts FROM requests ORDER BY number").fetchall()
    assert told == requests
    store.close()

    runs = {one.summary.run: one.summary for one in Past(path).runs(0.0, 99)}
    assert {name: run.requests for name, run in runs.items()} == {"nightly": 5, "alone": 1}
    report = Past(path).report("nightly")
    assert report is not None
    assert report.run is not None
    assert report.run.efficiency == runs["nightly"].efficiency is not None


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps or none."""
    path = dumped(1, tmp_path)
    connection = sqlite3.connect(path, isolation_level=None)
    before = shape(connection)
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS[:-1], (*schema.STEPS[-1], "CREATE NONSENSE")))
    with pytest.raises(sqlite3.Error):
        schema.upgrade(connection)
    assert shape(connection) == before
    assert schema.version_of(connection) == 1


def test_a_file_of_this_version_is_left_alone() -> None:
    """A second time there is nothing to do."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.upgrade(connection)
    changes = connection.total_changes
    schema.upgrade(connection)
    assert connection.total_changes == changes
