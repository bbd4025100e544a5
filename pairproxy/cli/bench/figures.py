"""From legs to figures: speedup against the best single node, next to what no schedule can beat. Pure."""

from collections.abc import Mapping, Sequence
from statistics import median, median_low

from pairproxy.api.results import Bounds, Figures
from pairproxy.cli.bench.legs import Leg
from pairproxy.cli.bench.rig import Rig
from pairproxy.cli.bench.workloads import Workload
from pairproxy.core.accounting.bounds import capacity_bound, waves_bound
from pairproxy.core.experiments.measures import chains_bound_s, lower_bound_s


def lower_bound(workload: Workload, rig: Rig) -> float:
    """Seconds below which nobody can end, with true lengths and speeds; what is shared is read once."""
    nodes, requests = rig.sim_nodes(), workload.requests
    has_past = any(request.blocks or request.waits_for for request in requests)
    return chains_bound_s(nodes, requests) if has_past else lower_bound_s(nodes, requests)


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


def shares(found: Mapping[str, int]) -> str:
    """``gpu 9, box 4, laptop 3``."""
    return ", ".join(f"{node} {count}" for node, count in sorted(found.items(), key=lambda one: -one[1]))
