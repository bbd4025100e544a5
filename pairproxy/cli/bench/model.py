"""The same workload on the same nodes in the simulator: modelled beside measured."""

from pairproxy.cli.bench.rig import Rig
from pairproxy.cli.bench.workloads import Workload
from pairproxy.core.knowledge import Rules
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimResult


def modelled(workload: Workload, rig: Rig, policy: str, seed: int) -> SimResult:
    """What the simulator makes of it: production scheduler, simulated GPUs and network. Raises ValueError.

    As the network, a queue's patience is not fast-forwarded.
    """
    patience_s = Rules().queue_timeout_s * rig.fast_forward
    rules = Rules(policy=policy, queue_timeout_s=patience_s)
    return simulate(rig.sim_nodes(), workload.requests, rules, seed, network=rig.network())
