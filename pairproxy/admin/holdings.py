"""Which engine of which node holds what, as far as this node knows: what the matrix of models is made from.

look() copies what is known, in the caller's thread; the rest are functions of values only, for any thread.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from pairproxy.core.documents import CatalogueEntry, EngineCatalogue, EngineState, ReplicaState
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, Replica
from pairproxy.core.replicas import canonical_name
from pairproxy.core.scheduler import Scheduler
from pairproxy.peers.link import PeerLink

QUANTIZATION_CHARACTERS = 32  # of another machine's word; those in use have a dozen
IDENTITY_CHARACTERS = 71  # sha256: and 64 digits
ONLY_HERE = "only-here:"  # begins the identity of content that its engine cannot name (engines.found)


@dataclass(frozen=True, slots=True)
class KnownNode:
    """What is known of one node. ``silent``: its engines that do not answer; ``listed``: as last told."""

    node: NodeId
    name: str
    is_up: bool
    is_draining: bool = False
    engines: tuple[EngineState, ...] = ()
    silent: tuple[EngineState, ...] = ()
    listed: tuple[EngineCatalogue, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """All nodes, this one first; patterns of what stays here; and who may use which model of this node."""

    nodes: tuple[KnownNode, ...]
    local_only: tuple[str, ...] = ()
    may_use: Callable[[NodeId, ModelName], bool] = lambda node, model: True


@dataclass(frozen=True, slots=True)
class Held:
    """One model on one engine. ``engine`` and ``state`` None: known from what its node listed before."""

    place: Place
    kind: str
    replica: Replica
    is_up: bool
    quantization: str = ""
    engine: EngineState | None = None
    state: ReplicaState | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory now."""
        return self.is_up and self.state is not None and self.state.is_loaded

    @property
    def slots(self) -> int:
        """Requests at once on its engine; 0: it cannot be used now."""
        return self.engine.slots if self.is_up and self.engine is not None else 0


def is_named(replica: Replica) -> bool:
    """Whether its engine names its content, so that it can be compared."""
    return bool(replica.identity) and not replica.identity.startswith(ONLY_HERE)


def look(scheduler: Scheduler, links: Iterable[PeerLink], name: str, at: float) -> Known:
    """What is known at ``at``; ``name`` is this node's. Peers follow by their names."""
    local, running, rules = scheduler.local, scheduler.running, scheduler.rules
    own = KnownNode(
        scheduler.own,
        name,
        is_up=True,
        is_draining=scheduler.is_draining,
        engines=local.states(running, NodeId(""), at),
        silent=local.lost_states(running, at),
        listed=local.catalogue().engines,
    )
    documents = {document.node: document for document, _ in scheduler.nodes.documents(at)}
    peers = []
    for link in links:
        document = documents.get(link.node)
        catalogue = scheduler.nodes.catalogues.held(link.node)
        peers.append(
            KnownNode(
                link.node,
                link.name,
                is_up=link.is_up and document is not None,
                is_draining=document is not None and document.is_draining,
                engines=document.engines if document is not None else (),
                listed=catalogue.engines if catalogue is not None else (),
            )
        )
    peers.sort(key=lambda peer: (peer.name, peer.node))
    local_only = ("*",) if rules.policy == "local-only" else rules.local_only
    return Known((own, *peers), local_only, scheduler.rights.may_use)


def holdings(node: KnownNode) -> list[Held]:
    """Every model on every engine of a node; of one that is away also what it last listed."""
    listed = {
        (engine.engine, entry.model): _listed(entry) for engine in node.listed for entry in engine.entries
    }
    found = [
        _of_state(node.node, engine, state, is_up, listed)
        for is_up, engines in ((node.is_up, node.engines), (False, node.silent))
        for engine in engines
        for state in engine.replicas
    ]
    if node.is_up or found:
        return found
    return [
        Held(
            Place(node.node, engine.engine), engine.kind, Replica(entry.model, identity), False, quantization
        )
        for engine in node.listed
        for entry in engine.entries
        for identity, quantization in (listed[engine.engine, entry.model],)
    ]


def _of_state(
    node: NodeId,
    engine: EngineState,
    state: ReplicaState,
    is_up: bool,
    listed: Mapping[tuple[EngineId, ModelName], tuple[str, str]],
) -> Held:
    replica = state.replica
    called = replica.model if replica.called is None else canonical_name(replica.called)
    _, quantization = listed.get((engine.engine, called), ("", ""))
    return Held(Place(node, engine.engine), engine.kind, replica, is_up, quantization, engine, state)


class _Details(msgspec.Struct):
    quantization_level: str = ""


class _Tags(msgspec.Struct):
    digest: str = ""
    details: _Details | None = None


class _V0(msgspec.Struct):
    quantization: str = ""


def _listed(entry: CatalogueEntry) -> tuple[str, str]:
    """(identity, quantization) as an engine's listing tells them; "": it does not."""
    try:
        if entry.tags is not None:
            tags = msgspec.json.decode(entry.tags, type=_Tags)
            identity = f"sha256:{tags.digest.removeprefix('sha256:')}" if tags.digest else ""
            level = tags.details.quantization_level if tags.details is not None else ""
            return identity[:IDENTITY_CHARACTERS], _word(level)
        return "", _word(msgspec.json.decode(entry.v0 or "{}", type=_V0).quantization)
    except msgspec.DecodeError:  # also a field of another type
        return "", ""


def _word(text: str) -> str:
    return text[:QUANTIZATION_CHARACTERS] if text.isprintable() else ""
