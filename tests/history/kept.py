"""A history without a daemon: a clock that is moved by hand, records that are written down, a home."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pairproxy.config import HistorySettings
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.report import RunReport, report_run
from pairproxy.core.accounting.runs import Run
from pairproxy.core.whatif.recording import Recording, record
from pairproxy.history.keeping import RunBook
from pairproxy.history.marks import Ended, Mark
from pairproxy.history.reading import Past
from pairproxy.history.store import FILE, Batch, Store
from pairproxy.history.writing import History
from tests.core.accounting.conversation import A, B, served

NAMES: dict[str, str] = {A: "anna", B: "ben"}
EPOCH = 1_800_000_000.0
"""What the wall clock says when the records' clock says 0."""


@dataclass
class Kept:
    """A History whose clocks the test moves; ``records`` is what the ledger would hold."""

    home: Path
    settings: HistorySettings = field(default_factory=HistorySettings)
    at: float = 0.0
    jump: float = 0.0  # of the wall clock
    records: list[RequestRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history = self.begin()

    def begin(self) -> History:
        """Another life of the daemon."""
        self.records = []
        return History(
            self.home, self.settings, A, (lambda: self.at, lambda: EPOCH + self.at + self.jump),
            lambda: tuple(self.records), dict, self.reckon, lambda: NAMES,
        )  # fmt: skip

    def reckon(self, run: Run) -> Callable[[], tuple[RunReport, Recording]]:
        """As admin.reporting does, without speeds."""
        report = report_run(run, {A: 1, B: 1}, None)
        return lambda: (report, record(run, A, "fastest-finish", {}, {}, {}, NAMES))

    def end(self, *records: RequestRecord) -> None:
        """These requests end now."""
        for one in records:
            self.at = max(self.at, one.ended_at)
            self.records.append(one)
            self.history.ended(one)


def written(path: Path, *lives: list[RequestRecord]) -> Path:
    """A file with these lives' requests, each life's last second lost: in no run yet."""
    for number, records in enumerate(lives):
        store = Store(path / FILE, A, EPOCH + number)
        store.write(Batch([Ended(at, EPOCH + one.ended_at, one) for at, one in enumerate(records, 1)]))
        store.close()
    return path / FILE


def grouped(records: list[RequestRecord], at: float = 0.0) -> Batch:
    """All that is to be written of these records, the runs without reports."""
    book = RunBook()
    ended = [Ended(number, EPOCH + one.ended_at, one) for number, one in enumerate(records, 1)]
    for one in ended:
        book.marks.note(one.record.id, Mark(one.number, one.ended_unix))
    found = book.settle(records, {}, at)
    return Batch(ended, found.joined, found.merged, found.grown, (), NAMES)


def job(count: int, start: float = 0.0, run: str = "job") -> list[RequestRecord]:
    """Requests of one run, a tenth of a second after each other."""
    return [served(f"{run}{one}", start, start, start + one / 10 + 1.0, run=run) for one in range(count)]


def requests(path: Path) -> list[str]:
    """The ids that are on disk."""
    return [one.record.id for one in Past(path).requests(0.0)]
