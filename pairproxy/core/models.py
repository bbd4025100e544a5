"""Frozen values that the whole product speaks in. Durations are seconds, sizes tokens unless named."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, NewType

NodeId = NewType("NodeId", str)
"""The device id of a node: base32 of the SHA-256 of its public key (see security.identity)."""
EngineId = NewType("EngineId", str)
"""The name of an engine, unique within its node, e.g. ``embedded`` or ``ollama-11534``."""
ModelName = NewType("ModelName", str)
"""A model's canonical name, as :func:`pairproxy.core.replicas.canonical_name` writes it."""
RequestId = NewType("RequestId", str)


class Place(NamedTuple):
    """One engine on one node: where a request can run, and what owns slots."""

    node: NodeId
    engine: EngineId


class AttemptId(NamedTuple):
    """One try of one request on one node; numbers count from 1."""

    request: RequestId
    number: int


class Dialect(StrEnum):
    """A wire format: how requests, replies and errors are written."""

    OLLAMA = "ollama"
    OPENAI = "openai"  # chat, completions, embeddings, audio; LM Studio's v0 too
    RESPONSES = "responses"  # OpenAI's newer one: a stream of named events
    ANTHROPIC = "anthropic"
    LMSTUDIO = "lmstudio"  # its /api/v1
    LLAMACPP = "llamacpp"  # llama-server's own paths


class Outcome(StrEnum):
    """How a request ended; one word each, everywhere (docs/architecture.md)."""

    DONE = "done"  # the terminal record was seen
    ERROR = "error"  # the engine's own error, relayed
    TRUNCATED = "truncated"  # the stream ended without its terminal record
    CANCELLED = "cancelled"  # the client left
    REFUSED = "refused"  # queue full or waited too long, or a peer's slot was taken
    FAILED = "failed"  # no node could serve it


@dataclass(frozen=True, slots=True)
class Replica:
    """One model on one engine, identified by content.

    ``identity`` names the content (e.g. ``sha256:...``), ``facts`` names it a second time by what is known of
    it ("": not known); core.replicas says when two are the same. ``context_tokens`` is the window the engine
    gives it, ``capabilities`` are in Ollama's words (None: not known). ``called`` is the name by which the
    engine itself knows it, where a person mapped another name to it (engines.aliases).
    """

    model: ModelName
    identity: str
    context_tokens: int | None = None
    facts: str = ""
    capabilities: frozenset[str] | None = None
    called: str | None = None


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast one replica runs on one engine.

    ``prefill`` and ``decode`` are tokens/s, ``decode`` for a request running alone. With c requests
    running, the engine decodes ``decode * c / (1 + beta * (c - 1))`` tokens/s in all: the curve that
    published measurements of vLLM, llama.cpp and Ollama follow with beta 0.03, 0.15 and 0.6-1.
    ``load_s`` is the time to load the model when it is cold.
    """

    prefill: float
    decode: float
    beta: float
    load_s: float = 0.0

    def share(self, concurrency: int) -> float:
        """The part of ``decode`` that each of ``concurrency`` running requests gets, in (0, 1]."""
        return 1.0 / (1.0 + self.beta * (max(concurrency, 1) - 1))


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked, as far as choosing a node needs it. Holds no text of the prompt."""

    id: RequestId
    model: ModelName
    dialect: Dialect
    path: str
    is_streaming: bool
    prompt_tokens: int  # estimated from the size of the text
    max_output_tokens: int | None  # the client's own limit
    client: str = ""  # who asked, opaque; for fairness and for grouping into runs
    run: str | None = None  # a name the client gave to requests that belong together
    origin: NodeId | None = None  # the paired node it came from; None: a client of this machine
    local_only: bool = False
    engine: EngineId | None = None  # the local engine whose port was called
    runner: str = ""  # the options for which an engine loads a model anew, in one spelling; "": none given
    context_tokens: int | None = None  # the window asked for (num_ctx); None: the engine's own
    needs: frozenset[str] = frozenset()  # capabilities it takes, in Ollama's words: tools, vision, thinking
    stays: str | None = None  # why it may run on the called engine only
    is_load: bool = False  # it asks for no reply, only that the model be loaded
    unloads: bool = False  # it asks for no reply, only that the model be unloaded
    coding: str = ""  # how its body is encoded ("gzip"); engines differ in which of them they read


@dataclass(frozen=True, slots=True)
class Usage:
    """What a reply said about itself. None where the engine did not say; seconds and tokens."""

    prompt_tokens: int | None = None  # all of the prompt, cached part included
    cached_tokens: int | None = None
    output_tokens: int | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    load_s: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place that could serve a request, priced in seconds from now."""

    place: Place
    wait_s: float  # until a slot is free; 0.0 = free now
    load_s: float
    prefill_s: float
    decode_s: float
    in_flight: int
    slots: int
    margin_s: float = 0.0  # what it would take longer if the reply is one of the longest in twenty
    called: str | None = None  # Replica.called

    @property
    def service_s(self) -> float:
        """Seconds of work once it starts."""
        return self.load_s + self.prefill_s + self.decode_s

    @property
    def finish_s(self) -> float:
        """Seconds until the reply would be complete."""
        return self.wait_s + self.service_s

    @property
    def is_free(self) -> bool:
        """Whether it could start now."""
        return self.wait_s <= 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's pick with its reason and what it was picked from."""

    place: Place
    policy: str
    reason: str
    candidates: tuple[Candidate, ...]
    called: str | None = None  # the name by which the engine knows the model, where it is another


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A replica as its node publishes it."""

    replica: Replica
    is_loaded: bool
    rates: Rates


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
    is_draining: bool
    waiting: int  # requests queued at this node as an origin
    engines: tuple[EngineState, ...]
    catalogue: str = ""  # NodeCatalogue.content, for readers to see that it changed; "": it has none
