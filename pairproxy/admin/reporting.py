"""The report of a run, as the JSON of api.schema: what to read is read at once, what takes long is left over.

A run of hundreds of requests takes parts of a second to be reckoned. So report() and last_run() read what is
needed in the caller's thread and return the rest as a function of values only, which any thread may run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pairproxy.api.reports import report_of
from pairproxy.api.schema import Report
from pairproxy.clock import wall
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.report import RunReport, report_run
from pairproxy.core.accounting.runs import Run, group_runs
from pairproxy.core.accounting.works import Places
from pairproxy.core.documents import EngineState
from pairproxy.core.models import BLOCK_TOKENS, NodeId, Place
from pairproxy.core.prefixes import size_of
from pairproxy.core.scheduler import Scheduler
from pairproxy.core.whatif.alone import modelled_t1s
from pairproxy.core.whatif.recording import record

PAUSE_TIMES = 20.0  # as long as a report took nobody who only looks makes another: a twentieth of a core
MOST_MODELLED = 1000  # requests of a run; a larger one has no modelled T1, which would take many seconds


@dataclass(frozen=True, slots=True)
class _Kept:
    """The last report that was made, of which run, and until when it is good enough for who only looks."""

    key: tuple[str, int, float]
    run: RunReport
    good_until: float


class Reports:
    """Makes reports of what a ledger holds, with the speeds that a scheduler knows."""

    def __init__(self, scheduler: Scheduler, ledger: Ledger, now: Callable[[], float]) -> None:
        self._scheduler = scheduler
        self._ledger = ledger
        self._now = now
        self._kept: _Kept | None = None

    def last_run(self) -> Callable[[], RunReport | None]:
        """What makes the report of the run that ended last; None where there is none.

        It may be a little old while a long run grows: whoever asks every second must not keep a core busy.
        """
        run, kept = self._find(None), self._kept
        if run is None:
            return lambda: None
        if kept is not None and kept.run.run == run.id and self._now() < kept.good_until:
            return lambda: kept.run
        return self._reported(run)

    def report(
        self, name: str | None, names: Mapping[str, str], *, with_recording: bool = False
    ) -> Callable[[], Report]:
        """What makes the report of the last run, or of the last one called ``name`` (or by its id)."""
        run, own = self._find(name), self._scheduler.own
        told = dict(names)
        if run is None:
            return lambda: Report(None, (), told, node=own)
        reported, policy = self._reported(run), self._scheduler.rules.policy
        places, engines = self._places(run), self._engines()
        started_unix = wall() - (self._now() - run.started_at)
        findings = tuple(finding.sentence for finding in self._scheduler.findings)

        def make() -> Report:
            kinds = {place: engine.kind for place, (engine, _) in engines.items()}
            recording = (
                record(run, own, policy, places, kinds, _caches(engines), told) if with_recording else None
            )
            return report_of(
                reported(), run.records, run.started_at, node=own, names=told,
                started_unix=started_unix, recording=recording, findings=findings,
            )  # fmt: skip

        return make

    def _find(self, name: str | None) -> Run | None:
        runs = group_runs(self._ledger.records)
        wanted = [run for run in runs if name is None or run.name == name]
        wanted = wanted or [run for run in runs if run.id == name]
        return max(wanted, key=lambda run: run.ended_at, default=None)

    def _reported(self, run: Run) -> Callable[[], RunReport]:
        """The report of a run, kept until it grows: faces ask every second, and a long run takes time."""
        key = (run.id, len(run.records), run.ended_at)
        kept = self._kept
        if kept is not None and kept.key == key:
            return lambda: kept.run
        places, engines, own = self._places(run), self._engines(), self._scheduler.own

        def make() -> RunReport:
            began_at = self._now()
            found = self._reckon(run, own, places, _caches(engines))
            ended_at = self._now()
            self._kept = _Kept(key, found, ended_at + PAUSE_TIMES * (ended_at - began_at))
            return found

        return make

    def _reckon(self, run: Run, own: NodeId, places: Places, caches: Mapping[Place, int]) -> RunReport:
        slots: dict[NodeId, int] = {}
        for place, (count, _) in places.items():
            slots[place.node] = slots.get(place.node, 0) + count
        t1s = modelled_t1s(run, places, caches) if len(run.records) <= MOST_MODELLED else {}
        best = min(t1s.values(), key=lambda t1: t1.value_s, default=None)
        return report_run(run, slots, best, places=places, t1_local=t1s.get(own))

    def _places(self, run: Run) -> Places:
        """Those that could have served some of a run."""
        models = {record.model for record in run.records}
        return {
            place: known
            for place, known in self._scheduler.places(self._now()).items()
            if not models.isdisjoint(known[1])
        }

    def _engines(self) -> dict[Place, tuple[EngineState, int | None]]:
        """Each engine that is known, and the cache that it tells of."""
        at, local = self._now(), self._scheduler.local
        found: dict[Place, tuple[EngineState, int | None]] = {}
        for state in local.states(self._scheduler.running, NodeId(""), at):
            known = local.get(state.engine)
            cache = None if known is None else known.cache_tokens
            found[Place(self._scheduler.own, state.engine)] = (state, cache)
        for document, _ in self._scheduler.nodes.documents(at):
            for state in document.engines:
                found[Place(document.node, state.engine)] = (state, None)
        return found


def _caches(engines: Mapping[Place, tuple[EngineState, int | None]]) -> dict[Place, int]:
    """The tokens that each engine's prefix cache holds, as far as it can be known."""
    return {
        place: BLOCK_TOKENS
        * size_of(
            state.kind,
            max(state.slots, 1),
            next((one.replica.context_tokens for one in state.replicas), None),
            cache,
        ).blocks
        for place, (state, cache) in engines.items()
    }
