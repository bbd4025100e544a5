import threading
from dataclasses import replace
from itertools import count

import pytest

from pairproxy.admin.reporting import Reports, Watched
from pairproxy.api.schema import Report
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.runs import Run
from pairproxy.core.errors import StoreError
from pairproxy.core.models import RequestId
from pairproxy.history.reading import Past as Disk
from tests.admin.test_reporting import Recorded
from tests.api.test_schema import REPORT
from tests.core.told import ask


class Remembers:
    """A past that knows one run, which began before what memory holds."""

    problem = None

    def __init__(self, id_: str | None, report: RunReport | None = None) -> None:
        self.id = id_
        self.reported = report

    def id_of(self, request: RequestId) -> str | None:
        return self.id

    @property
    def disk(self) -> Disk:
        raise StoreError("There is none.")

    def reckoned(self, run: Run) -> RunReport | None:
        return self.reported

    def report(self, name: str, *, with_recording: bool = False) -> Report | None:
        return None


def test_a_report_that_was_made_once_is_told_by_all() -> None:
    """Speeds were learned since: another one of the same requests would have other numbers."""
    told = Recorded()
    told.serves("one", run="job")
    made = replace(REPORT, run="job", requests=1)
    told.reports.past = Remembers(None, made)
    found = told.reports.report("job", {})().run
    assert found is made
    assert told.reports.watched()().last_run is found


def test_a_run_that_outgrows_memory_keeps_its_id_and_its_report() -> None:
    """Who watches it costs no more than who watches a short one: a report now and then, not at each look."""
    told = Recorded()
    told.ledger = Ledger(limit_records=4)
    looks = count()
    told.reports = Reports(told.scheduler, told.ledger, lambda: told.at + 0.01 * next(looks))
    told.reports.past = Remembers("r0")
    for number in range(5):
        told.serves(f"r{number}")
        told.at -= 4.4  # all in one moment
    first = told.reports.watched()().last_run
    for number in range(5, 8):
        told.serves(f"r{number}")
        told.at -= 4.4
        watched = told.reports.watched()()
        assert watched.last_run is first
    assert first is not None
    assert (first.run, told.reports.made()) == ("r0", (1, "r0"))
    assert len(told.reports.report("r0", {})().records) == 4


class Held(Remembers):
    """A past that takes until it ``goes_on``, and then fails."""

    def __init__(self) -> None:
        super().__init__(None)
        self.is_asked, self.goes_on = threading.Event(), threading.Event()

    def reckoned(self, run: Run) -> RunReport | None:
        self.is_asked.set()
        self.goes_on.wait(20.0)
        raise ZeroDivisionError


def test_while_a_report_is_made_the_rest_is_told_and_nobody_waits_for_ever() -> None:
    """Also of the run that goes on; and a report that cannot be made leaves no lock behind."""
    told, held = Recorded(), Held()
    told.serves("first", run="job")
    told.arrives(ask("second", run="job"))
    told.reports.past = held
    make = told.reports.watched()
    failed: list[str] = []

    def fails() -> None:
        with pytest.raises(ZeroDivisionError):
            make()
        failed.append("as it should")

    maker = threading.Thread(target=fails)
    maker.start()
    try:
        assert held.is_asked.wait(10.0)
        assert told.reports.latest == Watched()
        watched = told.reports.watched(reckons=False)()
        assert watched.current is not None
        assert (watched.current.ended, watched.current_report, watched.last_run) == (1, None, None)
        assert watched.run_of == {"second": "job"}
        assert told.reports.latest is watched
    finally:
        held.goes_on.set()
        maker.join(10.0)
    assert failed
    told.reports.past = Remembers(None)
    assert told.reports.watched()().last_run is not None
