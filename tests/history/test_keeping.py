from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.report import report_run
from pairproxy.core.accounting.runs import Run, group_runs
from pairproxy.core.accounting.works import Places
from pairproxy.core.models import ModelName, Outcome, Place, Rates, RequestId
from pairproxy.history.keeping import LONGEST_S, QUIET_S, RunBook, Settled
from pairproxy.history.marks import Mark
from tests.core.accounting.conversation import ENGINE, A, B, served

RATES = {ModelName("m"): Rates(1000.0, 100.0, 0.1)}
PLACES: Places = {Place(A, ENGINE): (1, RATES), Place(B, ENGINE): (3, RATES)}


class Book:
    """A RunBook with what the ledger holds; it may let go of the oldest."""

    def __init__(self) -> None:
        self.book = RunBook()
        self.records: list[RequestRecord] = []
        self.number = 0

    def end(self, *records: RequestRecord) -> None:
        """These requests end."""
        for one in records:
            self.number += 1
            self.records.append(one)
            self.book.marks.note(one.id, Mark(self.number, 1000.0 + one.ended_at))

    def settle(self, at: float = 0.0) -> Settled:
        """Group them."""
        return self.book.settle(self.records, PLACES, at)


def test_a_run_grows_and_keeps_its_number() -> None:
    """Its id, its start and its counts are of all its requests; A was seen with two at once."""
    told = Book()
    told.end(served("one", 1.0, 1.0, 3.0, run="job"))
    (first,) = told.settle(3.0).grown
    told.end(served("two", 2.0, 2.0, 6.0, run="job"), served("other", 50.0, 50.0, 51.0))
    found = told.settle(51.0)
    assert found.grown == (first, told.book.runs[3])
    assert found.joined == {2: 1, 3: 3}
    summary = first.summary()
    assert summary.request == "one"
    assert (summary.run, summary.name, summary.requests, summary.outcomes) == ("job", "job", 2, {"done": 2})
    assert (summary.started_unix, summary.makespan_s, summary.output_tokens) == (1001.0, 5.0, 200)
    assert (summary.nodes, summary.slots, summary.bound_waves, summary.speedup) == (2, 5, 2.0, None)
    assert told.settle(52.0).grown == ()


def test_two_runs_become_one_when_what_joins_them_ends() -> None:
    """The earlier number stays, and every request that was in the other one is in it."""
    told = Book()
    told.end(served("a", 0.0, 0.0, 1.0), served("b", 20.0, 20.0, 21.0))
    assert told.settle().joined == {1: 1, 2: 2}
    told.end(served("long", 0.5, 0.5, 30.0))
    found = told.settle()
    assert (found.merged, found.joined) == ({2: 1}, {3: 1})
    (run,) = told.book.runs.values()
    assert (run.requests, run.run.id, len(run.run.records)) == (3, "a", 3)


def test_what_the_ledger_let_go_of_stays_counted() -> None:
    """A run that is larger than the memory goes on, under its number and its id."""
    told = Book()
    told.end(*(served(f"r{one}", one, one, one + 1.0) for one in range(10)))
    told.settle()
    told.records = told.records[5:]
    told.end(served("late", 10.0, 10.0, 12.0))
    (run,) = told.settle().grown
    summary = run.summary()
    assert (run.number, summary.run, summary.requests, summary.makespan_s) == (1, "r0", 11, 12.0)
    assert len(run.run.records) == 6
    told.records = []
    told.settle()
    assert told.book.runs == {}


def test_a_run_that_outgrows_memory_is_known_by_its_id() -> None:
    """By whatever of it is still there; one that is all there, or not yet seen, says its own id."""
    told = Book()
    told.end(*(served(f"r{one}", one, one, one + 1.0) for one in range(10)))
    assert told.book.id_of(RequestId("r0")) is None
    told.settle()
    assert told.book.id_of(RequestId("r0")) is None
    told.records = told.records[5:]
    assert told.book.id_of(RequestId("r5")) == "r0"
    told.end(served("late", 10.0, 10.0, 12.0))
    assert told.book.id_of(RequestId("late")) is None
    told.settle()
    assert told.book.id_of(RequestId("r5")) == "r0"


def test_what_is_asked_while_runs_are_found_is_as_it_was_before() -> None:
    """A thread finds them: whoever looks through the runs meanwhile sees none come or go."""
    told = Book()
    told.end(served("a", 0.0, 0.0, 1.0), served("b", 20.0, 20.0, 21.0))
    told.settle()
    before = told.book.runs
    told.end(served("long", 0.5, 0.5, 30.0), served("new", 90.0, 90.0, 91.0))
    told.settle()
    assert sorted(before) == [1, 2]
    assert sorted(told.book.runs) == [1, 4]


def test_once_together_always_together() -> None:
    """What joined two parts of a run may be forgotten; they stay one."""
    told = Book()
    told.end(served("a", 0.0, 0.0, 1.0), served("long", 0.5, 0.5, 30.0), served("b", 20.0, 20.0, 21.0))
    told.settle()
    told.records = [one for one in told.records if one.id != "long"]
    assert len(group_runs(told.records)) == 2
    assert told.settle().grown == ()
    (run,) = told.book.runs.values()
    assert (run.requests, len(run.run.records)) == (3, 2)


def test_a_report_is_due_when_a_run_is_quiet_or_goes_on_for_long() -> None:
    """And once for each time it grew."""
    told = Book()
    told.end(served("a", 0.0, 0.0, 1.0))
    told.settle(1.0)
    (run,) = told.book.runs.values()
    assert told.book.due_in(1.0) == QUIET_S
    assert told.book.due(QUIET_S) == []
    assert told.book.due(1.0 + QUIET_S) == [run]
    run.asked_of, run.asked_at = run.requests, 20.0
    assert (told.book.due(1e9), told.book.due_in(0.0)) == ([], None)
    told.end(served("b", 1.0, 1.0, 2.0))
    told.settle(20.0 + LONGEST_S)
    assert told.book.due(20.0 + LONGEST_S) == [run]


def test_the_line_has_the_reports_numbers() -> None:
    """Once it is made, and only while it is of all its requests."""
    told = Book()
    told.end(*(served(f"r{one}", 0.0, 0.0, 2.0 + one, (A, B)[one % 2], run="job") for one in range(4)))
    told.settle()
    (kept,) = told.book.runs.values()
    report = report_run(kept.run, {A: 2, B: 5}, None)
    kept.report = report
    summary = kept.summary()
    assert (summary.slots, summary.bound_waves, summary.efficiency) == (
        report.slots,
        report.bound_waves,
        report.efficiency,
    )
    assert told.book.reckoned(kept.run) is report
    assert told.book.reckoned(replace(kept.run, records=kept.run.records[:2])) is None
    assert told.book.reckoned(Run("never", None, kept.run.records)) is None
    told.end(served("more", 1.0, 1.0, 9.0, run="job"))
    told.settle()
    assert (kept.summary().efficiency, told.book.reckoned(kept.run)) == (None, None)


def test_a_guests_request_is_in_no_run() -> None:
    """Its origin accounts for it."""
    told = Book()
    told.end(served("guest", 0.0, 0.0, 1.0, origin=B))
    assert told.settle() == Settled((), {}, {})


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 60.0), st.floats(0.0, 20.0), st.sampled_from([None, "x"]), st.sampled_from(Outcome)
        ),
        max_size=12,
    ),
    st.data(),
)
def test_in_whatever_steps_runs_are_found_they_are_those_that_are_there_at_the_end(
    made: list[tuple[float, float, str | None, Outcome]], data: st.DataObject
) -> None:
    """Each request is in exactly one run, and the counts add up."""
    records = [
        served(f"r{index}", at, at, at + took, run=run, outcome=how)
        for index, (at, took, run, how) in enumerate(made)
    ]
    told = Book()
    for record in sorted(records, key=lambda one: one.ended_at):
        told.end(record)
        if data.draw(st.booleans()):
            told.settle()
    told.settle()
    kept = {one.run.id: one for one in told.book.runs.values()}
    there = {run.id: run for run in group_runs(told.records)}
    assert {name: one.run.records for name, one in kept.items()} == {
        name: run.records for name, run in there.items()
    }
    for name, one in kept.items():
        assert one.requests == len(there[name].records) == one.outcomes.total()
        assert one.summary().makespan_s == there[name].makespan_s
