"""One node of a simulation: the production scheduler and ledger, and a simulated GPU per engine."""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.documents import EngineReport
from pairproxy.core.events import EngineReported, Event, SpeedMeasured
from pairproxy.core.models import AttemptId, EngineId, NodeId, Place, Replica, RequestId, Usage
from pairproxy.core.rules import Rules
from pairproxy.core.scheduler import Scheduler
from pairproxy.core.simulated_gpu import Reached, SimulatedGpu
from pairproxy.core.virtual_clock import VirtualClock
from pairproxy.core.workload import SimEngine, SimNode, SimRequest

UNBOUNDED = 1_000_000  # records: a simulation keeps them all
MEASURED_TOKENS = 512  # of the request by which an engine is measured; only the ratio to its seconds counts


class SimulatedNode:
    """What one node knows and runs. Times are seconds on the virtual clock."""

    def __init__(self, sim: SimNode, rules: Rules, clock: VirtualClock, tell: "Tell", seed: int = 0) -> None:
        self._clock = clock
        self._tell = tell
        self._next_tick: dict[EngineId, float | None] = {}
        self.sim = sim
        self.id: NodeId = sim.node
        self.scheduler = Scheduler(sim.node, rules, Random(f"{seed} {sim.node}"))
        self.ledger = Ledger(UNBOUNDED, UNBOUNDED)
        self.engines = {engine.engine: engine for engine in sim.engines}
        self.gpus = {
            engine.engine: SimulatedGpu(engine.slots, engine.cache_tokens, engine.interference)
            for engine in sim.engines
        }
        self.running: dict[AttemptId, Place] = {}  # sent from here as their origin, not over
        self.begun: set[AttemptId] = set()  # of these, the ones with a first byte
        self.guests: dict[RequestId, tuple[NodeId, AttemptId]] = {}  # request here -> attempt at its origin
        self.settling: set[AttemptId] = set()  # abandoned, but the GPU is still at it
        self.next_alarm: float | None = None
        self.published = 0
        self.will_publish = False
        self.is_lost = False

    @property
    def has_open_requests(self) -> bool:
        """Whether a request that arrived here has not ended."""
        return self.ledger.open_requests > 0 and not self.is_lost

    def introduction(self, at: float, knows_speeds: bool) -> Iterator[Event]:
        """What the node finds out about its own engines when it starts."""
        for engine in self.sim.engines:
            for model, rates in engine.rates.items():
                if engine.is_loaded:
                    self.gpus[engine.engine].preload(at, model)
                if knows_speeds:
                    usage = Usage(
                        prompt_tokens=MEASURED_TOKENS,
                        output_tokens=MEASURED_TOKENS,
                        prefill_s=MEASURED_TOKENS / (rates.prefill * engine.measured),
                        decode_s=MEASURED_TOKENS / (rates.decode * engine.measured),
                        load_s=rates.load_s,
                    )
                    yield SpeedMeasured(at, engine.engine, model, usage)
            yield EngineReported(at, self.report(engine, at))

    def report(self, engine: SimEngine, at: float) -> EngineReport:
        """What probing the engine tells."""
        gpu = self.gpus[engine.engine]
        replicas = tuple((Replica(model, "sha256:0"), gpu.is_loaded(at, model)) for model in engine.rates)
        kept = engine.cache_tokens or 0
        return EngineReport(engine.engine, engine.kind, "", engine.slots, replicas, cache_tokens=kept)

    def start(self, at: float, attempt: AttemptId, engine: EngineId, request: SimRequest) -> None:
        """Hand an attempt to an engine. Raises RuntimeError if it has no free slot."""
        self._advance(engine, at)
        rates = self.engines[engine].rates[request.model]
        gpu = self.gpus[engine]
        gpu.start(
            at, attempt, request.model, rates, request.prompt_tokens, request.output_tokens,
            request.blocks, request.reply_blocks,
        )  # fmt: skip
        self._set_tick(engine)

    def most_in_flight(self) -> Iterator[tuple[Place, int]]:
        """How many requests each engine ever had at once."""
        for engine, gpu in self.gpus.items():
            yield Place(self.id, engine), gpu.most_in_flight

    def plan_slowdowns(self) -> None:
        """Put on the clock when the machine slows down, and when it is fast again."""
        for slowdown in self.sim.slowed:
            self._clock.at(slowdown.from_s, partial(self.set_pace, slowdown.pace), is_heartbeat=True)
            self._clock.at(slowdown.to_s, partial(self.set_pace, 1.0), is_heartbeat=True)

    def set_pace(self, pace: float, at: float) -> None:
        """Let all engines work at ``pace`` times their rates from now on."""
        for engine, gpu in self.gpus.items():
            self._advance(engine, at)
            gpu.set_pace(pace)
            self._set_tick(engine)

    def stop(self, at: float, attempt: AttemptId) -> None:
        """Let the engine that works on an attempt drop it, unless it ends in this moment."""
        engine = self.engine_of(attempt)
        if engine is not None:
            self._advance(engine, at)
            self.gpus[engine].stop(attempt)
            self._set_tick(engine)

    def engine_of(self, attempt: AttemptId) -> EngineId | None:
        """Which engine of this node runs an attempt; None: none of them."""
        return next((engine for engine, gpu in self.gpus.items() if gpu.runs(attempt)), None)

    def _advance(self, engine: EngineId, at: float) -> None:
        for reached in self.gpus[engine].advance(at):
            self._tell(self, engine, reached)

    def _set_tick(self, engine: EngineId) -> None:
        """Ask to be woken when the next phase ends; an earlier wish is void."""
        tick = self.gpus[engine].next_change()
        self._next_tick[engine] = tick
        if tick is not None:
            self._clock.at(tick, partial(self._tick, engine))

    def _tick(self, engine: EngineId, at: float) -> None:
        if self._next_tick[engine] == at and not self.is_lost:
            self._advance(engine, at)
            self._set_tick(engine)


Tell = Callable[[SimulatedNode, EngineId, Reached], None]
"""Hears of every phase that ends on an engine of a node."""
