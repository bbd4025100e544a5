"""From legs to figures: speedup against the best single node, next to what no schedule can beat. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_low

from pairproxy.cli.bench.legs import Leg
from pairproxy.cli.bench.rig import Rig
from pairproxy.cli.bench.workloads import BLOCK, Workload
from pairproxy.core.accounting.bounds import capacity_bound, provable_makespan, waves_bound


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one workload on one rig. Seconds, and speedups against the best single node."""

    alone_s: float  # measured on the best node
    lower_s: float  # no schedule ends before
    waves: float  # published for routers of this kind; exact for equal requests on equal nodes only
    capacity: float
    provable: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What one policy reached, over its rounds; medians where nothing else is said. Encodes as JSON."""

    policy: str
    makespans_s: tuple[float, ...]
    makespan_s: float
    spread: float  # (longest - shortest) / median
    speedup: float
    worst_speedup: float
    efficiency: float  # lower bound / makespan, at most 1
    hit_rate: float
    ttft_p50_s: float
    ttft_p90_s: float
    latency_p50_s: float
    mean_latency_s: float
    refused: float
    per_node: dict[str, int]  # of the round with the median makespan
    modelled_s: float | None  # what the simulator says of the same


def lower_bound(workload: Workload, rig: Rig) -> float:
    """Seconds below which nobody can end: the bounds of the accounting, with true lengths and speeds.

    Also: all engines full write sum R_i(slots_i) tokens/s and no more; the longest chain, on the best node
    for each step, takes its steps and its pauses. Each shared prefix is read once, wherever.
    """
    services = _services(workload, rig)
    everything = sum(request.output_tokens for request in workload.requests)
    written_s = everything / sum(node.full_decode for node in rig.nodes)
    ends: list[float] = []
    for request, row in zip(workload.requests, services, strict=True):
        begins = request.at if request.after is None else ends[request.after] + request.think_s
        ends.append(begins + min(row.values()))
    first = min(request.at for request in workload.requests)
    releases = [
        request.at if request.after is None else end - min(row.values())
        for request, end, row in zip(workload.requests, ends, services, strict=True)
    ]
    return max(provable_makespan(services, rig.slots, releases), written_s, max(ends) - first)


def bounds(workload: Workload, rig: Rig, alone: Sequence[Leg]) -> Bounds:
    """Of a workload, with the legs on the best node alone."""
    alone_s = median(leg.makespan_s for leg in alone)
    lower_s = min(lower_bound(workload, rig), alone_s)
    return Bounds(
        alone_s=alone_s,
        lower_s=lower_s,
        waves=waves_bound(len(workload.requests), sum(rig.slots.values())),
        capacity=capacity_bound(node.full_decode for node in rig.nodes),
        provable=alone_s / lower_s,
    )


def figures(policy: str, legs: Sequence[Leg], limits: Bounds, modelled_s: float | None) -> Figures:
    """What a policy reached in its rounds."""
    makespans = tuple(leg.makespan_s for leg in legs)
    middle_s = median(makespans)
    typical = next(leg for leg in legs if leg.makespan_s == median_low(makespans))
    return Figures(
        policy=policy,
        makespans_s=makespans,
        makespan_s=middle_s,
        spread=(max(makespans) - min(makespans)) / middle_s,
        speedup=limits.alone_s / middle_s,
        worst_speedup=limits.alone_s / max(makespans),
        efficiency=min(limits.lower_s / middle_s, 1.0),
        hit_rate=median(leg.hit_rate for leg in legs),
        ttft_p50_s=median(leg.ttft(0.5) for leg in legs),
        ttft_p90_s=median(leg.ttft(0.9) for leg in legs),
        latency_p50_s=median(leg.latency(0.5) for leg in legs),
        mean_latency_s=median(leg.mean_latency_s for leg in legs),
        refused=sum(leg.refused for leg in legs) / len(legs),
        per_node=dict(typical.per_node),
        modelled_s=modelled_s,
    )


def _services(workload: Workload, rig: Rig) -> list[dict[str, float]]:
    """Per request, the least seconds it takes on each node: alone there, and what it shares is read once."""
    seen: set[int] = set()
    rows: list[dict[str, float]] = []
    for request in workload.requests:
        known = sum(block in seen for block in request.blocks) * BLOCK
        seen.update(request.blocks, request.reply_blocks)
        new = max(request.prompt_tokens - known, 1)
        rows.append(
            {node.name: new / node.prefill + request.output_tokens / node.decode for node in rig.nodes}
        )
    return rows


def shares(found: Mapping[str, int]) -> str:
    """``gpu 9, box 4, laptop 3``."""
    return ", ".join(f"{node} {count}" for node, count in sorted(found.items(), key=lambda one: -one[1]))
