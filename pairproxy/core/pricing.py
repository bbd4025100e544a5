"""The candidates of a request: every place that holds its replica, priced in seconds."""

from collections.abc import Collection

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
from pairproxy.core.occupancies import Occupancies, SlotTable
from pairproxy.core.plan import price
from pairproxy.core.prefix_view import PrefixView
from pairproxy.core.promises import PromiseBook
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
        self.is_rescued = is_rescued
        self.bursts = Bursts()
        self.slots = SlotTable(local, nodes, running, avoidance, promises)
        running.tell(self.bursts)
        running.tell(self.slots)
        self.holders = Holders(local, nodes)
        self.backlog = Backlog(local, nodes)
        self.affinity = Affinity()
        self.prefixes = PrefixView(local.own, local, nodes, running)

    def occupancies(self, at: float, origin: NodeId | None = None) -> Occupancies:
        """When each place has a free slot (SlotTable.look)."""
        return self.slots.look(at, origin)

    def risks(self, waiting: int, occupancies: Occupancies, at: float) -> Risks:
        """What may go wrong with a burst, for one walk over a queue of so many; its bursts are up to date."""
        return Risks(self.bursts, waiting, self._running, self.lengths, occupancies, at, self.is_rescued)

    def glance(self, risks: Risks, occupancies: Occupancies, at: float) -> Glance:
        """Who waits in any case, for one walk over the queue."""
        return Glance(self.holders, self._avoidance, self.prefixes, risks, occupancies, at)

    def lengths(self, request: Request) -> Lengths:
        """How long its reply may be."""
        return self._local.costs.expected_lengths(request)

    def candidates(
        self, request: Request, excluded: Collection[Place], occupancies: Occupancies, at: float
    ) -> list[Candidate]:
        """Where the request may run, priced. Avoided places only if there are no others."""
        output = self._local.costs.expected_output(request)
        is_part = self.bursts.held_up_by(request) is not None
        priced: list[Candidate] = []
        last_resort: list[Candidate] = []
        for place, state in self.places(request, excluded, at):
            occupancy, cached = occupancies[place], 0
            if state.is_loaded:
                cached = self.prefixes.cached_tokens(request, place, occupancy.wait_s)
            evicts = not state.is_loaded and self.holders.runners.evicts(request, place)
            candidate = price(
                occupancy, state, request.prompt_tokens, output, cached, is_part=is_part, evicts=evicts
            )
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

    def sent(self, request: Request, pick: Candidate, at: float) -> None:
        """A request goes to a place: what comes next is priced with that in mind."""
        self.holders.runners.sent(pick.place, request)
        self.affinity.sent(request, pick, at)
        self._avoidance.sent(pick.place, at)

    def is_known(self, request: Request) -> bool:
        """Whether any node, also one that does not answer just now, could serve it."""
        return self.holders.is_known(request)

    def held(self, place: Place, model: ModelName) -> tuple[Rates, Replica | None]:
        """The rates of a model at a place, the best known, and what it lists under this name."""
        if place.node == self._local.own:
            return self._local.held(place.engine, model)
        known = self._nodes.engine(place)
        if known is not None:
            for state in known[0].replicas:
                if state.replica.model == model:
                    return state.rates, state.replica
        return self._local.rates(place.engine, model), None

    def replica(self, place: Place, model: ModelName) -> Replica | None:
        """What a place holds under this name; None: it lists no such model."""
        return self.held(place, model)[1]

    def rates(self, place: Place, model: ModelName) -> Rates:
        """The rates of a model at a place, the best known."""
        return self.held(place, model)[0]
