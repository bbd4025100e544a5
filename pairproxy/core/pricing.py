"""The candidates of a request: every place that holds its replica, priced in seconds."""

from collections.abc import Collection, Iterator

from pairproxy.core import replicas
from pairproxy.core.avoidance import Avoidance
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import Candidate, ModelName, Place, Rates, Replica, Request
from pairproxy.core.nodes import NodeTable
from pairproxy.core.plan import Occupancy, price
from pairproxy.core.running import RunningTable


class Pricing:
    """Reads what is known of this node, its peers and what runs, and prices requests by it."""

    def __init__(
        self, local: LocalEngines, nodes: NodeTable, running: RunningTable, avoidance: Avoidance
    ) -> None:
        self._local = local
        self._nodes = nodes
        self._running = running
        self._avoidance = avoidance

    def occupancies(self, at: float) -> dict[Place, Occupancy]:
        """Every known place with the seconds until each of its slots is free."""
        mine: dict[Place, list[float]] = {}
        for running in self._running:
            mine.setdefault(running.place, []).append(running.remaining_s(at))
        built = {
            place: Occupancy.of(place, slots, mine.get(place, []))
            for place, slots in self._local.slots().items()
        }
        for document, age in self._nodes.documents(at):
            for engine in document.engines:
                place = Place(document.node, engine.engine)
                others = [seconds - age for seconds in engine.frees_in_s]
                built[place] = Occupancy.of(place, engine.slots, others + mine.get(place, []))
        return built

    def candidates(
        self, request: Request, excluded: Collection[Place], occupancies: dict[Place, Occupancy], at: float
    ) -> list[Candidate]:
        """Where the request may run, priced. Avoided places only if there are no others."""
        costs, limit = self._local.costs, request.max_output_tokens
        output, long = costs.expected_output(request.model, limit), costs.long_output(request.model, limit)
        priced: list[Candidate] = []
        last_resort: list[Candidate] = []
        for place, rates, is_loaded in self.places(request, excluded, at):
            candidate = price(occupancies[place], rates, is_loaded, request.prompt_tokens, output, long)
            if not self._avoidance.is_avoided(place, at):
                priced.append(candidate)
            elif not self._avoidance.is_held_back(place, at):
                last_resort.append(candidate)
        return priced or last_resort

    def places(
        self, request: Request, excluded: Collection[Place], at: float
    ) -> Iterator[tuple[Place, Rates, bool]]:
        """Places with the request's replica: (place, rates, is it loaded). This node's come first.

        A peer's request, and one that must stay here, sees this node only; a peer's, the engine it chose. A
        model that nobody lists goes to the engine whose port was called: its answer is the authoritative one.
        """
        here = list(self._local.places(request.model, request.engine))
        if request.origin is not None and request.engine:
            here = [one for one in here if one[0].engine == request.engine]
        stays = request.origin is not None or request.local_only
        is_elsewhere = not request.local_only and self._nodes.knows(request.model)
        if not here and request.engine is not None and request.origin is None and not is_elsewhere:
            here = list(self._local.unlisted(request.model, request.engine))
        for place, replica, rates, is_loaded in here:
            if place not in excluded and replicas.is_same(replica, here[0][1]):
                yield place, rates, is_loaded
        if stays:
            return
        wanted = here[0][1] if here else self._widest_replica(request.model, at)
        for place, _, state in self._nodes.healthy_replicas(request.model, at):
            if wanted is not None and place not in excluded and replicas.is_same(state.replica, wanted):
                yield place, state.rates, state.is_loaded

    def known_places(self, at: float) -> dict[Place, tuple[int, dict[ModelName, Rates]]]:
        """Every healthy place: its slots, and the rates of each model it holds."""
        known = {
            place: (slots, self._local.all_rates(place.engine))
            for place, slots in self._local.slots().items()
        }
        for document in self._nodes.healthy(at):
            for engine in document.engines:
                rates = {state.replica.model: state.rates for state in engine.replicas}
                known[Place(document.node, engine.engine)] = (engine.slots, rates)
        return known

    def is_known(self, request: Request) -> bool:
        """Whether any node, also one that does not answer just now, could serve it."""
        if any(True for _ in self.places(request, (), 0.0)):
            return True
        return self._nodes.knows(request.model) and not request.local_only

    def rates(self, place: Place, model: ModelName) -> Rates:
        """The rates of a model at a place, the best known."""
        known = self._nodes.engine(place)
        if known is not None:
            for state in known[0].replicas:
                if state.replica.model == model:
                    return state.rates
        return self._local.rates(place.engine, model)

    def _widest_replica(self, model: ModelName, at: float) -> Replica | None:
        """Where this machine has none of its own: the content that most slots hold."""
        slots: dict[str, int] = {}
        found: dict[str, Replica] = {}
        for _, engine, state in self._nodes.healthy_replicas(model, at):
            identity = state.replica.identity
            slots[identity] = slots.get(identity, 0) + engine.slots
            found[identity] = state.replica
        return found[max(slots, key=lambda identity: (slots[identity], identity))] if slots else None
