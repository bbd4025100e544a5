"""What each peer may have of this node, and the node as a peer with few rights sees it.

A person sets for a peer how many slots it may hold at once, and which models it may use. What it may not
have is left out of what it is told: an engine of eight slots of which it may hold two looks like one of two,
and the other six are where work of others does not disturb it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pairproxy.core.catalogue import node_catalogue
from pairproxy.core.documents import EngineState, NodeCatalogue, Wanted
from pairproxy.core.models import ModelName, NodeId, Rights
from pairproxy.core.replicas import matches

SOON_S = 1.0  # until a slot that the reader itself holds on another engine is free; the next document knows
_ALL = Rights()


class RightsTable:
    """The rights of every peer; who is not named here has them all."""

    def __init__(self) -> None:
        self._of: dict[NodeId, Rights] = {}
        self._catalogues: dict[NodeId, tuple[str, NodeCatalogue]] = {}  # (of the whole one, what is left)

    def follow(self, rights: Mapping[NodeId, Rights]) -> None:
        """Go by these from now on."""
        self._of = dict(rights)
        self._catalogues.clear()

    def may_use(self, node: NodeId, model: ModelName) -> bool:
        """Whether a peer may use a model of this node."""
        models = self._of.get(node, _ALL).models
        return not models or matches(model, models)

    def slots(self, node: NodeId) -> int | None:
        """How many slots a peer may hold at once; None: any number."""
        return self._of.get(node, _ALL).slots

    def seen(
        self, states: Iterable[EngineState], reader: NodeId, left: int | None
    ) -> tuple[EngineState, ...]:
        """The engines of this node as ``reader``, which may take ``left`` more slots, may know them."""
        rights = self._of.get(reader, _ALL)
        found = tuple(states)
        if rights.models:
            found = tuple(one for state in found if (one := _of_models(state, rights)).replicas)
        return found if left is None else tuple(_shared(one, one.yours + left, reader) for one in found)

    def told(self, wanted: Wanted, reader: NodeId) -> Wanted:
        """What waits here as ``reader`` may know it; one with some models only hears no hash."""
        return replace(wanted, prefixes=()) if self._of.get(reader, _ALL).models else wanted

    def catalogue(self, whole: NodeCatalogue, reader: NodeId) -> NodeCatalogue:
        """What this node lists, as far as ``reader`` may know it."""
        rights = self._of.get(reader, _ALL)
        if not rights.models:
            return whole
        known = self._catalogues.get(reader)
        if known is None or known[0] != whole.content:
            engines = tuple(
                replace(engine, entries=tuple(e for e in engine.entries if matches(e.model, rights.models)))
                for engine in whole.engines
            )
            known = self._catalogues[reader] = (whole.content, node_catalogue(whole.node, engines))
        return known[1]


def _of_models(state: EngineState, rights: Rights) -> EngineState:
    """An engine with the models that are allowed. Of its cache nothing is told: the hashes name no model."""
    replicas = tuple(one for one in state.replicas if matches(one.replica.model, rights.models))
    return replace(state, replicas=replicas, prefixes=None)


def _shared(state: EngineState, most: int, reader: NodeId) -> EngineState:
    """An engine of which the reader may hold ``most`` slots. Others use the rest before they use those."""
    if most >= state.slots:
        return state
    if most == 0:  # it holds all that it may, on other engines; an engine without a slot could serve nobody
        return replace(state, slots=1, in_flight=1, frees_in_s=state.frees_in_s[:1] or (SOON_S,), promises=())
    spare, others = state.slots - most, state.in_flight - state.yours
    busy = max(0, others - spare)
    own = [one for one in state.promises if one.origin == reader]
    foreign = [one for one in state.promises if one.origin != reader]
    kept = max(0, others + len(foreign) - spare) - busy
    return replace(
        state,
        slots=most,
        in_flight=state.yours + busy,
        frees_in_s=state.frees_in_s[:busy],
        promises=(*own[:most], *foreign[:kept]),
    )
