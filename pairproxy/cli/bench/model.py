"""The same workload on the same nodes in the simulator: modelled beside measured."""

from collections import Counter
from dataclasses import dataclass, replace

from pairproxy.cli.bench.rig import Rig
from pairproxy.cli.bench.workloads import Workload
from pairproxy.core.models import NodeId
from pairproxy.core.rules import Rules
from pairproxy.core.simulator import simulate


@dataclass(frozen=True, slots=True)
class Modelled:
    """What a leg would be, in the workload's own time."""

    makespan_s: float
    hit_rate: float
    per_node: Counter[NodeId]


def modelled(workload: Workload, rig: Rig, policy: str, seed: int, *, only: str | None = None) -> Modelled:
    """What the simulator makes of it: production scheduler, simulated GPUs and network.

    ``only``: asked there, and of that node alone. Engines are fast-forwarded as those of the daemons are, and
    as there nothing else is: no wait, heartbeat or patience.
    """
    pace = rig.fast_forward
    requests = [
        replace(
            request,
            origin=request.origin if only is None else NodeId(only),
            at=request.at / pace,
            think_s=request.think_s / pace,
        )
        for request in workload.requests
    ]
    result = simulate(rig.sim_nodes(only, pace), requests, Rules(policy=policy), seed)
    hits = sum(result.cached_tokens) / max(sum(result.prompt_tokens), 1)
    return Modelled(result.makespan_s * pace, hits, result.per_node)
