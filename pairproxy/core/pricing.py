"""The candidates of a request: every place that holds its replica, priced in seconds."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from pairproxy.core.affinity import Affinity
from pairproxy.core.avoidance import Avoidance
from pairproxy.core.backlog import Backlog
from pairproxy.core.bursts import Bursts
from pairproxy.core.glance import Glance
from pairproxy.core.holders import Found, Holders
from pairproxy.core.lengths import Lengths
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import Candidate, ModelName, NodeId, Place, Rates, Replica, Request
from pairproxy.core.nodes import NodeTable
from pairproxy.core.plan import Occupancy, price
from pairproxy.core.prefix_view import PrefixView
from pairproxy.core.promises import PromiseBook, kept_from
from pairproxy.core.queue import Waiting
from pairproxy.core.risk import Risks
from pairproxy.core.running import RunningTable

KnownPlaces = dict[Place, tuple[int, dict[ModelName, Rates]]]
"""Each place with its slots, and its rates for every model it holds."""


class Pricing:
    """Reads what is known of this node, its peers and what runs, and prices requests by it."""

    def __init__(
        self,
        local: LocalEngines,
        nodes: NodeTable,
        running: RunningTable,
        avoidance: Avoidance,
        promises: PromiseBook,
        *,
        is_rescued: bool = False,
    ) -> None:
        self._local = local
        self._nodes = nodes
        self._running = running
        self._avoidance = avoidance
        self._promises = promises
        self.is_rescued = is_rescued
        self.bursts = Bursts()
        self.holders = Holders(local, nodes)
        self.backlog = Backlog(local, nodes)
        self.affinity = Affinity()
        self.prefixes = PrefixView(local.own, local, nodes, running)

    def occupancies(self, at: float, origin: NodeId | None = None) -> dict[Place, Occupancy]:
        """Every known place with the seconds until each of its slots is free for ``origin`` (None: us).

        A slot that is promised to another is busy until the promise ends; so is a place that said "not now".
        """
        reading, works = self._left(at)
        built = {}
        for place, slots in self._local.slots().items():
            kept = self._promises.kept_from(place.engine, origin, at)
            known = self._local.all_rates(place.engine)
            built[place] = _occupancy(
                place, slots, known.values(), works.get(place, []), kept, reading.get(place, [])
            )
        for document, age in self._nodes.documents(at):
            for engine in document.engines:
                place = Place(document.node, engine.engine)
                others = [seconds - age for seconds in engine.frees_in_s]
                others += kept_from(origin or self._local.own, engine.promises, age)
                rates = [state.rates for state in engine.replicas]
                mine = works.get(place, [])
                built[place] = _occupancy(place, engine.slots, rates, mine, others, reading.get(place, []))
        for place, occupancy in built.items():
            if self._avoidance.is_in_trouble(place):
                occupancy.slots = min(occupancy.slots, occupancy.in_flight + 1)  # one at a time tries it
            occupancy.wait_s = max(occupancy.wait_s, self._avoidance.held_back_s(place, at))
        return built

    def _left(self, at: float) -> tuple[dict[Place, list[float]], dict[Place, list[float]]]:
        """What is left of that which runs, in seconds alone: of reading, and of all."""
        reading: dict[Place, list[float]] = {}
        works: dict[Place, list[float]] = {}
        for running in self._running:
            lengths = self._local.costs.expected_lengths(running.request)
            reading_s, left_s = running.left_s(lengths, at)
            works.setdefault(running.place, []).append(left_s)
            if reading_s > 0.0:
                reading.setdefault(running.place, []).append(reading_s)
        return reading, works

    def risks(self, queue: Collection[Waiting], occupancies: dict[Place, Occupancy], at: float) -> Risks:
        """What may go wrong with a burst, for one walk over the queue."""
        self.bursts.update(queue, self._running)
        running = [(one, self.lengths(one.request)) for one in self._running]
        return Risks(self.bursts, len(queue), running, occupancies, at, self.is_rescued)

    def glance(self, risks: Risks, occupancies: dict[Place, Occupancy], at: float) -> Glance:
        """Who waits in any case, for one walk over the queue."""
        return Glance(self.holders, self._avoidance, self.prefixes, risks, occupancies, at)

    def lengths(self, request: Request) -> Lengths:
        """How long its reply may be."""
        return self._local.costs.expected_lengths(request)

    def candidates(
        self, request: Request, excluded: Collection[Place], occupancies: dict[Place, Occupancy], at: float
    ) -> list[Candidate]:
        """Where the request may run, priced. Avoided places only if there are no others."""
        output = self._local.costs.expected_output(request)
        priced: list[Candidate] = []
        last_resort: list[Candidate] = []
        for place, state in self.places(request, excluded, at):
            occupancy, cached = occupancies[place], 0
            if state.is_loaded:
                cached = self.prefixes.cached_tokens(request, place, occupancy.wait_s)
            candidate = price(occupancy, state, request.prompt_tokens, output, cached)
            if self.bursts.held_up_by(request) is None:
                candidate = replace(candidate, delay_s=candidate.prefill_s - candidate.read_s)
            if candidate.load_s > 0.0 and self.holders.runners.evicts(request, place):
                # Somebody will want back what is thrown out: a place that loses nothing is the better one.
                candidate = replace(candidate, margin_s=candidate.margin_s + candidate.load_s)
            is_left_alone = self._avoidance.is_left_alone(place, at)
            (last_resort if is_left_alone else priced).append(candidate)
        return self.affinity.priced(request, priced or last_resort, at)

    def places(self, request: Request, excluded: Collection[Place], at: float) -> Found:
        """Where it may run (Holders.places)."""
        return self.holders.places(request, excluded, at)

    def known_places(self, at: float) -> KnownPlaces:
        """Every healthy place: its slots, and the rates of each model it holds."""
        known: KnownPlaces = {
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
        return self.holders.is_known(request)

    def replica(self, place: Place, model: ModelName) -> Replica | None:
        """What a place holds under this name; None: it lists no such model."""
        known = self._nodes.engine(place)
        states = known[0].replicas if known is not None else ()
        found = (state.replica for state in states if state.replica.model == model)
        here = (state.replica for one, _, state in self._local.places(model, None) if one == place)
        return next(found, None) or next(here, None)

    def rates(self, place: Place, model: ModelName) -> Rates:
        """The rates of a model at a place, the best known."""
        known = self._nodes.engine(place)
        if known is not None:
            for state in known[0].replicas:
                if state.replica.model == model:
                    return state.rates
        return self._local.rates(place.engine, model)


def _occupancy(
    place: Place,
    slots: int,
    rates: Iterable[Rates],
    works: list[float],
    others_s: list[float],
    reading: list[float],
) -> Occupancy:
    """``works`` are ours, in seconds alone; ``others_s`` are seconds as their node expects them."""
    beta = max((one.beta for one in rates), default=0.0)
    slowness = 1.0 + beta * max(len(works) + len(others_s) - 1, 0)
    return Occupancy.of(place, slots, beta, works + [one / slowness for one in others_s], reading)
