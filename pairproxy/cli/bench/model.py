"""The same workload on the same nodes in the simulator: modelled beside measured."""

from pairproxy.cli.bench.rig import Rig
from pairproxy.cli.bench.workloads import Workload
from pairproxy.core.knowledge import Rules
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimResult


def modelled(workload: Workload, rig: Rig, policy: str, seed: int) -> SimResult:
    """What the simulator makes of it: production scheduler, simulated GPUs and network. Raises ValueError."""
    return simulate(rig.sim_nodes(), workload.requests, Rules(policy=policy), seed, network=rig.network())
