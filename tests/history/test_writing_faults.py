import asyncio
import logging
import shutil

import pytest

from pairproxy.history import schema
from pairproxy.history.keeping import QUIET_S
from pairproxy.history.pending import LIMIT_PENDING
from pairproxy.history.reading import Past
from pairproxy.history.store import FILE, Batch
from pairproxy.history.writing import RETRY_S
from tests.history.kept import Kept, job, requests
from tests.support.running import run_async


def fill(kept: Kept, is_full: bool) -> None:
    """Let the disk be full, as SQLite sees it: no page more than there are."""
    connection = kept.history._store.open()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages if is_full else 10**9}")


def test_a_full_disk_is_told_once_and_then_it_goes_on_by_itself(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    """What ended meanwhile waits in memory."""

    async def main() -> None:
        kept.end(*job(1))
        await kept.history.flush()
        fill(kept, True)
        for number in range(3):
            kept.end(*job(200, 100.0 * (number + 1), f"more{number}"))
            await kept.history.flush()
            assert kept.history.problem is not None
            assert "The disk of" in kept.history.problem
            assert "is full" in kept.history.problem
        assert requests(kept.history.path) == ["job0"]
        told = await kept.history.runs(0.0, 9)
        assert [one.run for one in told.runs] == ["more2", "more1", "more0", "job"]
        assert told.problem == kept.history.problem
        fill(kept, False)
        await kept.history.flush()
        assert kept.history.problem is None
        assert len(requests(kept.history.path)) == 601
        assert len(Past(kept.history.path).runs(0.0, 9)) == 4

    with caplog.at_level(logging.INFO):
        run_async(main())
    assert [record.message.partition(str(kept.home))[2][:20] for record in caplog.records] == [
        " is full: history is",
        f"/{FILE} is written a"[:20],
    ]


def test_the_newest_are_kept_while_it_cannot_be_written(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """So many as fit; what is missing then is told."""

    async def main() -> None:
        kept.end(*job(1))
        await kept.history.flush()
        fill(kept, True)
        kept.end(*job(LIMIT_PENDING + 10, 100.0, "more"))
        await kept.history.flush()
        fill(kept, False)
        await kept.history.flush()
        found = requests(kept.history.path)
        assert len(found) == LIMIT_PENDING + 1
        assert (found[1], found[-1]) == ("more10", f"more{LIMIT_PENDING + 9}")

    run_async(main(), timeout=60)
    assert "10 requests are missing in it" in caplog.text


def test_what_finds_no_room_while_others_are_written_is_told_too(
    kept: Kept, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests go on ending while the write that succeeds takes its time: what it writes is not missing."""
    write, more = kept.history._store.write, job(LIMIT_PENDING + 10, 100.0, "more")

    def slow(batch: Batch) -> int:
        kept.end(*more)
        more.clear()
        return write(batch)

    async def main() -> None:
        kept.end(*job(1))
        await kept.history.flush()
        fill(kept, True)
        kept.end(*job(300, 50.0, "late"))
        await kept.history.flush()
        fill(kept, False)
        monkeypatch.setattr(kept.history._store, "write", slow)
        await kept.history.flush()
        await kept.history.flush()
        assert len(requests(kept.history.path)) == 1 + 300 + LIMIT_PENDING

    run_async(main(), timeout=60)
    assert "10 requests are missing in it" in caplog.text


def test_a_failure_is_tried_again_ever_later(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while requests end all the time: a disk may be full for days."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)

    async def main() -> None:
        kept.end(*job(1))
        await kept.history.flush()
        fill(kept, True)
        for number in range(len(RETRY_S) + 1):
            kept.end(*job(200, 100.0 * (number + 1), f"more{number}"))
            await kept.history.flush()
            await kept.history._until_wanted()

    run_async(main())
    assert waited == [*RETRY_S, RETRY_S[-1]]


def test_a_damaged_file_is_moved_aside(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """And a new one is begun, with what ended since."""
    (kept.home / FILE).write_bytes(b"no database at all" * 1000)
    (kept.home / FILE).chmod(0o600)

    async def main() -> None:
        kept.end(*job(2))
        await kept.history.flush()
        assert kept.history.problem is not None
        assert "was damaged" in kept.history.problem
        await kept.history.flush()
        assert kept.history.problem is None
        assert requests(kept.history.path) == ["job0", "job1"]
        assert (kept.home / f"{FILE}.broken").read_bytes().startswith(b"no database")

    run_async(main())


def test_a_newer_file_turns_history_off(kept: Kept) -> None:
    """For good, and nothing piles up; runs in memory are still told."""

    async def main() -> None:
        kept.end(*job(1))
        await kept.history.flush()
        kept.history._store.open().execute(f"PRAGMA user_version = {schema.VERSION + 1}")
        await kept.history.close()
        kept.history = kept.begin()
        kept.end(*job(2, 10.0, "later"))
        await kept.history.flush()
        assert kept.history.problem is not None
        assert "newer pairproxy" in kept.history.problem
        kept.end(*job(2, 20.0, "latest"))
        assert not len(kept.history._pending)
        told = await kept.history.runs(0.0, 9)
        assert [one.run for one in told.runs] == ["latest", "later"]
        assert kept.history.report("job") is None

    run_async(main())


def test_a_run_that_cannot_be_reckoned_stops_nobody(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """It is said, without its words, and stays without a report."""

    async def main() -> None:
        kept.end(*job(1))
        await kept.history.flush()
        reckon = kept.history._reckon
        kept.history._reckon = lambda run: (lambda: 1 / 0) if run.id == "job" else reckon(run)  # type: ignore[assignment, return-value]
        kept.end(*job(1, 5.0, "other"))
        kept.at += 2 * QUIET_S
        await kept.history.settle()
        kept.at += QUIET_S
        await kept.history.flush()
        summaries = {one.summary.run: one.summary for one in Past(kept.history.path).runs(0.0, 9)}
        assert summaries["job"].efficiency is None
        assert summaries["other"].efficiency is not None

    run_async(main())
    assert "could not be reported: ZeroDivisionError" in caplog.text


def test_a_home_that_went_away_is_told(kept: Kept) -> None:
    """A disk that was pulled out, say; it goes on when it is back."""

    async def main() -> None:
        shutil.rmtree(kept.home)
        kept.end(*job(1))
        await kept.history.flush()
        assert kept.history.problem is not None
        kept.home.mkdir(mode=0o700)
        await kept.history.flush()
        assert kept.history.problem is None
        assert requests(kept.history.path) == ["job0"]

    run_async(main())
