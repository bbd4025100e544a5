"""Which request belongs to which run, while runs grow; what is told of each in one line.

Runs are found by core.accounting.runs in what the ledger holds. A request that is once in a run stays in it,
also when the ledger has let go of what joined them; a run whose requests are no longer all in memory goes on
being counted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from pairproxy.api.runs import RunSummary
from pairproxy.core.accounting.bounds import waves_bound
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.runs import Run, group_runs, id_of
from pairproxy.core.accounting.services import seen_slots
from pairproxy.core.accounting.works import Places, able, slots_of
from pairproxy.core.models import NodeId, RequestId
from pairproxy.core.whatif.recording import Recording
from pairproxy.history.marks import LIMIT_MARKS, Mark, Marks

QUIET_S = (
    10.0  # since a run grew: twice the pause after which another one begins, so it has most likely ended
)
LONGEST_S = 300.0  # a run that never pauses is reported as often: what a crash would lose of it


@dataclass(slots=True)
class KeptRun:
    """One run. Counts are of all its requests, ``run`` has those in memory. ``_at``: as in records."""

    number: int  # of one of its requests: no other run has it
    run: Run
    request: RequestId  # one of it, the same while it grows
    requests: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    output_tokens: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    started_unix: float = 0.0
    ended_unix: float = 0.0
    slots: Mapping[NodeId, int] = field(default_factory=dict)
    report: RunReport | None = None
    recording: Recording | None = None
    changed_at: float = 0.0  # when it last grew
    asked_at: float = 0.0  # when it grew first, or a report was last asked for
    asked_of: int = 0  # requests it had then

    @property
    def is_asked(self) -> bool:
        """Whether a report was asked for since it last grew."""
        return self.asked_of == self.requests

    @property
    def whole_report(self) -> RunReport | None:
        """The report, if it is of all its requests."""
        return self.report if self.report and self.report.requests == self.requests else None

    def add(self, record: RequestRecord, mark: Mark) -> None:
        """Count one request more."""
        started_unix = mark.ended_unix - record.latency_s
        if not self.requests or record.arrived_at < self.started_at:
            self.started_at, self.started_unix = record.arrived_at, started_unix
        self.ended_at = max(self.ended_at, record.ended_at) if self.requests else record.ended_at
        self.ended_unix = max(self.ended_unix, mark.ended_unix)
        self.requests += 1
        self.outcomes[record.outcome.value] += 1
        self.output_tokens += record.usage.output_tokens or 0

    def absorb(self, other: "KeptRun") -> None:
        """Count all of another run's requests: both turned out to be one."""
        if other.started_at < self.started_at:
            self.started_at, self.started_unix = other.started_at, other.started_unix
        self.ended_at = max(self.ended_at, other.ended_at)
        self.ended_unix = max(self.ended_unix, other.ended_unix)
        self.requests += other.requests
        self.outcomes.update(other.outcomes)
        self.output_tokens += other.output_tokens

    def summary(self) -> RunSummary:
        """The run in one line: with its report's numbers, if that is of all its requests."""
        report = self.whole_report
        slots = max(sum(self.slots.values()), 1)
        summary = RunSummary(
            run=self.run.id,
            name=self.run.name,
            started_unix=self.started_unix,
            makespan_s=self.ended_at - self.started_at,
            requests=self.requests,
            outcomes=dict(self.outcomes),
            nodes=len(self.slots),
            slots=slots,
            bound_waves=waves_bound(self.requests, slots),
            bound_provable=None,
            speedup=None,
            efficiency=None,
            output_tokens=self.output_tokens,
            request=self.request,
        )
        return summary if report is None else told_by(summary, report)


def told_by(summary: RunSummary, report: RunReport) -> RunSummary:
    """A run in one line, with the numbers that its report has."""
    return msgspec.structs.replace(
        summary,
        makespan_s=report.makespan_s,
        outcomes=report.outcomes,
        nodes=len(report.per_node),
        slots=report.slots,
        bound_waves=report.bound_waves,
        bound_provable=report.bound_provable,
        speedup=report.speedup,
        efficiency=report.efficiency,
    )


@dataclass(frozen=True, slots=True)
class Settled:
    """What settle() found: runs that grew, and their new requests (number -> run)."""

    grown: tuple[KeptRun, ...]
    joined: Mapping[int, int]
    merged: Mapping[int, int]  # a run that is no longer one -> the one it is part of


class RunBook:
    """All runs of which memory holds something. Note each request that ended in ``marks``, then settle()."""

    def __init__(self, known: Mapping[int, int] | None = None) -> None:
        """``known``: requests whose run was found in an earlier life (number -> run)."""
        self.runs: dict[int, KeptRun] = {}
        self._known = dict(known or {})
        self._by_id: dict[str, KeptRun] = {}
        self.marks = Marks()
        self._run_of: dict[int, int] = {}  # number of a request -> number of its run

    def settle(self, records: Sequence[RequestRecord], places: Places, at: float) -> Settled:
        """Group ``records``, all that the ledger holds, ``at`` this moment; ``places`` could serve them.

        One at a time, in any thread; what is asked meanwhile is answered as it was before.
        """
        book = dict(self.runs)
        joined: dict[int, int] = {}
        merged: dict[int, int] = {}
        parts: dict[int, list[Run]] = {}
        for run in group_runs(records):
            marked = [(mark, one) for one in run.records if (mark := self.marks.of(one.id)) is not None]
            if not marked:
                continue
            found = {self._run_of.get(mark.number, self._known.get(mark.number)) for mark, _ in marked}
            known = sorted(one for one in found if one is not None)
            number = known[0] if known else min(mark.number for mark, _ in marked)
            first = min(marked, key=lambda one: one[0].number)[1].id
            kept = book.setdefault(number, KeptRun(number, run, first, changed_at=at, asked_at=at))
            for other in known[1:]:
                self._merge(kept, book.pop(other, None), other)
                merged[other] = number
                parts.setdefault(number, []).extend(parts.pop(other, []))
            parts.setdefault(number, []).append(run)
            for mark, record in marked:
                if mark.number not in self._run_of:
                    self._run_of[mark.number] = number
                    kept.add(record, mark)
                    if self._known.get(mark.number) != number:
                        joined[mark.number] = number
        grown = {number for number in {*joined.values(), *merged.values()} if number in parts}
        for number, runs in parts.items():
            self._renew(book[number], runs, places, at if number in grown else None)
        self.runs = {number: one for number, one in book.items() if number in parts}
        self._by_id = {self.runs[number].run.id: self.runs[number] for number in sorted(self.runs)}
        for number in [*islice(self._run_of, max(len(self._run_of) - LIMIT_MARKS, 0))]:
            del self._run_of[number]
        return Settled(tuple(self.runs[number] for number in sorted(grown)), joined, merged)

    def id_of(self, request: RequestId) -> str | None:
        """The id of the run that a request is of, if that began before what memory holds; else None."""
        mark = self.marks.of(request)
        kept = None if mark is None else self.runs.get(self._run_of.get(mark.number, 0))
        if kept is None or (kept.run.records[0].id == request and len(kept.run.records) == kept.requests):
            return None
        return kept.run.id

    def reckoned(self, run: Run) -> RunReport | None:
        """The report that was made of exactly these requests, if there is one."""
        kept = self._by_id.get(run.id)
        is_same = kept is not None and kept.requests == len(run.records) and kept.ended_at == run.ended_at
        return kept.whole_report if kept is not None and is_same else None

    def due(self, at: float) -> list[KeptRun]:
        """The runs whose report is to be made now: they have most likely ended, or have long been without."""
        return [
            one
            for one in self.runs.values()
            if not one.is_asked and (at - one.changed_at >= QUIET_S or at - one.asked_at >= LONGEST_S)
        ]

    def due_in(self, at: float) -> float | None:
        """Seconds until one is due; None: a report was asked of each."""
        waits = (
            min(one.changed_at + QUIET_S, one.asked_at + LONGEST_S) - at
            for one in self.runs.values()
            if not one.is_asked
        )
        return min(waits, default=None)

    def _merge(self, kept: KeptRun, absorbed: KeptRun | None, other: int) -> None:
        if absorbed is not None:
            kept.absorb(absorbed)
        for request, run in self._run_of.items():
            if run == other:
                self._run_of[request] = kept.number

    def _renew(self, kept: KeptRun, runs: list[Run], places: Places, grown_at: float | None) -> None:
        """Let a run have the records that memory holds of it now."""
        records = sorted((one for run in runs for one in run.records), key=lambda one: one.arrived_at)
        name = runs[0].name
        id_ = name or (id_of(records) if len(records) == kept.requests else kept.run.id)
        kept.run = Run(id_, name, tuple(records))
        if grown_at is None:
            return
        kept.changed_at = grown_at
        slots = slots_of(able(places, records))
        kept.slots = seen_slots([service for one in records for service in one.services()], slots)
