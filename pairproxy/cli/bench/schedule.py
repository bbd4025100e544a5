"""The targets of the scheduler for whole daemons with paced engines, case by case.

Lengths are unknown to the daemons (each leg has fresh ones), speeds are what each node measured of itself.
A case is run on several seeds; what is told is the median of the ratios, or a ratio of sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median

from pairproxy.cli.bench.direct import ask_directly
from pairproxy.cli.bench.figures import lower_bound
from pairproxy.cli.bench.legs import Bench, Leg
from pairproxy.cli.bench.model import modelled
from pairproxy.cli.bench.rig import NodeSpec, Rig, equal, names, unequal
from pairproxy.cli.bench.rig import agents as agent_nodes
from pairproxy.cli.bench.rounds import Say, measure
from pairproxy.cli.bench.tables import Row
from pairproxy.cli.bench.workloads import Workload, burst, chains, one_chain

OURS = "fastest-finish"
SHORT, LONG = 20.0, 40.0  # fast-forward of cases that take about a minute of real life, and of longer ones
AGENTS_PACE = 20.0  # the same, of agents in closed loop: a step takes seconds
AGENTS, START_S = 16, 90.0  # in closed loop, beginning at moments of so many seconds
DIRECT = 5.0  # where a percent of a step is told apart


@dataclass(frozen=True, slots=True)
class Burst:
    """One case of bursts: its name, nodes, requests and how near to the lower bound it should end."""

    name: str
    nodes: tuple[NodeSpec, ...]
    count: int
    target: float

    @property
    def rig(self) -> Rig:
        """At a pace that makes it last seconds."""
        return Rig(self.nodes, LONG if self.count > 16 else SHORT)


BURSTS = (
    Burst("1 : 1.5 : 4, one slot, 8", unequal(1), 8, 1.30),
    Burst("1 : 1.5 : 4, one slot, 16", unequal(1), 16, 1.20),
    Burst("1 : 1.5 : 4, one slot, 50", unequal(1), 50, 1.10),
    Burst("1 : 1.5 : 4, four slots, 8", unequal(4), 8, 1.75),
    Burst("1 : 1.5 : 4, four slots, 16", unequal(4), 16, 1.65),
    Burst("1 : 1.5 : 4, four slots, 50", unequal(4), 50, 1.35),
    Burst("three equal, one slot, 16", equal(3), 16, 1.15),
    Burst("three equal, one slot, 50", equal(3), 50, 1.08),
)
COMPARED = 16  # requests of the unequal bursts that are also run in the other ways


async def bursts(seeds: Sequence[int], say: Say) -> list[Row]:
    """Makespan over lower bound; of some unequal ones, also what other ways of doing them take."""
    rows: list[Row] = []
    others: list[_Ways] = []
    for case in BURSTS:
        workloads = [burst(case.count, names(case.nodes)[:1], seed) for seed in seeds]
        bounds = [lower_bound(workload, case.rig) for workload in workloads]
        legs = [await measure(workload, case.rig, OURS) for workload in workloads]
        models = [modelled(workload, case.rig, OURS, 0).makespan_s for workload in workloads]
        measured = median(leg.makespan_s / bound for leg, bound in zip(legs, bounds, strict=True))
        model = median(one / bound for one, bound in zip(models, bounds, strict=True))
        rows.append(Row(f"burst {case.name}", measured, "<=", case.target, modelled=model))
        say(f"{case.name}: {measured:.2f} of the bound (model {model:.2f})")
        if case.nodes in (unequal(1), unequal(4)) and case.count == COMPARED:
            ways = zip(workloads, legs, strict=True)
            others += [await _other_ways(one, case.rig, leg.makespan_s) for one, leg in ways]
    return rows + _compared(others)


@dataclass(frozen=True, slots=True)
class _Ways:
    """Seconds that one workload takes in each way."""

    ours_s: float
    handed_s: float  # by count and at once, as routers do
    busy_s: float  # by count, but from the origin's queue
    best_s: float  # on the best node alone
    modelled_s: float  # the same in the simulator


async def _other_ways(workload: Workload, rig: Rig, ours_s: float) -> _Ways:
    best = rig.best.name
    async with Bench.of(rig, "least-busy") as bench:
        busy = await bench.run(workload)
        handed = await bench.run(workload, hands_over=True)
        alone = await bench.run(workload, alone=best)
    model_s = modelled(workload, rig, OURS, 0, only=best).makespan_s
    return _Ways(ours_s, handed.makespan_s, busy.makespan_s, alone.makespan_s, model_s)


def _compared(ways: Sequence[_Ways]) -> list[Row]:
    """Ratios of sums."""
    ours_s, best_s = sum(one.ours_s for one in ways), sum(one.best_s for one in ways)
    case = f"unequal {COMPARED}"
    return [
        Row(f"{case}: by count, at once / ours", sum(one.handed_s for one in ways) / ours_s, ">=", 1.7),
        Row(f"{case}: our least-busy / ours", sum(one.busy_s for one in ways) / ours_s),
        Row(f"{case}: best node alone / ours", best_s / ours_s, ">=", 1.0),
        Row(f"{case}: best node alone", best_s, unit="s", modelled=sum(one.modelled_s for one in ways)),
    ]


async def origins(seeds: Sequence[int], say: Say) -> list[Row]:
    """Three origins instead of one; four at once, and how often they collide."""
    rig = Rig(unequal(1), LONG)
    one_s, three_s = 0.0, 0.0
    for seed in seeds:
        one_s += (await measure(burst(32, names(rig.nodes)[:1], seed), rig, OURS)).makespan_s
        three_s += (await measure(burst(32, names(rig.nodes), seed), rig, OURS)).makespan_s
    four = Rig((*unequal(2), NodeSpec("mini", 1, 400.0, 20.0)), LONG)
    refused = [(await measure(burst(48, names(four.nodes), seed), four, OURS)).refused for seed in seeds]
    say(f"three origins instead of one: {three_s / one_s:.2f}")
    return [
        Row("three origins / one, 32 requests", three_s / one_s, "<=", 1.10),
        Row("four origins, 48 requests: refused", sum(refused) / len(refused), "<", 0.05, "%"),
    ]


async def agents(seeds: Sequence[int], say: Say) -> list[Row]:
    """Chains in closed loop against counting: a step's latency, TTFT, hits; one chain against no proxy."""
    rig = Rig(agent_nodes(), AGENTS_PACE)
    ours: list[Leg] = []
    busy: list[Leg] = []
    models: list[float] = []
    for seed in seeds:
        workload = _started_apart(chains(AGENTS, names(rig.nodes), seed), seed)
        ours.append(await measure(workload, rig, OURS))
        busy.append(await measure(workload, rig, "least-busy"))
        models.append(modelled(workload, rig, OURS, 0).hit_rate)
        say(f"chains: {ours[-1].mean_latency_s:.2f} s a step, least-busy {busy[-1].mean_latency_s:.2f} s")
    step = _mean([one.mean_latency_s for one in ours]) / _mean([one.mean_latency_s for one in busy])
    hits = _mean([one.hit_rate for one in ours])
    ttft_50, ttft_90 = (
        _mean([one.ttft(part) for one in ours]) / _mean([one.ttft(part) for one in busy])
        for part in (0.5, 0.9)
    )
    return [
        Row("16 agents / least-busy: step", step, "<=", 0.62),
        Row("16 agents / least-busy: TTFT p50", ttft_50, "<=", 0.25),
        Row("16 agents / least-busy: TTFT p90", ttft_90, "<=", 0.5),
        Row("16 agents: hits", hits, ">=", 0.74, "%", _mean(models)),
        await _direct(say),
    ]


async def _direct(say: Say) -> Row:
    """One chain on one replica: each step through the proxy against the engine itself."""
    rig = Rig(equal(1), DIRECT)
    workload = one_chain(1, names(rig.nodes), 1)
    workload = replace(workload, requests=tuple(replace(one, think_s=0.5) for one in workload.requests))
    directly = await ask_directly(workload, rig)
    proxied = await measure(workload, rig, OURS)
    ratio = proxied.mean_latency_s / directly.mean_latency_s
    say(f"one chain, one replica: {ratio:.3f} of direct")
    return Row("one chain, one replica / direct", ratio, "<=", 1.01)


def _started_apart(workload: Workload, seed: int) -> Workload:
    """The same agents, each beginning at a moment of the first START_S."""
    random = Random(seed)
    requests = tuple(
        one if one.waits_for else replace(one, at=random.uniform(0.0, START_S)) for one in workload.requests
    )
    return replace(workload, requests=requests)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
