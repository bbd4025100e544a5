import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.history import trimming
from pairproxy.history.changes import NodeChange
from pairproxy.history.reading import Past
from pairproxy.history.store import FILE, Batch, Store
from pairproxy.history.trimming import DAY_S, RESERVE_BYTES, Trimming, size_of
from tests.core.accounting.conversation import A, B, served
from tests.history.kept import EPOCH, grouped

KEEP = 5 * 1024 * 1024  # one mebibyte beside SQLite's reserve


def job(name: str, count: int, start: float, **facts: object) -> list[RequestRecord]:
    """Requests of one run; each row is a kilobyte."""
    return [
        served(f"{name}{one}", start, start, start + 1.0, run=name, error="x" * 700, **facts)  # type: ignore[arg-type]
        for one in range(count)
    ]


def filled(path: Path, *runs: list[RequestRecord]) -> Store:
    """A file with these runs, each written for itself."""
    store = Store(path / FILE, A, EPOCH)
    records = [one for run in runs for one in run]
    batch = grouped(records)
    for at in range(0, len(records), 500):
        store.write(Batch(batch.ended[at : at + 500]))
    store.write(Batch((), batch.joined, batch.merged, batch.runs))
    return store


def kept(path: Path) -> dict[str, int]:
    """The runs that are there, with the requests that are there of them."""
    requests = Counter(one.run for one in Past(path).requests(0.0))
    return {one.summary.run: requests[one.number] for one in Past(path).runs(0.0, 999)}


def test_the_oldest_runs_go_whole(tmp_path: Path) -> None:
    """Until it fits; the youngest are all there."""
    store = filled(tmp_path, *(job(f"run{one}", 200, one * 10.0) for one in range(10)))
    store.trim(90, KEEP, EPOCH)
    left = kept(store.path)
    assert 2 <= len(left) <= 6
    assert set(left) == {f"run{one}" for one in range(10 - len(left), 10)}
    assert set(left.values()) == {200}
    store.close()
    assert size_of(store.path) <= KEEP


def test_a_run_that_is_too_large_by_itself_loses_its_oldest_requests(tmp_path: Path) -> None:
    """And says how many."""
    store = filled(tmp_path, job("run", 3000, 0.0))
    store.trim(90, KEEP, EPOCH)
    left = kept(store.path)["run"]
    assert 500 <= left < 3000
    assert size_of(store.path) <= KEEP
    report = Past(store.path).report("run")
    assert report is not None
    assert report.run is not None
    assert len(report.records) == left
    assert f"{3000 - left} of its oldest requests were let go of" in report.run.notes[-1]
    (run,) = Past(store.path).runs(0.0, 9)
    assert run.summary.requests == 3000


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    """Runs, requests of guests, changes: what ended so many days ago."""
    guests = [served(f"g{one}", one * DAY_S, one * DAY_S, one * DAY_S + 1.0, origin=B) for one in range(4)]
    store = filled(tmp_path, *(job(f"run{one}", 3, one * DAY_S) for one in range(4)), guests)
    store.write(Batch(changes=[NodeChange(EPOCH + one * DAY_S, B, "down") for one in range(4)]))
    store.trim(2, 10**9, EPOCH + 3 * DAY_S + 60.0)
    assert kept(store.path) == {"run2": 3, "run3": 3}
    ids = [one.record.id for one in Past(store.path).requests(0.0) if one.run is None]
    assert ids == ["g2", "g3"]
    assert len(Past(store.path).changes(0.0)) == 2


def test_the_oldest_decisions_and_changes_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their number."""
    monkeypatch.setattr(trimming, "LIMIT_DECISIONS", 3)
    monkeypatch.setattr(trimming, "LIMIT_CHANGES", 2)
    store = filled(tmp_path, job("run", 1, 0.0))
    connection = store.open()
    connection.executemany("INSERT INTO decisions VALUES (?, 1, '[]')", [(one,) for one in range(1, 9)])
    store.write(Batch(changes=[NodeChange(EPOCH + one, B, "up") for one in range(5)]))
    store.trim(90, 10**9, EPOCH)
    assert connection.execute("SELECT MIN(number), COUNT(*) FROM decisions").fetchone() == (6, 3)
    assert [one.at_unix - EPOCH for one in Past(store.path).changes(0.0)] == [3.0, 4.0]


def test_what_peers_say_pushes_out_no_run(tmp_path: Path) -> None:
    """What became of nodes has a part of the file, and the oldest of it goes."""
    store = filled(tmp_path, *(job(f"run{one}", 100, one * 10.0) for one in range(5)))
    store.write(Batch(changes=[NodeChange(EPOCH + at, B, "models", "x" * 9000) for at in range(900)]))
    store.trim(90, KEEP, EPOCH)
    assert len(kept(store.path)) == 5
    changes = Past(store.path).changes(0.0)
    assert changes[-1].at_unix == EPOCH + 899
    assert len(changes) * 9000 <= KEEP - RESERVE_BYTES
    store.close()
    assert size_of(store.path) <= KEEP


def test_a_crash_in_the_middle_leaves_no_half_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is gone with its row; what is left of its requests is shown to nobody and goes at the start."""
    monkeypatch.setattr(trimming, "PIECE", 50)
    store = filled(tmp_path, job("old", 200, 0.0), job("new", 100, 10.0))
    dropping = Trimming(store.open())
    dropping._connection.execute("DELETE FROM runs WHERE run = 'old'")
    dropping._piece("in_run = 1")
    store.close()
    assert kept(store.path) == {"new": 100}
    assert len(list(Past(store.path).requests(0.0))) == 100
    connection = Store(store.path, A, EPOCH).open()
    assert connection.execute("SELECT COUNT(*) FROM requests").fetchone() == (100,)


def test_a_bound_that_was_lowered_gives_the_disk_back(tmp_path: Path) -> None:
    """Pages that are empty leave the file."""
    store = filled(tmp_path, *(job(f"run{one}", 500, one * 10.0) for one in range(12)))
    store.close()
    before = size_of(store.path)
    store.trim(90, KEEP, EPOCH)
    store.close()
    assert size_of(store.path) <= KEEP < before
    assert sqlite3.connect(store.path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


@settings(max_examples=20)
@given(st.lists(st.integers(1, 300), min_size=2, max_size=8), st.integers(100_000, 1_000_000))
def test_no_run_is_ever_there_by_half(sizes: list[int], room: int) -> None:
    """Whatever the bound, those that are there are whole, and the youngest of all."""
    store = Store(Path(":memory:"), A, EPOCH)
    store._connection = connection = sqlite3.connect(":memory:", isolation_level=None)
    store._begin(connection)
    batch = grouped([one for at, size in enumerate(sizes) for one in job(f"run{at}", size, at * 10.0)])
    store._write(connection, batch)
    Trimming(connection).by_size(room + RESERVE_BYTES)
    left = connection.execute(
        "SELECT run, (SELECT COUNT(*) FROM requests WHERE in_run = runs.number) FROM runs ORDER BY number"
    ).fetchall()
    assert left
    assert [name for name, _ in left] == [f"run{at}" for at in range(len(sizes) - len(left), len(sizes))]
    if len(left) > 1:
        assert [count for _, count in left] == sizes[-len(left) :]
    assert connection.execute("SELECT COUNT(*) FROM requests").fetchone() == (sum(c for _, c in left),)
