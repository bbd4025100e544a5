from dataclasses import replace
from pathlib import Path

import pytest

from pairproxy.core.accounting.report import report_run
from pairproxy.core.accounting.runs import Run
from pairproxy.core.errors import StoreError
from pairproxy.core.whatif.recording import record
from pairproxy.history import reading
from pairproxy.history.reading import Past
from pairproxy.history.rebuilding import NO_SPEEDS
from pairproxy.history.store import FILE, Batch, Store
from tests.core.accounting.conversation import A, B, dispatch, served
from tests.history.kept import EPOCH, NAMES, grouped

JOB = [
    served(f"r{one}", one * 0.1, one * 0.5, one * 0.5 + 2.0, (A, B)[one % 2], run="job") for one in range(6)
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a run that was reported, and one of guests' and others' requests beside it."""
    decided = replace(JOB[0].attempts[0], decision=dispatch("r0", A).decision)
    batch = grouped(
        [replace(JOB[0], attempts=(decided,)), *JOB[1:], served("me", 50.0, 50.0, 51.0, client="me")]
    )
    (job,) = [one for one in batch.runs if one.run.name == "job"]
    job.report = report_run(job.run, {A: 1, B: 1}, None)
    job.recording = record(job.run, A, "fastest-finish", {}, {}, {}, NAMES)
    store = Store(tmp_path / FILE, A, EPOCH)
    store.write(batch)
    store.close()
    return store.path


def test_a_run_comes_back_as_it_was_reported(path: Path) -> None:
    """Its report to the last bit, its records and its timeline; by its name or its id."""
    report = Past(path).report("job", with_recording=True)
    assert report is not None
    assert report.run == report_run(Run("job", "job", tuple(JOB)), {A: 1, B: 1}, None)
    assert [one.request for one in report.records] == [one.id for one in JOB]
    assert (report.node, report.names, report.started_unix) == (A, NAMES, EPOCH)
    assert report.timeline is not None
    assert len(report.timeline.bars) == 6
    assert report.recording is not None
    assert len(report.recording.requests) == 6
    assert report.verdict is not None
    other = Past(path).report("me")
    assert other is not None
    assert other.recording is None
    assert [one.request for one in other.records] == ["me"]
    assert Past(path).report("never") is None


def test_each_of_several_runs_of_a_name_can_be_asked_for(tmp_path: Path) -> None:
    """By a request of it, which its line names; the name alone is the last one."""
    for life in range(2):
        store = Store(tmp_path / FILE, A, EPOCH)
        store.write(grouped([served(f"{life}-{one}", 0.0, 0.0, 1.0, run="nightly") for one in range(3)]))
        store.close()
    past = Past(tmp_path / FILE)
    assert [one.summary.request for one in past.runs(0.0, 9)] == ["1-0", "0-0"]
    for asked, wanted in (("nightly", "1"), ("1-0", "1"), ("0-0", "0"), ("0-2", "0")):
        report = past.report(asked)
        assert report is not None
        assert {told.request[0] for told in report.records} == {wanted}
    assert past.report("2-0") is None


def test_a_run_without_a_report_claims_no_speedup(path: Path) -> None:
    """Its nodes' speeds are not known."""
    report = Past(path).report("me")
    assert report is not None
    assert report.run is not None
    assert NO_SPEEDS in report.run.notes
    assert report.run.speedup is None


def test_runs_are_told_the_latest_first(path: Path) -> None:
    """From a moment on, so many, by name or id."""
    past = Past(path)
    assert [one.summary.run for one in past.runs(0.0, 9)] == ["me", "job"]
    assert [one.summary.run for one in past.runs(0.0, 1)] == ["me"]
    assert [one.summary.run for one in past.runs(EPOCH + 1.0, 9)] == ["me"]
    assert [one.summary.run for one in past.runs(0.0, 9, "job")] == ["job"]
    assert (past.node(), past.count(0.0), past.count(EPOCH + 50.0)) == (A, 7, 1)


def test_a_decision_comes_with_its_request(path: Path) -> None:
    """As far as it is kept."""
    found = list(Past(path).requests(0.0))
    assert found[0].record.attempts[0].decision == dispatch("r0", A).decision
    assert found[1].record.attempts[0].decision is None


def test_one_request_is_found_by_its_id(path: Path) -> None:
    """By the whole of it or its beginning, if only one begins so; or the last of this node's own."""
    past = Past(path)
    ids = {wanted: found.record.id for wanted in ("r3", "m", None) if (found := past.request(wanted))}
    assert ids == {"r3": "r3", "m": "me", None: "me"}
    assert (past.request("r"), past.request("never")) == (None, None)
    decided = past.request("r0")
    assert decided is not None
    assert decided.record.attempts[0].decision == dispatch("r0", A).decision


def test_requests_come_in_pages(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, each once, also where a page ends with the last."""
    everything = [one.record.id for one in Past(path).requests(0.0)]
    assert len(everything) == 7
    for size in (1, 2, 7, 100):
        monkeypatch.setattr(reading, "PAGE", size)
        assert [one.record.id for one in Past(path).requests(0.0)] == everything
        assert [one.id for one in Past(path).records(1, 4)] == [f"r{one}" for one in (5, 4, 3, 2)]


def test_reading_changes_nothing(path: Path) -> None:
    """Not a byte of the file."""
    before = path.read_bytes()
    Past(path).report("job")
    list(Past(path).requests(0.0))
    assert path.read_bytes() == before


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    """With what to do."""
    with pytest.raises(StoreError, match="There is no history"):
        Past(tmp_path / FILE).runs(0.0, 1)
    (tmp_path / FILE).write_bytes(b"nonsense" * 1000)
    with pytest.raises(StoreError, match="damaged"):
        Past(tmp_path / FILE).runs(0.0, 1)
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(StoreError, match="older pairproxy"):
        Past(tmp_path / FILE).runs(0.0, 1)


def test_a_report_of_another_version_is_put_together_anew(path: Path) -> None:
    """What cannot be read is not shown."""
    store = Store(path, A, EPOCH)
    store.open().execute("UPDATE runs SET report = '{\"run\": 7}' WHERE run = 'job'")
    store.write(Batch())
    store.close()
    report = Past(path).report("job")
    assert report is not None
    assert report.run is not None
    assert NO_SPEEDS in report.run.notes


def test_an_unnamed_run_is_found_by_as_much_of_its_id_as_faces_show(tmp_path: Path) -> None:
    """Eight characters or more, whole or among others; a named one only by all of its name."""
    whole = "7a7a48dff6fc4aebb9628b8283d02377"
    store = Store(tmp_path / FILE, A, EPOCH)
    store.write(grouped([served(whole, 0.0, 0.0, 1.0), served("n", 50.0, 50.0, 51.0, run="nightly build")]))
    store.close()
    past = Past(tmp_path / FILE)
    for asked in (whole, whole[:8], whole[:20]):
        report = past.report(asked)
        assert report is not None
        assert [one.request for one in report.records] == [whole]
        assert [one.summary.run for one in past.runs(0.0, 9, asked)] == [whole]
    for asked in (whole[:7], whole[:8] + "_", "%", "nightly ", "nightly b"):
        assert past.report(asked) is None
        assert not past.runs(0.0, 9, asked)
