import sqlite3
import stat
from collections import deque
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.history import schema
from pairproxy.history.changes import NodeChange
from pairproxy.history.marks import Ended
from pairproxy.history.reading import Past
from pairproxy.history.store import FILE, TOGETHER, Batch, Broken, Newer, Store
from pairproxy.history.trimming import LOG_BYTES, RESERVE_BYTES, files_of
from tests.core.accounting.conversation import A, B, dispatch, served
from tests.history.kept import EPOCH, NAMES, grouped


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A new file."""
    return Store(tmp_path / FILE, A, EPOCH)


def test_only_the_owner_may_read_it(store: Store) -> None:
    """All three files, from birth."""
    store.write(grouped([served("r", 0.0, 0.0, 1.0)]))
    files = files_of(store.path)
    assert all(file.exists() for file in files)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize("mode", [0o644, 0o660])
def test_a_file_that_others_may_read_is_refused(store: Store, mode: int) -> None:
    """As every other file of the home directory."""
    store.path.touch()
    store.path.chmod(mode)
    with pytest.raises(StoreError, match="chmod 600"):
        store.open()


def test_a_link_is_refused(store: Store, tmp_path: Path) -> None:
    """Somebody else might read where it leads."""
    (tmp_path / "elsewhere").touch(0o600)
    store.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="not a plain file"):
        store.open()
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_batch_is_there_when_it_is_written(store: Store) -> None:
    """Another process reads it while the daemon has it open."""
    decision = dispatch("r", A).decision
    one = served("r", 0.0, 0.0, 1.0, run="job")
    one = replace(one, attempts=(replace(one.attempts[0], decision=decision),))
    store.write(replace(grouped([one]), changes=[NodeChange(5.0, B, "up"), NodeChange(6.0, B, "down")]))
    past = Past(store.path)
    (run,) = past.runs(0.0, 9)
    assert (run.summary.run, run.summary.requests, run.summary.started_unix) == ("job", 1, EPOCH)
    (stored,) = past.requests(0.0)
    assert (stored.record, stored.ended_unix) == (one, EPOCH + 1.0)
    assert past.changes(0.0) == [NodeChange(5.0, B, "new"), NodeChange(6.0, B, "down")]
    assert past.names() == {A: NAMES[A]}


def test_a_batch_that_fails_in_the_middle_is_not_there_and_the_next_one_is(store: Store) -> None:
    """What was written of it is undone, so that nothing of it stands in the way."""
    good = grouped([served("r", 0.0, 0.0, 1.0)])
    with pytest.raises(AttributeError):
        store.write(replace(good, runs=(None,)))  # type: ignore[arg-type]
    assert [*Past(store.path).requests(0.0)] == []
    store.write(good)
    assert len([*Past(store.path).requests(0.0)]) == 1


def test_the_same_batch_twice_is_there_once(store: Store) -> None:
    """A writer that is not sure writes it again."""
    batch = grouped([served("r", 0.0, 0.0, 1.0)])
    store.write(batch)
    store.write(batch)
    assert len(list(Past(store.path).requests(0.0))) == 1


def test_numbers_of_another_life_go_on(store: Store) -> None:
    """No run of one life is one of another."""
    store.write(grouped([served("r", 0.0, 0.0, 1.0, run="job")]))
    store.close()
    second = Store(store.path, A, EPOCH + 100.0)
    second.write(grouped([served("s", 0.0, 0.0, 2.0, run="job")]))
    assert [one.number for one in Past(store.path).runs(0.0, 9)] == [2, 1]
    report = Past(store.path).report("job")
    assert report is not None
    assert [one.request for one in report.records] == ["s"]


def test_a_node_that_came_before_is_not_new(store: Store) -> None:
    """Also in another life."""
    for at in (1.0, 2.0):
        store.write(Batch(changes=[NodeChange(at, NodeId("b"), "up")]))
        store.close()
    assert [one.what for one in Past(store.path).changes(0.0)] == ["new", "up"]


def test_what_cannot_be_a_row_does_not_stop_the_others(store: Store) -> None:
    """It is counted."""
    good = served("none", 0.0, 0.0, 1.0)
    none = replace(good, attempts=(replace(good.attempts[0], end="\ud800"),))
    ended = [Ended(1, 1.0, none), Ended(2, 2.0, served("good", 0.0, 0.0, 1.0))]
    assert store.write(Batch(ended)) == 1
    assert [one.record.id for one in Past(store.path).requests(0.0)] == ["good"]


@pytest.mark.parametrize("size", [TOGETHER - 1, TOGETHER, 2 * TOGETHER + 1])
@pytest.mark.parametrize("odd", [None, 3])
def test_however_many_are_written_together_each_has_its_row(store: Store, size: int, odd: int | None) -> None:
    """And its decisions, and nobody else's: also where one of them cannot be a row, or had two attempts."""
    ended = []
    for number in range(1, size + 1):
        one = served(f"r{number}", 0.0, 0.5, 1.0, client=f"c{number}")
        decision = dispatch(one.id, A, finish_s=10.0 + number).decision
        tried = replace(one.attempts[0], decision=decision)
        attempts = (tried, replace(tried, number=2)) if number == 5 and odd else (tried,)
        if number == odd:
            attempts = (replace(tried, end="\ud800"),)
        ended.append(Ended(number, EPOCH + number, replace(one, attempts=attempts)))
    assert store.write(Batch(ended)) == bool(odd)
    assert store.write(Batch(ended)) == bool(odd)
    wanted = [one for one in ended if one.number != odd]
    assert [one.record for one in Past(store.path).requests(0.0)] == [one.record for one in wanted]
    assert store.open().execute("SELECT COUNT(*) FROM decisions").fetchone() == (
        sum(len(one.record.attempts) for one in wanted),
    )


def test_what_is_kept_of_the_file_in_memory_is_little(store: Store) -> None:
    """Rows are added and seldom read: a large cache would be memory for nothing."""
    assert store.open().execute("PRAGMA cache_size").fetchone() == (-512,)


def test_a_newer_file_is_not_touched(store: Store) -> None:
    """Not a byte of it: it may mean other things by the same words."""
    store.write(grouped([served("r", 0.0, 0.0, 1.0)]))
    store.open().execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    store.close()
    before = store.path.read_bytes()
    with pytest.raises(Newer, match="newer pairproxy"):
        Store(store.path, A, EPOCH).open()
    assert store.path.read_bytes() == before
    with pytest.raises(StoreError, match="newer pairproxy"):
        Past(store.path).runs(0.0, 1)


@pytest.mark.parametrize("content", [b"this is no database" * 300, None])
def test_a_damaged_file_is_found_out(store: Store, content: bytes | None) -> None:
    """One that was never a database, and one with a page overwritten in the middle."""
    store.write(grouped([served(f"r{one}", one, one, one + 1.0) for one in range(500)]))
    store.close()
    whole = store.path.read_bytes()
    store.path.write_bytes(content or whole[:8192] + b"\xff" * 8192 + whole[16384:])
    with pytest.raises((Broken, sqlite3.DatabaseError)):
        store.open()
    aside = store.move_aside()
    assert aside.exists()
    store.write(grouped([served("new", 0.0, 0.0, 1.0)]))
    assert [one.record.id for one in Past(store.path).requests(0.0)] == ["new"]


def test_who_reads_for_long_does_not_make_the_log_grow(store: Store) -> None:
    """What cannot be written stays with the writer, and is written when the reader is gone."""
    store.write(grouped([served("r", 0.0, 0.0, 1.0)]))
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM requests").fetchone()
    log = files_of(store.path)[1]
    ended = (Ended(number, 1.0, served(f"r{number}", 0.0, 0.0, 1.0)) for number in count(2))
    batches = (Batch([*islice(ended, 500)]) for _ in range(100))
    with pytest.raises(StoreError, match="Another program"):
        deque(map(store.write, batches))
    assert log.stat().st_size < RESERVE_BYTES
    reader.close()
    store.write(Batch([next(ended)]))
    assert log.stat().st_size <= LOG_BYTES * 2
