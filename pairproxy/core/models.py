"""Frozen values that the whole product speaks in. Durations are seconds, sizes tokens unless named."""

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Final, NamedTuple, NewType

NodeId = NewType("NodeId", str)
"""The device id of a node: base32 of the SHA-256 of its public key (see security.identity)."""
EngineId = NewType("EngineId", str)
"""The name of an engine, unique within its node, e.g. ``embedded`` or ``ollama-11534``."""
ModelName = NewType("ModelName", str)
"""A model's canonical name, as :func:`pairproxy.core.replicas.canonical_name` writes it."""
RequestId = NewType("RequestId", str)

BLOCK_TOKENS = 64  # of a prompt between two of Request.prefix: 256 bytes; engines keep blocks of 16 to 64


class Place(NamedTuple):
    """One engine on one node: where a request can run, and what owns slots."""

    node: NodeId
    engine: EngineId


class AttemptId(NamedTuple):
    """One try of one request on one node; numbers count from 1."""

    request: RequestId
    number: int


def attempt_of(request: RequestId, number: int) -> AttemptId:
    """The same as AttemptId(), without the function of a NamedTuple, which takes thrice as long."""
    return tuple.__new__(AttemptId, (request, number))


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
class Rights:
    """What a peer may have of this node: slots at once (None: all) and models, as patterns ((): all)."""

    slots: int | None = None
    models: tuple[str, ...] = ()


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
        return 1.0 / (1.0 + self.beta * (concurrency - 1)) if concurrency > 1 else 1.0


@dataclass(frozen=True, slots=True)
class Outline:
    """Where two prompts part, without their text: their lines by a digest and their length.

    Long lines count as several (core.dialects.reading_outline). ``parts`` name the first line of each part.
    """

    parts: tuple[tuple[str, int], ...]
    lines: tuple[int, ...]

    @staticmethod
    def bytes_of(line: int) -> int:
        """The length of a line, in bytes of UTF-8."""
        return line & 0xFFFF

    def ends(self) -> list[int]:
        """The bytes of the prompt up to and with each line."""
        return list(accumulate([line & 0xFFFF for line in self.lines]))

    def place_of(self, line: int) -> tuple[str, int]:
        """(part, byte in it) at which a line begins."""
        name, first = [self.parts[0], *(part for part in self.parts if part[1] <= line)][-1]
        return name, sum(map(self.bytes_of, self.lines[first:line]))


@dataclass(slots=True, unsafe_hash=True, init=False)
class Request:
    """What a client asked, as far as choosing a node needs it. Holds no text of the prompt."""

    id: Final[RequestId]
    model: Final[ModelName]
    dialect: Final[Dialect]
    path: Final[str]
    is_streaming: Final[bool]
    prompt_tokens: Final[int]  # estimated from the size of the text
    max_output_tokens: Final[int | None]  # the client's own limit
    client: Final[str]  # who asked, opaque; for fairness and for grouping into runs
    run: Final[str | None]  # a name the client gave to requests that belong together
    origin: Final[NodeId | None]  # the paired node it came from; None: a client of this machine
    local_only: Final[bool]
    engine: Final[EngineId | None]  # the local engine whose port was called
    runner: Final[str]  # the options for which an engine loads a model anew, in one spelling; "": none given
    context_tokens: Final[int | None]  # the window asked for (num_ctx); None: the engine's own
    needs: Final[frozenset[str]]  # capabilities it takes, in Ollama's words: tools, vision, thinking
    stays: Final[str | None]  # why it may run on the called engine only
    is_load: Final[bool]  # it asks for no reply, only that the model be loaded
    unloads: Final[bool]  # it asks for no reply, only that the model be unloaded
    prefix: Final[tuple[int, ...]]  # chained hashes of its full blocks (core.prefixes), first to last
    chain: Final[str]  # a name the client gave to the chain it belongs to; "": none
    outline: Final[Outline | None]  # of a prompt that is long enough to be worth a cache
    coding: Final[str]  # how its body is encoded ("gzip"); engines differ in which of them they read
    begun: Final[Replica | None]  # what wrote the beginning of its reply, and only the same goes on with it
    trace: Final[str]  # the W3C traceparent it came with, checked (proxy.headers); "": none

    def __init__(
        self,
        id: RequestId,  # noqa: A002  the name of the field
        model: ModelName,
        dialect: Dialect,
        path: str,
        is_streaming: bool,
        prompt_tokens: int,
        max_output_tokens: int | None,
        client: str = "",
        run: str | None = None,
        origin: NodeId | None = None,
        local_only: bool = False,
        engine: EngineId | None = None,
        runner: str = "",
        context_tokens: int | None = None,
        needs: frozenset[str] = frozenset(),
        stays: str | None = None,
        is_load: bool = False,
        unloads: bool = False,
        prefix: tuple[int, ...] = (),
        chain: str = "",
        outline: Outline | None = None,
        coding: str = "",
        begun: Replica | None = None,
        trace: str = "",
    ) -> None:
        self.id, self.client, self.is_load, self.unloads, self.outline = id, client, is_load, unloads, outline
        self.model, self.origin, self.engine, self.runner, self.prefix = model, origin, engine, runner, prefix
        self.dialect, self.max_output_tokens, self.context_tokens = dialect, max_output_tokens, context_tokens
        self.path, self.run, self.trace = path, run, trace
        self.is_streaming, self.prompt_tokens, self.local_only = is_streaming, prompt_tokens, local_only
        self.needs, self.stays, self.chain, self.coding, self.begun = needs, stays, chain, coding, begun


@dataclass(slots=True, unsafe_hash=True, init=False)
class Usage:
    """What a reply said about itself. None where the engine did not say; seconds and tokens."""

    prompt_tokens: Final[int | None]  # all of the prompt, cached part included
    cached_tokens: Final[int | None]
    output_tokens: Final[int | None]
    prefill_s: Final[float | None]
    decode_s: Final[float | None]
    load_s: Final[float | None]
    records: int | None = field(compare=False)  # about how many a stream came in

    def __init__(
        self,
        prompt_tokens: int | None = None,
        cached_tokens: int | None = None,
        output_tokens: int | None = None,
        prefill_s: float | None = None,
        decode_s: float | None = None,
        load_s: float | None = None,
        records: int | None = None,
    ) -> None:
        self.prompt_tokens, self.cached_tokens, self.records = prompt_tokens, cached_tokens, records
        self.output_tokens, self.prefill_s = output_tokens, prefill_s
        self.decode_s, self.load_s = decode_s, load_s


@dataclass(slots=True, unsafe_hash=True, init=False)
class Candidate:
    """A place that could serve a request, priced in seconds from now."""

    place: Final[Place]
    wait_s: Final[float]  # until a slot is free; 0.0 = free now
    load_s: Final[float]
    prefill_s: Final[float]
    decode_s: Final[float]
    in_flight: Final[int]
    slots: Final[int]
    margin_s: Final[float]  # for what may go wrong: a reply too long for the place, a model thrown out
    alone_s: Final[float]  # what decode_s would be with no company
    read_s: Final[float]  # what prefill_s would be if no other prompt was read meanwhile
    cached_tokens: Final[int]  # of the prompt that the place holds: prefill_s is without them
    affinity_s: Final[float]  # for prefill that would be done twice, as another place holds the prefix
    delay_s: Final[float]  # by which those that read their prompts there now would end later
    chain_s: Final[float]  # what the rest of its chain would take longer here than at the best place
    called: Final[str | None]  # Replica.called

    def __init__(
        self,
        place: Place,
        wait_s: float,
        load_s: float,
        prefill_s: float,
        decode_s: float,
        in_flight: int,
        slots: int,
        margin_s: float = 0.0,
        alone_s: float = 0.0,
        read_s: float = 0.0,
        cached_tokens: int = 0,
        affinity_s: float = 0.0,
        delay_s: float = 0.0,
        chain_s: float = 0.0,
        called: str | None = None,
    ) -> None:
        self.place, self.wait_s, self.load_s, self.prefill_s = place, wait_s, load_s, prefill_s
        self.decode_s, self.in_flight, self.slots, self.margin_s = decode_s, in_flight, slots, margin_s
        self.alone_s, self.read_s, self.cached_tokens = alone_s, read_s, cached_tokens
        self.affinity_s, self.delay_s, self.chain_s, self.called = affinity_s, delay_s, chain_s, called

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


@dataclass(slots=True, unsafe_hash=True, init=False)
class Decision:
    """A policy's pick with its reason and what it was picked from."""

    place: Final[Place]
    policy: Final[str]
    reason: Final[str]
    candidates: Final[tuple[Candidate, ...]]
    called: Final[str | None]  # the name by which the engine knows the model, where it is another

    def __init__(
        self,
        place: Place,
        policy: str,
        reason: str,
        candidates: tuple[Candidate, ...],
        called: str | None = None,
    ) -> None:
        self.place, self.policy, self.reason = place, policy, reason
        self.candidates, self.called = candidates, called
