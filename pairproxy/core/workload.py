"""What a simulation is given and what it gives back (core.simulator)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pairproxy.core.accounting.ledger import RequestRecord
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, Rates

MODEL = ModelName("m:latest")
ENGINE = EngineId("gpu")


@dataclass(frozen=True, slots=True)
class SimEngine:
    """One engine: at most ``slots`` at once, and the true rates of each of its models.

    ``cache_tokens`` is the room of its prefix cache (None: it has none), ``measured`` the factor by which its
    calibration was off (1.4: it believes to be 1.4 times as fast as it is), ``interference`` the factor by
    which reading and writing slow each other while both go on (core.simulated_gpu).
    """

    engine: EngineId
    slots: int
    rates: Mapping[ModelName, Rates]
    kind: str = "paced"  # the scheduler takes its priors from it
    is_loaded: bool = True
    cache_tokens: int | None = None
    tells_cached: bool = True  # whether its replies say how much of the prompt was cached
    measured: float = 1.0
    interference: float = 1.0


class Slowdown(NamedTuple):
    """From ``from_s`` to ``to_s`` (on the virtual clock) a node works at ``pace`` times its rates."""

    from_s: float
    to_s: float
    pace: float


@dataclass(frozen=True, slots=True)
class SimNode:
    """One node. It falls silent at ``lost_at`` (seconds), with all that runs there; None: never.

    Its slowdowns do not overlap.
    """

    node: NodeId
    engines: tuple[SimEngine, ...]
    lost_at: float | None = None
    slowed: tuple[Slowdown, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        slots: int,
        rates: Rates,
        *,
        kind: str = "paced",
        is_loaded: bool = True,
        lost_at: float | None = None,
        slowed: tuple[Slowdown, ...] = (),
        cache_tokens: int | None = None,
        measured: float = 1.0,
    ) -> "SimNode":
        """Make a node with one engine and one model, the one that SimRequest asks for."""
        engine = SimEngine(ENGINE, slots, {MODEL: rates}, kind, is_loaded, cache_tokens, measured=measured)
        return cls(NodeId(name), (engine,), lost_at, slowed)


@dataclass(frozen=True, slots=True)
class SimRequest:
    """One request; the scheduler learns of ``output_tokens`` only when the reply has ended.

    A request with ``after`` follows another one in a closed loop: it arrives ``think_s`` (a tool at work)
    after the request of that index has ended in whatever way, and not before ``at``; with ``joins``, after
    the last of these too, as an agent that waits for its sub-agents. ``blocks`` are the chained hashes of the
    full blocks of its prompt, 64 tokens each (core.models.BLOCK_TOKENS); ``reply_blocks`` are those that its
    reply completes, with which the prompt of the next step goes on.
    """

    at: float
    origin: NodeId
    prompt_tokens: int
    output_tokens: int
    max_output_tokens: int | None = None
    client: str = ""
    model: ModelName = MODEL
    leaves_after_s: float | None = None  # the client's patience, from its arrival on
    after: int | None = None
    think_s: float = 0.0
    joins: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    reply_blocks: tuple[int, ...] = ()
    run: str | None = None
    chain: str = ""
    brings_tools: bool = False  # as each request of an agent does
    is_streaming: bool = True
    tells_blocks: bool = True  # False: the scheduler knows nothing of them, only the engine's cache does

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The indices of all the requests that it follows."""
        return self.joins if self.after is None else (self.after, *self.joins)


@dataclass(frozen=True, slots=True)
class Network:
    """How nodes hear of each other, in seconds; the defaults are the daemon's own on a LAN.

    ``lost`` is the probability that a state document never comes, or that a request finds no way to a peer
    (which its origin notices at once); ``doubled`` that a document comes a second time, up to a second later.
    """

    delay_s: float = 0.001
    coalesce_s: float = 0.05
    pressing_s: float = 0.002  # the same, where a reader waits for the news to act (Scheduler.pressing)
    heartbeat_s: float = 1.0
    lost_after_s: float = 5.0  # of silence
    settle_s: float = 0.5  # how long an engine goes on with a request that was abandoned
    lost: float = 0.0
    doubled: float = 0.0


@dataclass(frozen=True, slots=True)
class SimResult:
    """What the ledgers of the origins say, and what the machines saw."""

    records: tuple[RequestRecord, ...]  # in the order of the requests
    order: tuple[tuple[int, NodeId], ...]  # (index of the request, node) of each dispatch, as they came
    refused: int  # dispatches that found the slot taken
    most_in_flight: dict[Place, int]
    cached_tokens: tuple[int, ...] = ()  # of each prompt, as the engine found it when it began to read
    prompt_tokens: tuple[int, ...] = ()

    @property
    def ttfts_s(self) -> tuple[float | None, ...]:
        """Seconds from each arrival to the first byte; None where there was none."""
        return tuple(record.ttft_s for record in self.records)

    @property
    def hit_rate(self) -> float:
        """The part of all prompt tokens that was cached."""
        return sum(self.cached_tokens) / max(sum(self.prompt_tokens), 1)

    @property
    def makespan_s(self) -> float:
        """From the first arrival to the last end."""
        return max(record.ended_at for record in self.records) - min(
            record.arrived_at for record in self.records
        )

    @property
    def per_node(self) -> Counter[NodeId]:
        """Replies that each node made."""
        finals = (record.final for record in self.records)
        return Counter(final.place.node for final in finals if final is not None and final.is_served)


def check_workload(nodes: Sequence[SimNode], requests: Sequence[SimRequest]) -> None:
    """Raise ValueError for what cannot be simulated: see core.simulator.simulate."""
    origins = {request.origin for request in requests}
    if not requests or not origins <= {sim.node for sim in nodes if sim.lost_at is None}:
        raise ValueError("requests must arrive, at nodes that are there and stay")
    if not all(0 <= before < index for index, one in enumerate(requests) for before in one.waits_for):
        raise ValueError("a request must stand behind the one that it follows")
    if len({sim.node for sim in nodes}) < len(nodes):
        raise ValueError("the names of the nodes must differ")
