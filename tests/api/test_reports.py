from pairproxy.api.reports import record_of, report_of
from pairproxy.core.accounting.report import report_run
from tests.core.accounting.conversation import A, B, served
from tests.core.accounting.test_report import five_on_two


def test_times_count_from_the_start_of_the_run() -> None:
    """A record's clock is nobody's but its daemon's."""
    told = record_of(served("r", 101.0, 102.0, 105.0), 100.0)
    assert (told.arrived_s, told.dispatched_s, told.first_byte_s, told.ended_s) == (1.0, 2.0, 2.5, 5.0)
    assert (told.node, told.outcome, told.attempts) == (A, "done", 1)


def test_all_parts_of_a_report_are_of_the_same_run() -> None:
    """Records, timeline and bounds."""
    run = five_on_two()
    report = report_of(
        report_run(run, {A: 1, B: 1}, None), run.records, run.started_at, node=A, names={A: "anna"},
        started_unix=7.0,
    )  # fmt: skip
    assert report.run is not None
    assert report.timeline is not None
    assert [one.request for one in report.records] == [one.id for one in run.records]
    assert len(report.timeline.bars) == len(run.records)
    assert report.timeline.makespan_s == report.run.makespan_s
    assert (report.node, report.started_unix) == (A, 7.0)
