"""The same workload on the same nodes in the simulator: modelled beside measured."""

from dataclasses import replace

from pairproxy.cli.bench.rig import Rig
from pairproxy.cli.bench.workloads import Workload
from pairproxy.core.knowledge import Rules
from pairproxy.core.models import NodeId
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimResult


def modelled(workload: Workload, rig: Rig, policy: str, seed: int, *, only: str | None = None) -> SimResult:
    """What the simulator makes of it: production scheduler, simulated GPUs and network.

    ``only``: asked there, and of that node alone. As the network, a queue's patience is not fast-forwarded.
    """
    rules = Rules(policy=policy, queue_timeout_s=Rules().queue_timeout_s * rig.fast_forward)
    requests = [
        request if only is None else replace(request, origin=NodeId(only)) for request in workload.requests
    ]
    return simulate(rig.sim_nodes(only), requests, rules, seed, network=rig.network())
