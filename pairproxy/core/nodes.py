"""NodeTable: this node's view of every peer, built from their state documents."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pairproxy.core.catalogue import CatalogueTable
from pairproxy.core.documents import EngineState, ReplicaState, StateDocument
from pairproxy.core.models import ModelName, NodeId, Place, Replica

STALE_S = 3.0  # three missed documents: no new requests there
MAX_ENGINES = 32  # of one node; nobody runs more
MAX_REPLICAS = 1000  # of one engine
MAX_SLOTS = 4096  # of one engine; vLLM's largest batches are in the hundreds, and every slot costs memory
LONGEST_S = 86_400.0  # a day: no slot is held and no model loads for longer
SLOWEST, FASTEST = 1e-3, 1e9  # tokens/s
MOST_BETA = 1e3
NAME_CHARACTERS = 256


@dataclass(slots=True)
class _View:
    document: StateDocument
    received_at: float


class NodeTable:
    """The latest state document of each peer, with its age."""

    def __init__(self, stale_s: float = STALE_S) -> None:
        self.catalogues = CatalogueTable()
        self._stale_s = stale_s
        self._views: dict[NodeId, _View] = {}

    def report(self, document: StateDocument, at: float) -> bool:
        """Take in a document; False for one older than what is known of the same life of that node.

        Engines and replicas whose numbers cannot be reckoned with are left out: a fault of one peer must not
        stop the others.
        """
        known = self._views.get(document.node)
        if (
            known is not None
            and known.document.epoch == document.epoch
            and known.document.sequence > document.sequence
        ):
            return False
        self._views[document.node] = _View(_usable(document), at)
        return True

    def lose(self, node: NodeId) -> None:
        """Forget a node that is gone."""
        self._views.pop(node, None)

    def documents(self, at: float) -> Iterator[tuple[StateDocument, float]]:
        """Every known peer's document and its age in seconds."""
        for view in self._views.values():
            yield view.document, at - view.received_at

    def age(self, node: NodeId, at: float) -> float | None:
        """Seconds since the node's last document; None if there is none."""
        view = self._views.get(node)
        return None if view is None else at - view.received_at

    def next_stale(self, at: float) -> float | None:
        """When the next healthy node becomes stale, if nothing arrives from it."""
        times = [view.received_at + self._stale_s for view in self._views.values()]
        return min((time for time in times if time > at), default=None)

    def engine(self, place: Place) -> tuple[EngineState, float] | None:
        """The engine at a place and the time its state was received."""
        view = self._views.get(place.node)
        if view is not None:
            for engine in view.document.engines:
                if engine.engine == place.engine:
                    return engine, view.received_at
        return None

    def healthy(self, at: float) -> Iterator[StateDocument]:
        """The documents of nodes that take requests now: fresh, not draining."""
        for view in self._views.values():
            if at < view.received_at + self._stale_s and not view.document.is_draining:
                yield view.document

    def healthy_replicas(
        self, model: ModelName, at: float
    ) -> Iterator[tuple[Place, EngineState, ReplicaState]]:
        """Where a model may run now: fresh, not draining."""
        for document in self.healthy(at):
            yield from _holders(document, model)

    def replicas(self, model: ModelName) -> Iterator[tuple[Place, EngineState, ReplicaState]]:
        """Where any peer, healthy or not, was seen with this model."""
        for view in self._views.values():
            yield from _holders(view.document, model)

    def identities(self, model: ModelName) -> dict[NodeId, Replica]:
        """The replica each peer holds under this name."""
        return {place.node: state.replica for place, _, state in self.replicas(model)}


def _holders(document: StateDocument, model: ModelName) -> Iterator[tuple[Place, EngineState, ReplicaState]]:
    for engine in document.engines:
        for state in engine.replicas:
            if state.replica.model == model:
                yield Place(document.node, engine.engine), engine, state


def _usable(document: StateDocument) -> StateDocument:
    engines = (
        replace(engine, replicas=tuple(one for one in engine.replicas[:MAX_REPLICAS] if _is_replica(one)))
        for engine in document.engines[:MAX_ENGINES]
        if _is_engine(engine)
    )
    return replace(document, engines=tuple(engines))


def _is_engine(engine: EngineState) -> bool:
    return (
        1 <= engine.slots <= MAX_SLOTS
        and engine.in_flight >= 0
        and engine.yours >= 0
        and len(engine.frees_in_s) <= MAX_SLOTS
        and all(abs(seconds) <= LONGEST_S for seconds in engine.frees_in_s)
        and _is_name(engine.engine)
    )


def _is_replica(state: ReplicaState) -> bool:
    rates = state.rates
    return (
        _is_name(state.replica.model)
        and SLOWEST <= rates.prefill <= FASTEST
        and SLOWEST <= rates.decode <= FASTEST
        and 0.0 <= rates.beta <= MOST_BETA
        and 0.0 <= rates.load_s <= LONGEST_S
    )


def _is_name(text: str) -> bool:
    return 0 < len(text) <= NAME_CHARACTERS and text.isprintable()
