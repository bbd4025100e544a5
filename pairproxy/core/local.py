"""This node's own engines as the scheduler sees them: replicas, slots, speeds."""

from collections.abc import Iterator

from pairproxy.core.costs import Costs
from pairproxy.core.models import (
    EngineId,
    EngineReport,
    EngineState,
    ModelName,
    NodeId,
    Place,
    Rates,
    Replica,
    ReplicaState,
)
from pairproxy.core.running import RunningTable


class LocalEngines:
    """The latest report of each engine of this node."""

    def __init__(self, own: NodeId, costs: Costs) -> None:
        self._own = own
        self.costs = costs
        self._reports: dict[EngineId, EngineReport] = {}

    def report(self, report: EngineReport) -> None:
        """Take in what probing an engine told."""
        self._reports[report.engine] = report

    def lose(self, engine: EngineId) -> None:
        """Forget an engine that does not answer."""
        self._reports.pop(engine, None)

    def slots(self) -> dict[Place, int]:
        """How many requests each engine runs at most; never none."""
        return {Place(self._own, engine): max(report.slots, 1) for engine, report in self._reports.items()}

    def rates(self, engine: EngineId, model: ModelName) -> Rates:
        """How fast a model runs on an engine, the best known."""
        report = self._reports.get(engine)
        return self.costs.rates(engine, report.kind if report else "", model)

    def all_rates(self, engine: EngineId) -> dict[ModelName, Rates]:
        """The rates of every model an engine lists."""
        report = self._reports.get(engine)
        models = [replica.model for replica, _ in report.replicas] if report else []
        return {model: self.rates(engine, model) for model in models}

    def places(
        self, model: ModelName, called: EngineId | None
    ) -> Iterator[tuple[Place, Replica, Rates, bool]]:
        """Where this node can run a model: (place, replica, rates, is it loaded). The called engine first."""
        for engine in sorted(self._reports, key=lambda engine: engine != called):
            for replica, is_loaded in self._reports[engine].replicas:
                if replica.model == model:
                    yield Place(self._own, engine), replica, self.rates(engine, model), is_loaded

    def unlisted(self, model: ModelName, called: EngineId) -> Iterator[tuple[Place, Replica, Rates, bool]]:
        """The called engine for a model it does not list, as a replica that equals nobody's."""
        if called in self._reports:
            yield Place(self._own, called), Replica(model, ""), self.rates(called, model), True

    def states(self, running: RunningTable, reader: NodeId, at: float) -> tuple[EngineState, ...]:
        """The engines as the state document for ``reader`` shows them."""
        states = []
        for engine, report in self._reports.items():
            here = running.at_place(Place(self._own, engine))
            # What the reader gave up it counts no longer, but it holds its slot until its engine is free.
            others = [one for one in here if one.request.origin != reader or one.is_settling]
            states.append(
                EngineState(
                    engine=engine,
                    kind=report.kind,
                    version=report.version,
                    slots=max(report.slots, 1),
                    in_flight=len(here),
                    yours=len(here) - len(others),
                    frees_in_s=tuple(sorted(max(one.remaining_s(at), 0.0) for one in others)),
                    replicas=tuple(
                        ReplicaState(replica, is_loaded, self.rates(engine, replica.model))
                        for replica, is_loaded in report.replicas
                    ),
                )
            )
        return tuple(states)
