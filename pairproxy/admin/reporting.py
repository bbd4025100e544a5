"""The report of a run, as the JSON of api.schema: what to read is read at once, what takes long is left over.

A run of hundreds of requests takes parts of a second to be reckoned. So each question reads what is needed in
the caller's thread and returns the rest as a function of values only, which any thread may run.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from pairproxy.admin.moment import Known, caches_of, look
from pairproxy.api.reports import report_of
from pairproxy.api.schema import Report
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.progress import Progress, progress_of
from pairproxy.core.accounting.report import RunReport, report_run
from pairproxy.core.accounting.runs import Group, Run, current_of, group_all, is_id, known_as, recent
from pairproxy.core.accounting.works import slots_of
from pairproxy.core.models import NodeId, RequestId
from pairproxy.core.scheduler import Scheduler
from pairproxy.core.whatif.alone import modelled_t1s
from pairproxy.core.whatif.recording import Recording, record
from pairproxy.history.reading import Past as Disk

PAUSE_TIMES = 100.0  # as long as a report took nobody who only watches makes another: a hundredth of a core
MOST_MODELLED = 1000  # requests of a run; a larger one has no modelled T1, which would take many seconds
MOST_KEPT = 16  # reports, some kB each: of runs that go on side by side, and of those that were looked at


class Past(Protocol):
    """What is kept of runs beyond the ledger's memory. Any thread may ask it."""

    @property
    def problem(self) -> str | None:
        """Why it is not written now."""

    @property
    def disk(self) -> Disk:
        """What is on disk of it. Raises StoreError."""

    def id_of(self, request: RequestId) -> str | None:
        """The id of the run that a request is of, if that began before what memory holds; else None."""

    def reckoned(self, run: Run) -> RunReport | None:
        """The report that was made of exactly these requests, if there is one."""

    def report(self, name: str, *, with_recording: bool = False) -> Report | None:
        """The last run of this name, or the one with this id."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What who watches is told of runs. ``run_of``: request that is open -> its run."""

    last_run: RunReport | None = None
    current: Progress | None = None
    current_report: RunReport | None = None  # of what of the current run has ended
    run_of: Mapping[RequestId, str] = field(default_factory=dict)


class Reports:
    """Makes reports of what a ledger holds, with the speeds that a scheduler knows."""

    def __init__(self, scheduler: Scheduler, ledger: Ledger, now: Callable[[], float]) -> None:
        self._scheduler = scheduler
        self._ledger = ledger
        self._now = now
        self._kept: dict[str, tuple[Run, RunReport]] = {}  # by run, the oldest first
        self._made: tuple[int, str] | None = None
        self._next_at = float("-inf")  # for who only watches
        self._is_behind = False
        self._one_at_a_time = threading.Lock()
        self._latest = Watched()
        self.past: Past | None = None  # set when it is known

    def made(self) -> tuple[int, str] | None:
        """How many reports were made by now, and the run of the last one; None: none yet."""
        return self._made

    def kept(self) -> tuple[RunReport, ...]:
        """The reports that were made last."""
        return tuple(report for _, report in self._kept.copy().values())  # a thread may add one

    def next_s(self) -> float | None:
        """Seconds until the report of a run that grew may be made anew for who watches; None: none did."""
        return max(self._next_at - self._now(), 0.0) if self._is_behind else None

    def last_run(self) -> Callable[[], RunReport | None]:
        """What makes the report of the run that ended last; None where there is none. May be a little old."""
        watched = self.watched()
        return lambda: watched().last_run

    @property
    def latest(self) -> Watched:
        """What who watches was told of runs last."""
        return self._latest

    def watched(self, *, reckons: bool = True) -> Callable[[], Watched]:
        """What makes all that who watches is told of runs.

        Reports may be a little old while a long run grows: who asks every second must not keep a core busy.
        Without ``reckons`` none is made, and nobody who makes one is waited for.
        """
        known = self._look()

        def make() -> Watched:
            groups = self._known_as(group_all(recent(known.records, known.opened), known.opened))
            current = current_of(groups, known.at)
            current_run, last = None if current is None else current.run, _last(groups)
            if reckons:
                self._refresh([run for run in (current_run, last) if run is not None], known)
            report = self._kept_of(current_run)
            self._latest = Watched(
                last_run=self._kept_of(last),
                current=None if current is None else _progress(current, known, report),
                current_report=report,
                run_of={one.id: group.id for group in groups for one in group.open},
            )
            return self._latest

        return make

    def report(
        self,
        name: str | None,
        names: Mapping[str, str],
        *,
        with_recording: bool = False,
        is_watched: bool = False,
    ) -> Callable[[], Report]:
        """What makes the report of the last run, or of the last one called ``name`` (or by its id).

        ``is_watched``: the one that was made last for who watches will do.
        """
        own, told, policy = self._scheduler.own, dict(names), self._scheduler.rules.policy
        known = self._look()
        findings = tuple(finding.sentence for finding in self._scheduler.findings)

        def make() -> Report:
            run = _find(self._known_as(known.groups()), name)
            if run is None:
                return self._remembered(name, told, with_recording) or Report(None, (), told, node=own)
            kept = self._kept.get(run.id) if is_watched else None
            run, reported = kept or (run, self._reckon(run, known))
            places, caches = known.places_for(run.records), caches_of(known.engines)
            recording = (
                record(run, own, policy, places, known.kinds, caches, told) if with_recording else None
            )
            return report_of(
                reported, run.records, run.started_at, node=own, names=told,
                started_unix=known.wall_at - (known.at - run.started_at), recording=recording,
                findings=findings,
            )  # fmt: skip

        return make

    def recorded(self, run: Run, names: Mapping[str, str]) -> Callable[[], tuple[RunReport, Recording]]:
        """What makes the report of a run with all that a replay of it needs."""
        known, own, told = self._look(), self._scheduler.own, dict(names)
        policy = self._scheduler.rules.policy

        def make() -> tuple[RunReport, Recording]:
            places = known.places_for(run.records)
            recording = record(run, own, policy, places, known.kinds, caches_of(known.engines), told)
            return self._reckon(run, known), recording

        return make

    def _remembered(self, name: str | None, names: Mapping[str, str], with_recording: bool) -> Report | None:
        """A run of which memory holds nothing any more, by the names that nodes have now."""
        past = None if name is None or self.past is None else self.past
        found = None if past is None or name is None else past.report(name, with_recording=with_recording)
        return None if found is None else msgspec.structs.replace(found, names={**found.names, **names})

    def _refresh(self, runs: Iterable[Run], known: Known) -> None:
        """Make one report of these runs anew if it is time; one that was never made is made in any case."""
        behind = [run for run in runs if not self._is_kept(run)]
        for run in behind:
            if run.id not in self._kept:
                self._reckon(run, known)
        behind = [run for run in behind if not self._is_kept(run)]
        if behind and self._now() >= self._next_at:
            order = [*self._kept]
            self._reckon(min(behind, key=lambda run: order.index(run.id) if run.id in order else -1), known)
        self._is_behind = any(not self._is_kept(run) for run in behind)

    def _is_kept(self, run: Run) -> bool:
        kept = self._kept.get(run.id)
        return kept is not None and _key(kept[0]) == _key(run)

    def _kept_of(self, run: Run | None) -> RunReport | None:
        kept = None if run is None else self._kept.get(run.id)
        return None if kept is None else kept[1]

    def _reckon(self, run: Run, known: Known) -> RunReport:
        """The report of a run, kept until it grows."""
        with self._one_at_a_time:
            if self._is_kept(run):
                return self._kept[run.id][1]
            began_at = self._now()
            made = None if self.past is None else self.past.reckoned(run)
            found = made or _reckoned(run, self._scheduler.own, known)
            took_s = self._now() - began_at
            self._kept = {key: one for key, one in self._kept.items() if key != run.id} | {
                run.id: (run, found)
            }
            for key in [*self._kept][:-MOST_KEPT]:
                del self._kept[key]
            self._made = (1 if self._made is None else self._made[0] + 1, run.id)
            self._next_at = max(self._next_at, self._now() + PAUSE_TIMES * took_s)
            return found

    def _known_as(self, groups: tuple[Group, ...]) -> tuple[Group, ...]:
        """A run that outgrew memory keeps its id."""
        return groups if self.past is None else known_as(groups, self.past.id_of)

    def _look(self) -> Known:
        return look(self._scheduler, self._ledger, self._now())


def _last(groups: Iterable[Group]) -> Run | None:
    """The run of which something ended last."""
    runs = [run for group in groups if (run := group.run) is not None]
    return max(runs, key=lambda run: (run.ended_at, run.started_at), default=None)


def _find(groups: Iterable[Group], name: str | None) -> Run | None:
    """The last run, or the last one called ``name``, or the one with this id."""
    wanted = [group for group in groups if name is None or group.name == name]
    return _last(wanted) or _last(
        group for group in groups if name is not None and is_id(group.id, group.name, name)
    )


def _key(run: Run) -> tuple[int, float]:
    return len(run.records), run.ended_at


def _progress(group: Group, known: Known, report: RunReport | None) -> Progress:
    """How far a run is; with as many slots as its report counts with, if there is one."""
    places = known.places_for(group.ended) if group.ended else known.places_of(group.models)
    slots = sum(slots_of(places).values())
    return progress_of(group, known.running, max(slots, report.slots if report else 0), known.at)


def _reckoned(run: Run, own: NodeId, known: Known) -> RunReport:
    places = known.places_for(run.records)
    caches = caches_of(known.engines)
    t1s = modelled_t1s(run, places, caches) if len(run.records) <= MOST_MODELLED else {}
    best = min(t1s.values(), key=lambda t1: t1.value_s, default=None)
    barred = known.barred(run.records)
    return report_run(run, slots_of(places), best, places=places, t1_local=t1s.get(own), barred=barred)
