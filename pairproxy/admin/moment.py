"""What is known at one moment, as far as reports are made of it: values only, which any thread may read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pairproxy.clock import wall
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.open_requests import OpenRequest
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.runs import Group, group_all
from pairproxy.core.accounting.works import Places, able, holding, slots_of
from pairproxy.core.documents import EngineState
from pairproxy.core.models import BLOCK_TOKENS, ModelName, NodeId, Place, RequestId
from pairproxy.core.prefixes import size_of
from pairproxy.core.scheduler import Scheduler

Engines = Mapping[Place, tuple[EngineState, int | None]]
"""Each engine that is known, and the tokens that its cache holds beside its slots; None: it does not say."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known at one moment."""

    at: float
    wall_at: float
    records: tuple[RequestRecord, ...]
    opened: tuple[OpenRequest, ...]
    running: frozenset[RequestId]  # of the open ones
    places: Places
    engines: Engines

    @property
    def kinds(self) -> dict[Place, str]:
        """What kind of engine each is."""
        return {place: engine.kind for place, (engine, _) in self.engines.items()}

    def groups(self) -> tuple[Group, ...]:
        """All runs that are remembered, with what is open of them."""
        return group_all(self.records, self.opened)

    def places_of(self, models: Iterable[ModelName]) -> Places:
        """Those that could serve some of these models."""
        return holding(self.places, models)

    def places_for(self, records: Sequence[RequestRecord]) -> Places:
        """Those that could serve some of these requests."""
        return able(self.places, records)

    def barred(self, records: Sequence[RequestRecord]) -> int:
        """How many other nodes hold a model of them."""
        held = slots_of(self.places_of(record.model for record in records))
        return len(held) - len(slots_of(self.places_for(records)))


def look(scheduler: Scheduler, ledger: Ledger, at: float) -> Known:
    """All of it as it is at ``at``, which is now."""
    opened = ledger.opened()
    return Known(
        at=at,
        wall_at=wall(),
        records=ledger.records,
        opened=opened,
        running=frozenset(one.id for one in opened if one.running),
        places=scheduler.places(at),
        engines=engines_of(scheduler, at),
    )


def engines_of(scheduler: Scheduler, at: float) -> Engines:
    """This node's engines, and those of its peers."""
    local = scheduler.local
    found: dict[Place, tuple[EngineState, int | None]] = {}
    for state in local.states(scheduler.running, NodeId(""), at):
        known = local.get(state.engine)
        found[Place(scheduler.own, state.engine)] = (state, None if known is None else known.cache_tokens)
    for document, _ in scheduler.nodes.documents(at):
        for state in document.engines:
            found[Place(document.node, state.engine)] = (state, None)
    return found


def caches_of(engines: Engines) -> dict[Place, int]:
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
