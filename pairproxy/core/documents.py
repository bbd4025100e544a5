"""What a node publishes about itself: engines, replicas, speeds, catalogue; and what a probe tells it."""

from dataclasses import dataclass
from enum import StrEnum

from pairproxy.core.models import EngineId, ModelName, NodeId, Rates, Replica
from pairproxy.core.values import spell

PROTOCOL = 1  # between nodes: of the state document, of requests, of the announcement and of TLS's ALPN

spell(Replica, context_tokens=int | None, capabilities=frozenset[str] | None, called=str | None)


class Withheld(StrEnum):
    """Why a node offers no slot to its peers, while its own clients go on.

    Documents carry the word as text: a reader takes one that it does not know for some reason or other.
    """

    DRAINED = "drained"  # a person said so (`pairproxy drain`)
    NEVER = "never"  # the same, in the settings (peers.share)
    BATTERY = "battery"  # it runs on one
    MEMORY = "memory"  # it has hardly any left
    OWNER = "owner"  # somebody uses it
    UNKNOWN = "unknown"  # whether somebody uses it cannot be seen
    NO_ENGINE = "no-engine"  # none answers there: it only sends requests


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A replica as its node publishes it."""

    replica: Replica
    is_loaded: bool
    rates: Rates
    continues: bool = False  # whether its engine was seen to go on with the beginning of a reply


class Listing(StrEnum):
    """A list of models that engines publish; its value names the field of CatalogueEntry with its entry."""

    TAGS = "tags"  # GET /api/tags
    PS = "ps"  # GET /api/ps
    OPENAI = "openai"  # GET /v1/models
    V0 = "v0"  # GET /api/v0/models
    V1 = "v1"  # GET /api/v1/models


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One model as its engine lists it: in each listing the entry's own JSON text, None where it has none."""

    model: ModelName
    tags: str | None = None
    ps: str | None = None  # only while the model is loaded
    openai: str | None = None
    v0: str | None = None
    v1: str | None = None

    def text(self, listing: Listing) -> str | None:
        """The entry in one listing."""
        text: str | None = getattr(self, listing)
        return text


@dataclass(frozen=True, slots=True)
class EngineCatalogue:
    """What one engine lists."""

    engine: EngineId
    kind: str
    entries: tuple[CatalogueEntry, ...]


@dataclass(frozen=True, slots=True)
class NodeCatalogue:
    """What the engines of one node list. ``content`` names all of it: it changes when anything in it does."""

    node: NodeId
    content: str
    engines: tuple[EngineCatalogue, ...]


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What probing a local engine told: the monitor's raw material for the state document."""

    engine: EngineId
    kind: str
    version: str
    slots: int
    replicas: tuple[tuple[Replica, bool], ...]  # (replica, is it loaded)
    catalogue: tuple[CatalogueEntry, ...] = ()
    cache_tokens: int | None = None  # of prompts that it keeps beside its slots; None: it does not say
    continuing: frozenset[ModelName] = frozenset()  # seen to go on with a text (engines.verifying)


@dataclass(frozen=True, slots=True)
class PrefixNews:
    """What became of an engine's prefix index since the document that this reader got before.

    The hashes are those of Request.prefix, each combined with its model (core.prefix_news). ``since`` is the
    ``version`` the reader must have to apply it; 0: it is the whole index. A reader that has another version
    forgets what it has, until a whole one comes.
    """

    version: int
    since: int
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Promise:
    """A free slot kept for one origin, for so many seconds more."""

    origin: NodeId
    for_s: float


@dataclass(frozen=True, slots=True)
class Wanted:
    """What waits at a node as an origin, by model: others reckon with it, and slots are promised by it."""

    model: ModelName
    count: int
    prefill_tokens: float  # of all of them together
    decode_tokens: float
    oldest_age_s: float
    prefixes: tuple[int, ...] = ()  # of the oldest ones, the hash at half of each prompt; at most eight
    yours: int = 0  # of the count, those that the plan would send to the reader of this document now


@dataclass(frozen=True, slots=True)
class EngineState:
    """One engine in a state document."""

    engine: EngineId
    kind: str
    version: str
    slots: int
    in_flight: int  # running now, for every origin
    yours: int  # of these, sent by the reader of this document
    frees_in_s: tuple[float, ...]  # expected seconds until each slot busy with others' requests is free
    replicas: tuple[ReplicaState, ...]
    prefixes: PrefixNews | None = None  # None: nothing new, or none are kept
    cache_tokens: int | None = None  # of prompts that it keeps beside its slots; None: it does not say
    cache_confidence: float = 1.0  # tokens found in its cache for each that the prefixes promise
    promises: tuple[Promise, ...] = ()
    asks: bool = False  # its slots are promised: the reader says in ``wanted`` that it wants one, and waits
    foreign: int = 0  # slots that are not offered because somebody uses the machine beside us


@dataclass(frozen=True, slots=True)
class StateDocument:
    """What one node publishes about itself, on change and every second at least; its heartbeat.

    Ages and durations only, never wall-clock times. A new ``epoch`` is a new life of the daemon:
    what was known of the old one is void. ``sequence`` grows within an epoch.
    """

    node: NodeId
    name: str
    protocol: int
    epoch: str
    sequence: int
    is_draining: bool  # takes no new work of its reader: it is stopping, or withholds its slots
    waiting: int  # requests queued at this node as an origin
    engines: tuple[EngineState, ...]
    wanted: tuple[Wanted, ...] = ()
    catalogue: str = ""  # NodeCatalogue.content, for readers to see that it changed; "": it has none
    withheld: str = ""  # why (Withheld) its reader gets no slot although it is not stopping
