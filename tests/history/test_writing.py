import asyncio
from collections.abc import Callable

from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.runs import Run
from pairproxy.core.events import NodeLost, NodeReported
from pairproxy.core.whatif.recording import Recording
from pairproxy.history.changes import NodeChange
from pairproxy.history.keeping import QUIET_S
from pairproxy.history.pending import BATCH
from pairproxy.history.reading import Past
from pairproxy.history.store import Batch
from pairproxy.history.writing import PAUSE_TIMES, SETTLE_S
from tests.core.accounting.conversation import A, B, served
from tests.core.told import document
from tests.history.kept import EPOCH, NAMES, Kept, job, requests
from tests.history.test_changes import engine, replica
from tests.support.running import run_async


def test_what_ended_is_on_disk_after_the_next_flush(kept: Kept) -> None:
    """With its run; the report follows when the run is quiet, and is told in one line."""

    async def main() -> None:
        kept.end(*job(3))
        await kept.history.flush()
        past = Past(kept.history.path)
        assert requests(kept.history.path) == ["job0", "job1", "job2"]
        (run,) = past.runs(0.0, 9)
        assert (run.summary.requests, run.summary.efficiency) == (3, None)
        kept.at += QUIET_S
        await kept.history.flush()
        (run,) = past.runs(0.0, 9)
        report = past.report("job", with_recording=True)
        assert report is not None
        assert report.run is not None
        assert run.summary.efficiency == report.run.efficiency is not None
        assert report.recording is not None
        assert kept.history.reckoned(kept.history.book.runs[1].run) == report.run

    run_async(main())


def test_runs_are_found_now_and_then_while_requests_end_all_the_time(kept: Kept) -> None:
    """Each time looks at all in memory; what is not grouped yet is on disk all the same."""

    async def main() -> None:
        kept.end(*job(1))
        await kept.history.flush()
        kept.end(*job(1, 1.5, "other"))
        await kept.history.flush()
        assert requests(kept.history.path) == ["job0", "other0"]
        assert len(Past(kept.history.path).runs(0.0, 9)) == 1
        kept.at += SETTLE_S
        await kept.history.flush()
        assert len(Past(kept.history.path).runs(0.0, 9)) == 2

    run_async(main())


def test_many_at_once_are_written_in_pieces(kept: Kept) -> None:
    """All of them, and their run with the last."""

    async def main() -> None:
        kept.end(*job(2 * BATCH + 3))
        await kept.history.flush()
        assert len(requests(kept.history.path)) == 2 * BATCH + 3
        (run,) = Past(kept.history.path).runs(0.0, 9)
        assert run.summary.requests == 2 * BATCH + 3

    run_async(main())


def test_what_ends_while_others_are_written_waits_for_the_next_flush(kept: Kept) -> None:
    """A busy node would write without a pause else, a few requests at a time."""

    async def main() -> None:
        later = job(BATCH + 5, 1.0, "later")

        def names() -> dict[str, str]:
            """Asked for each batch: one more ends meanwhile."""
            kept.end(*later[:1])
            del later[:1]
            return NAMES

        kept.history._names = names
        kept.end(*job(BATCH + 3))
        await kept.history.flush()
        assert len(later) == BATCH + 3
        assert len(requests(kept.history.path)) == BATCH + 5

    run_async(main())


def test_the_end_of_a_daemon_writes_what_is_left(kept: Kept) -> None:
    """Runs that just ended have their reports, and the file stands alone."""

    async def main() -> None:
        kept.end(*job(2))
        await kept.history.close()
        report = Past(kept.history.path).report("job", with_recording=True)
        assert report is not None
        assert report.recording is not None
        assert [one.what for one in Past(kept.history.path).changes(0.0)] == ["stopped"]

    run_async(main())


def test_runs_in_memory_and_on_disk_are_one_list(kept: Kept) -> None:
    """Each run once, those of earlier lives too, the latest first; so many as are asked for."""

    async def main() -> None:
        kept.end(*job(2))
        await kept.history.close()
        kept.history = kept.begin()
        kept.at = 100.0
        kept.end(*job(1, 100.0, "mine"))
        await kept.history.flush()
        kept.end(*job(1, 200.0, "fresh"))
        told = await kept.history.runs(0.0, 9)
        assert [(one.run, one.requests) for one in told.runs] == [("fresh", 1), ("mine", 1), ("job", 2)]
        assert not told.has_more
        told = await kept.history.runs(0.0, 2)
        assert [one.run for one in told.runs] == ["fresh", "mine"]
        assert told.has_more
        assert [one.run for one in (await kept.history.runs(EPOCH + 150.0, 9)).runs] == ["fresh"]
        report = kept.history.report("job")
        assert report is not None
        assert len(report.records) == 2

    run_async(main())


def test_a_jump_of_the_wall_clock_touches_no_duration(kept: Kept) -> None:
    """A run starts when its first request did by the clock of that time, and lasts as long as it lasted."""

    async def main() -> None:
        kept.end(served("a", 0.0, 0.0, 1.0, run="job"))
        kept.jump = -86_400.0
        kept.end(served("b", 0.5, 1.0, 3.0, run="job"))
        await kept.history.flush()
        (run,) = Past(kept.history.path).runs(0.0, 9)
        assert (run.summary.started_unix, run.summary.makespan_s) == (EPOCH, 3.0)
        found = [one.record for one in Past(kept.history.path).requests(0.0)]
        assert [(one.arrived_at, one.ended_at) for one in found] == [(0.0, 1.0), (0.5, 3.0)]

    run_async(main())


def test_what_becomes_of_nodes_is_kept(kept: Kept) -> None:
    """Peers and engines, with the time of the wall clock."""

    async def main() -> None:
        kept.at = 5.0
        for event in (
            engine(replica("m")),
            NodeReported(0.0, document(B)),
            NodeReported(1.0, document(B)),
            NodeLost(2.0, B),
        ):
            kept.history.heard(event, ())
        await kept.history.flush()
        found = Past(kept.history.path).changes(0.0)
        assert [(one.node, one.what) for one in found] == [
            (A, "engine-up"),
            (B, "new"),
            (B, "engine-up"),
            (B, "down"),
        ]
        assert {one.at_unix for one in found} == {EPOCH + 5.0}

    run_async(main())


def test_an_idle_history_waits_for_nothing(kept: Kept) -> None:
    """No timer wakes it: an idle daemon costs nothing for it."""

    async def main() -> None:
        kept.end(*job(1))
        kept.at += QUIET_S
        await kept.history.flush()
        kept.at += QUIET_S
        await kept.history.flush()
        kept.history._wanted.clear()
        task = asyncio.create_task(kept.history._until_wanted())
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        assert not [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        assert not task.done()
        kept.end(*job(1, 50.0, "more"))
        await task

    asyncio.run(main())


def test_reports_are_not_made_all_the_time(kept: Kept) -> None:
    """After one that took long comes a pause, in which the next one waits; not at the end of the daemon."""

    async def main() -> None:
        for number in range(3):
            kept.end(*job(1, number * 10.0, f"run{number}"))
        kept.at += QUIET_S
        reckon, made = kept.history._reckon, []

        def slow(run: Run) -> Callable[[], tuple[RunReport, Recording | None]]:
            kept.at += 1.0
            made.append(run.id)
            return reckon(run)

        kept.history._reckon = slow
        await kept.history.settle()
        kept.at += QUIET_S
        await kept.history.flush()
        assert made == ["run0"]
        kept.at += PAUSE_TIMES - 1.0
        await kept.history.flush()
        assert made == ["run0"]
        kept.at += 1.0
        await kept.history.flush()
        assert made == ["run0", "run1"]
        await kept.history.close()
        assert made == ["run0", "run1", "run2"]

    run_async(main())


def test_a_daemon_that_is_stopped_while_it_writes_writes_all_of_it_once(kept: Kept) -> None:
    """What the thread began is done; the rest follows."""

    async def main() -> None:
        kept.history._pending.change([NodeChange(EPOCH, B, "up")])
        kept.end(*job(2))
        began, write = asyncio.Event(), kept.history._store.write
        loop = asyncio.get_running_loop()

        def slow(batch: Batch) -> int:
            loop.call_soon_threadsafe(began.set)
            return write(batch)

        kept.history._store.write = slow  # type: ignore[method-assign]
        task = asyncio.create_task(kept.history.flush())
        await began.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        kept.end(*job(1, 5.0, "more"))
        await kept.history.close()
        assert requests(kept.history.path) == ["job0", "job1", "more0"]
        assert len(Past(kept.history.path).runs(0.0, 9)) == 2
        assert [one.what for one in Past(kept.history.path).changes(0.0)] == ["new", "stopped"]

    run_async(main())
