"""This node's own engines as the scheduler sees them: replicas, slots, speeds."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pairproxy.core.catalogue import node_catalogue
from pairproxy.core.costs import Costs
from pairproxy.core.documents import (
    EngineCatalogue,
    EngineReport,
    EngineState,
    NodeCatalogue,
    ReplicaState,
    Withheld,
)
from pairproxy.core.engine_prefixes import EnginePrefixes
from pairproxy.core.foreign import ForeignWork
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, Rates, Replica, Usage
from pairproxy.core.prefix_news import bounded
from pairproxy.core.running import Running, RunningTable
from pairproxy.core.speeds import MIN_LOAD_S, keys_of
from pairproxy.core.timing import Timing

MOST_LOST: Final = 32  # engines that are remembered while they do not answer; no machine runs more
MOST_ASKED: Final = 1024  # names of models, also such as nobody has, for which an answer is kept
LAST_PROMPTS = ("ollama", "lmstudio")  # kinds whose cache is the last prompt of each slot


Told = Mapping[EngineId, int] | None
"""The version of each engine's prefixes that a reader has; None: it is not told of them."""
Holding = tuple[Place, EngineReport, ReplicaState]
"""A place of this node with its engine and the replica there."""


@dataclass(slots=True)
class _Answers:
    """What was answered since something changed: each is asked for several times a request."""

    version: int = -1
    slots: dict[Place, int] | None = None
    rates: dict[tuple[EngineId, ModelName], Rates] = field(default_factory=dict)
    all_rates: dict[EngineId, dict[ModelName, Rates]] = field(default_factory=dict)
    places: dict[tuple[ModelName, EngineId | None], Sequence[Holding]] = field(default_factory=dict)
    held: dict[tuple[EngineId, ModelName], tuple[Rates, Replica | None]] = field(default_factory=dict)


class LocalEngines:
    """The latest report of each engine of this node."""

    def __init__(self, own: NodeId, costs: Costs) -> None:
        self.own = own
        self.costs = costs
        self.foreign = ForeignWork()
        self.withheld = ""
        """Why their slots are not offered to peers (documents.Withheld); "": they are."""
        self._new_prompts: dict[EngineId, int] = {}  # prompts that an engine had not had, as far as we know
        self.prefixes = EnginePrefixes()
        self._reports: dict[EngineId, EngineReport] = {}
        self._lost: OrderedDict[EngineId, EngineReport] = OrderedDict()
        self._catalogue: NodeCatalogue | None = None
        self.news = 0
        """Grows with every report, and every engine that is lost."""
        self._answers = _Answers()

    @property
    def why_nothing(self) -> str:
        """Why peers get no slot here at present (documents.Withheld); "": they do."""
        return self.withheld or ("" if self._reports else Withheld.NO_ENGINE)

    @property
    def version(self) -> int:
        """Grows with everything that may change what is answered of slots, speeds and places."""
        return self.news + self.costs.lessons + self.foreign.changes

    def report(self, report: EngineReport) -> None:
        """Take in what probing an engine told."""
        self._reports[report.engine] = report
        for key in keys_of(report):
            self.costs.identify(key)
        self.prefixes.report(report)
        self._lost.pop(report.engine, None)
        self._catalogue = None
        self.news += 1

    def lose(self, engine: EngineId) -> None:
        """Use an engine that does not answer no more; what it had it may have again in a moment."""
        report = self._reports.pop(engine, None)
        self.prefixes.lose(engine)
        self.foreign.forget(engine)
        self._new_prompts.pop(engine, None)
        if report is not None:
            self._lost[engine] = report
            if len(self._lost) > MOST_LOST:
                self._lost.popitem(last=False)
        self._catalogue = None
        self.news += 1

    def finished(self, running: Running, usage: Usage, at: float) -> None:
        """Take in a request that ended well on an engine of this node: it teaches, and it tells of others."""
        engine, model = running.place.engine, running.request.model
        # One that only waited for its turn tells load seconds, too: it must have been cold to us as well.
        has_loaded = running.was_cold and (usage.load_s or 0.0) > MIN_LOAD_S
        is_cold = self._is_cold(running) or has_loaded
        if not self.costs.may_learn(engine, model, at):
            return
        timing = running.timing(usage)
        part = self.learn(engine, model, usage, timing, is_cold=is_cold)
        if part is not None:
            self.foreign.saw(engine, part, sum(timing.decoding(usage.decode_s).values()), at)
            self.slots()  # no more are lost than it has, also where nobody else asks before they come back

    def _is_cold(self, running: Running) -> bool:
        """Whether its engine cannot have had any of its prompt, though it does not say so.

        None of it was in the index, and as many other prompts have come since the index was begun as the
        engine has slots. True of engines that keep the last prompt of each slot and no more.
        """
        if running.held_blocks or not running.request.prefix:
            return False
        report = self._reports.get(running.place.engine)
        if report is None or report.kind not in LAST_PROMPTS:
            return False
        others = self._new_prompts.get(report.engine, 0)
        self._new_prompts[report.engine] = others + 1
        return others >= max(report.slots, 1)

    def learn(
        self, engine: EngineId, model: ModelName, usage: Usage, timing: Timing, *, is_cold: bool = False
    ) -> float | None:
        """Let the speed of a model on an engine be known; returns how fast it was (Costs.learn)."""
        report = self._reports.get(engine)
        kind = report.kind if report else ""
        return self.costs.learn(engine, model, usage, timing, kind=kind, is_cold=is_cold)

    def measured(self, engine: EngineId, model: ModelName, usage: Usage, company: int = 1) -> None:
        """Take in a calibration. Alone it read its whole prompt anew, even if the engine does not say so."""
        if company > 1:
            self.costs.calibrate(engine, model, usage, company)
            return
        exact = replace(usage, cached_tokens=usage.cached_tokens or 0)
        self.learn(engine, model, exact, Timing())

    def reports(self) -> Iterable[EngineReport]:
        """The latest report of every engine that answers."""
        return self._reports.values()

    def get(self, engine: EngineId) -> EngineReport | None:
        """The latest report of an engine; None while it does not answer."""
        return self._reports.get(engine)

    def catalogue(self) -> NodeCatalogue:
        """What the engines list, as other nodes are told."""
        if self._catalogue is None:
            reports = self._reports.values()
            engines = tuple(EngineCatalogue(one.engine, one.kind, one.catalogue) for one in reports)
            self._catalogue = node_catalogue(self.own, engines)
        return self._catalogue

    def replicas(self) -> list[Replica]:
        """What all engines of this node list."""
        return [replica for report in self._reports.values() for replica, _ in report.replicas]

    def slots(self) -> dict[Place, int]:
        """How many requests each engine is given at most; never none, and fewer beside foreign work."""
        answers = self._known()
        if answers.slots is None:
            reports = self._reports.items()
            answers.slots = {Place(self.own, engine): self.offered(report) for engine, report in reports}
        return answers.slots

    def offered(self, report: EngineReport) -> int:
        """Slots of an engine that are offered, free or not."""
        slots = max(report.slots, 1)
        return slots - self.foreign.lost(report.engine, slots)

    def rates(self, engine: EngineId, model: ModelName) -> Rates:
        """How fast a model runs on an engine, the best known."""
        known, asked = self._known().rates, (engine, model)
        rates = known.get(asked)
        if rates is not None:
            return rates
        report = self._reports.get(engine) or self._lost.get(engine)
        if len(known) >= MOST_ASKED:
            known.clear()
        rates = known[asked] = self.costs.rates(engine, report.kind if report else "", model)
        return rates

    def held(self, engine: EngineId, model: ModelName) -> tuple[Rates, Replica | None]:
        """How fast a model runs on an engine, and what it holds under that name; None: it lists none."""
        known, asked = self._known().held, (engine, model)
        found = known.get(asked)
        if found is None:
            report = self._reports.get(engine)
            listed = [one for one, _ in report.replicas if one.model == model] if report is not None else []
            if len(known) >= MOST_ASKED:
                known.clear()
            found = known[asked] = self.rates(engine, model), listed[0] if listed else None
        return found

    def all_rates(self, engine: EngineId) -> dict[ModelName, Rates]:
        """The rates of every model an engine lists."""
        known = self._known().all_rates
        if engine not in known:
            report = self._reports.get(engine)
            models = [replica.model for replica, _ in report.replicas] if report else []
            known[engine] = {model: self.rates(engine, model) for model in models}
        return known[engine]

    def places(self, model: ModelName, called: EngineId | None) -> Sequence[Holding]:
        """Where this node can run a model. The called engine first."""
        known, asked = self._known().places, (model, called)
        found = known.get(asked)
        if found is not None:
            return found
        if len(known) >= MOST_ASKED:
            known.clear()
        engines = sorted(self._reports, key=lambda engine: engine != called)
        found = known[asked] = tuple(
            holding for engine in engines for holding in self._holders(self._reports[engine], model)
        )
        return found

    def _known(self) -> _Answers:
        """What was answered, as far as nothing has changed since."""
        version = self.version
        if self._answers.version != version:
            self._answers = _Answers(version)
        return self._answers

    def lost_places(self, model: ModelName) -> Iterator[Holding]:
        """Where this node ran a model until its engine fell silent."""
        for report in self._lost.values():
            yield from self._holders(report, model)

    def _holders(self, report: EngineReport, model: ModelName) -> Iterator[Holding]:
        for replica, is_loaded in report.replicas:
            if replica.model == model:
                rates, continues = self.rates(report.engine, model), model in report.continuing
                state = ReplicaState(replica, is_loaded, rates, continues)
                yield Place(self.own, report.engine), report, state

    def unlisted(self, model: ModelName, called: EngineId) -> Iterator[Holding]:
        """The called engine for a model it does not list, as a replica that equals nobody's."""
        if called in self._reports:
            state = ReplicaState(Replica(model, ""), True, self.rates(called, model))
            yield Place(self.own, called), self._reports[called], state

    def states(
        self, running: RunningTable, reader: NodeId, at: float, told: Told = None
    ) -> tuple[EngineState, ...]:
        """The engines as the state document for ``reader`` shows them.

        ``told``: the version of each engine's prefixes that the reader has; None: it is not told of them.
        """
        states = []
        for engine, report in self._reports.items():
            here = running.at_place(Place(self.own, engine))
            # What the reader gave up it counts no longer, but it holds its slot until its engine is free.
            others = [one for one in here if one.request.origin != reader or one.is_settling]
            state = self._state(report, here, others, at)
            news = None if told is None else self.prefixes.news(engine, told.get(engine))
            confidence = self.prefixes.confidence(engine)
            states.append(replace(state, prefixes=news, cache_confidence=confidence))
        return bounded(states)

    def lost_states(self, running: RunningTable, at: float) -> tuple[EngineState, ...]:
        """The engines that do not answer, as they were."""
        states = []
        for engine, report in self._lost.items():
            here = running.at_place(Place(self.own, engine))
            states.append(self._state(report, here, here, at))
        return tuple(states)

    def _state(
        self, report: EngineReport, here: list[Running], others: list[Running], at: float
    ) -> EngineState:
        return EngineState(
            engine=report.engine,
            kind=report.kind,
            version=report.version,
            slots=self.offered(report),
            in_flight=len(here),
            yours=len(here) - len(others),
            frees_in_s=tuple(sorted(max(one.remaining_s(at), 0.0) for one in others)),
            replicas=tuple(
                ReplicaState(
                    replica,
                    is_loaded,
                    self.rates(report.engine, replica.model),
                    replica.model in report.continuing,
                )
                for replica, is_loaded in report.replicas
            ),
            cache_tokens=report.cache_tokens,
            foreign=self.foreign.lost(report.engine, max(report.slots, 1)),
        )
