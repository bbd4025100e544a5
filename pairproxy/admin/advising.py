"""What would make this node's workload faster, as the JSON of api.advice.

What is read is read at once; the simulation of it takes seconds and is done in a thread, one at a time, and
kept until the run grows.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from pairproxy.admin.moment import Engines, caches_of, engines_of
from pairproxy.admin.server import answer
from pairproxy.api.advice import Advice, AdviceReport, Lever
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.runs import Run, group_runs, is_id
from pairproxy.core.accounting.works import Places, able, holding
from pairproxy.core.advice.evidence import Conclusion, Elsewhere, Evidence, Service
from pairproxy.core.advice.gathering import MOST_REQUESTS, Known, gather, speed_against
from pairproxy.core.advice.tree import advise
from pairproxy.core.advice.trials import Trials
from pairproxy.core.discipline import Finding
from pairproxy.core.errors import NotRemembered
from pairproxy.core.models import ModelName, NodeId, Outcome, Rates
from pairproxy.core.scheduler import Scheduler
from pairproxy.hardware import memory
from pairproxy.peers.book import PeerBook
from pairproxy.responses import Asked, StreamResponse

MOST_S = 15.0  # after that no other trial is begun: a person waits, and clients give up after 30 s
FEWEST_REQUESTS = 3  # of a run that says something of a workload; a smaller one counts if there is no other
NO_STREAM = "No reply came as a stream of counted tokens, so TTFT and TPOT are not known."
ROUGH = "The run is large: it was simulated without the scheduler, each request where it is done soonest."
NO_HITS = "The engines do not say how much of a prompt they found in their caches."
NO_ACCOUNT = "The engines do not tell their own time, so what passed between them and this node is not known."


@dataclass(frozen=True, slots=True)
class _Seen:
    """All that is known at one moment, copied; grouped and reckoned in a thread."""

    records: tuple[RequestRecord, ...]
    own: NodeId
    policy: str
    places: Places
    engines: Engines
    names: dict[str, str]
    up: tuple[NodeId, ...]  # peers that are heard
    findings: tuple[Finding, ...]
    service: Service


@dataclass(frozen=True, slots=True)
class _Kept:
    key: tuple[object, ...]
    report: AdviceReport


class Advising:
    """Gathers what is known of a run, lets the tree conclude from it, and keeps the last answer."""

    def __init__(
        self,
        scheduler: Scheduler,
        ledger: Ledger,
        book: PeerBook,
        now: Callable[[], float],
        loop_lag: Callable[[], float],
    ) -> None:
        """``name``, this node's, is set when it is known or changes."""
        self.name = ""
        self._scheduler, self._ledger, self._book = scheduler, ledger, book
        self._now, self._loop_lag = now, loop_lag
        self._kept: _Kept | None = None
        self._one_at_a_time = asyncio.Lock()

    async def page(self, request: Asked) -> StreamResponse:
        """GET /advice[?run=NAME]; one at a time. Raises NotRemembered."""
        async with self._one_at_a_time:
            make = self.advice(request.query.get("run"))
            body = await asyncio.to_thread(lambda: msgspec.json.encode(make()))
        return answer(msgspec.Raw(body))

    def advice(self, name: str | None) -> Callable[[], AdviceReport]:
        """What makes GET /advice of the last run, or of the one called ``name``; any thread may call it.

        It raises NotRemembered for a name that no run has.
        """
        seen = self._see()

        def make() -> AdviceReport:
            run = _find(seen.records, name)
            if run is None:
                return AdviceReport(seen.own, None, 0, ())
            known = _known(run, seen)
            slots = frozenset((place, count) for place, (count, _) in known.places.items())
            key = (run.id, len(run.records), run.ended_at, known.policy, slots)
            if self._kept is None or self._kept.key != key:
                found = _reckoned(run, replace(known, memory=memory()), time.monotonic() + MOST_S)
                self._kept = _Kept(key, found)
            return self._kept.report

        return make

    def _see(self) -> _Seen:
        at, own, links = self._now(), self._scheduler.own, [*self._book.links]
        engines = engines_of(self._scheduler, at)
        names: dict[str, str] = {link.node: link.name for link in links}
        return _Seen(
            records=self._ledger.records,
            own=own,
            policy=self._scheduler.rules.policy,
            places=self._scheduler.places(at),
            engines=engines,
            names=names | {own: self.name},
            up=tuple(NodeId(link.node) for link in links if link.is_up),
            findings=tuple(self._scheduler.findings),
            service=Service(
                loop_lag_s=self._loop_lag(),
                reused=sum(link.upstream.reused for link in links),
                dialled=sum(link.upstream.dialled for link in links),
                foreign=sum(state.foreign for place, (state, _) in engines.items() if place.node == own),
            ),
        )


def _find(records: Sequence[RequestRecord], name: str | None) -> Run | None:
    """The run of this name; without one the last that says something, else the last. Raises NotRemembered."""
    runs = group_runs(records)
    if name is not None:
        named = [run for run in runs if name == run.name or is_id(run.id, run.name, name)]
        if not named:
            raise NotRemembered(
                "There is no run of this name in the daemon's memory, which begins with its start. Without "
                "--run the last is looked at; `pairproxy whatif --run NAME` replays one that is kept."
            )
        return max(named, key=lambda run: run.ended_at)
    last = max(runs, key=lambda run: run.ended_at, default=None)
    telling = [run for run in runs if _served(run) >= FEWEST_REQUESTS]
    return max(telling, key=lambda run: run.ended_at, default=last)


def _known(run: Run, seen: _Seen) -> Known:
    models = {record.model for record in run.records}
    places = able(seen.places, run.records)
    return Known(
        own=seen.own,
        policy=seen.policy,
        places=places,
        kinds={place: state.kind for place, (state, _) in seen.engines.items()},
        caches=caches_of(seen.engines),
        names=seen.names,
        findings=seen.findings,
        elsewhere=tuple(_elsewhere(sorted(models), seen, {place.node for place in places})) if places else (),
        service=seen.service,
    )


def _elsewhere(models: Sequence[ModelName], seen: _Seen, used: set[NodeId]) -> Iterator[Elsewhere]:
    """The peers that are heard, offer slots, and could take none of the run."""
    having = {place.node for place in holding(seen.places, models)}
    mine = _rates(seen.own, seen.engines)
    for node in seen.up:
        states = [state for place, (state, _) in seen.engines.items() if place.node == node]
        slots = sum(state.slots for state in states)
        if node not in used and slots:
            times = speed_against(mine, _rates(node, seen.engines))
            lacks = () if node in having else tuple(models)
            yield Elsewhere(node, seen.names[node], slots, lacks, times)


def _rates(node: NodeId, engines: Engines) -> dict[ModelName, Rates]:
    return {
        one.replica.model: one.rates
        for place, (state, _) in engines.items()
        if place.node == node
        for one in state.replicas
    }


def _served(run: Run) -> int:
    return sum(record.outcome is Outcome.DONE for record in run.records)


def _reckoned(run: Run, known: Known, until: float) -> AdviceReport:
    """The answer; no trial is begun after ``until``, of the monotonic clock."""
    evidence = gather(run, known)
    trials = Trials(evidence, lambda: time.monotonic() > until)
    found = advise(evidence, trials)
    return AdviceReport(
        node=known.own,
        run=run.id,
        requests=evidence.requests,
        advice=tuple(map(_told, found)),
        model_error=trials.error,
        missing=tuple(_missing(run, evidence, trials)),
    )


def _told(one: Conclusion) -> Advice:
    lever: Lever = one.lever  # type: ignore[assignment]  # a test compares the two lists
    return Advice(lever, one.helps, one.sentence, one.numbers, one.gain_s, one.gain)


def _missing(run: Run, evidence: Evidence, trials: Trials) -> Sequence[str]:
    left_out = len(run.records) - evidence.requests
    served = _served(run)
    said = [
        (trials.problem, bool(trials.problem)),
        (
            f"Trials were cut after {MOST_S:.0f} s: name a smaller run with --run to have all of them.",
            trials.is_cut,
        ),
        (f"The first {MOST_REQUESTS} of {served} requests were looked at.", served > MOST_REQUESTS),
        (
            f"{left_out} requests did not end well, or counted no tokens, and are left out.",
            left_out > 0 and served <= MOST_REQUESTS,
        ),
        (ROUGH, trials.is_rough),
        (NO_STREAM, evidence.timing.ttft_s is None),
        (NO_HITS, evidence.prefixes.reached is None),
        (NO_ACCOUNT, evidence.service.transport_s is None),
    ]
    return [sentence for sentence, is_so in said if is_so]
