"""What a simulation is given and what it gives back (core.simulator)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pairproxy.core.accounting.ledger import RequestRecord
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, Rates

MODEL = ModelName("m:latest")
ENGINE = EngineId("gpu")


@dataclass(frozen=True, slots=True)
class SimEngine:
    """One engine: at most ``slots`` at once, and the true rates of each of its models."""

    engine: EngineId
    slots: int
    rates: Mapping[ModelName, Rates]
    kind: str = "paced"  # the scheduler takes its priors from it
    is_loaded: bool = True


@dataclass(frozen=True, slots=True)
class SimNode:
    """One node. It falls silent at ``lost_at`` (seconds), with all that runs there; None: never."""

    node: NodeId
    engines: tuple[SimEngine, ...]
    lost_at: float | None = None

    @classmethod
    def of(
        cls, name: str, slots: int, rates: Rates, *, is_loaded: bool = True, lost_at: float | None = None
    ) -> "SimNode":
        """Make a node with one engine and one model, the one that SimRequest asks for."""
        return cls(NodeId(name), (SimEngine(ENGINE, slots, {MODEL: rates}, is_loaded=is_loaded),), lost_at)


@dataclass(frozen=True, slots=True)
class SimRequest:
    """One request; the scheduler learns of ``output_tokens`` only when the reply has ended."""

    at: float
    origin: NodeId
    prompt_tokens: int
    output_tokens: int
    max_output_tokens: int | None = None
    client: str = ""
    model: ModelName = MODEL
    leaves_after_s: float | None = None  # the client's patience, from its arrival on


@dataclass(frozen=True, slots=True)
class Network:
    """How nodes hear of each other, in seconds; the defaults are the daemon's own on a LAN."""

    delay_s: float = 0.001
    coalesce_s: float = 0.05
    heartbeat_s: float = 1.0
    lost_after_s: float = 5.0  # of silence
    settle_s: float = 0.5  # how long an engine goes on with a request that was abandoned


@dataclass(frozen=True, slots=True)
class SimResult:
    """What the ledgers of the origins say, and what the machines saw."""

    records: tuple[RequestRecord, ...]  # in the order of the requests
    order: tuple[tuple[int, NodeId], ...]  # (index of the request, node) of each dispatch, as they came
    refused: int  # dispatches that found the slot taken
    most_in_flight: dict[Place, int]

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
