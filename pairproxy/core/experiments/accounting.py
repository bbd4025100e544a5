"""E13: what the report says of a run is held against the simulation that made the run.

No run may beat its lower bound at the true speeds, the losses must add up, and the modelled time of the best
node alone must be what that node really takes when the same requests are simulated on it alone.
"""

from collections.abc import Sequence
from functools import partial
from random import Random

from pairproxy.core.accounting.chains import follows
from pairproxy.core.accounting.report import report_run
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.works import Places, lower_bounds, works_of
from pairproxy.core.experiments.measures import alone
from pairproxy.core.experiments.rigs import at_speeds, equal, published_trio, unequal_three
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case, Measured, Target
from pairproxy.core.models import NodeId, Place
from pairproxy.core.simulator import simulate
from pairproxy.core.whatif.alone import Caches, best_single_node
from pairproxy.core.workload import SimNode, SimRequest
from pairproxy.core.workloads.bursts import burst
from pairproxy.core.workloads.chains import played, shared_prefixes, sub_agent, zipf

ROUNDING = 1e-6
TRIES = 5  # concurrencies of the node alone: all of its slots, half, a quarter ...
TARGETS = (
    Target("bound / makespan", "max", at_most=1.0 + ROUNDING),
    Target("efficiency", "max", at_most=1.0),
    Target("losses off by", "max", at_most=ROUNDING),
    Target("T1 off by", "p90", at_most=0.10),
)


def checked(nodes: Sequence[SimNode], requests: Sequence[SimRequest], setup: Setup, seed: int) -> Measured:
    """One simulated run, reported as a daemon would that knows the true speeds; seconds are ratios here."""
    result = simulate(nodes, requests, setup.rules(), seed)
    records = tuple(sorted(result.records, key=lambda record: record.arrived_at))
    run, places, caches = Run("E13", None, records), places_of(nodes), caches_of(nodes)
    t1 = best_single_node(run, places, caches)
    slots = {node.node: sum(engine.slots for engine in node.engines) for node in nodes if node.engines}
    report = report_run(run, slots, t1, places=places)
    bound = lower_bounds(works_of(records, follows(records)), places)
    if t1 is None or report.losses is None or report.lower_bound_s is None or report.efficiency is None:
        raise ValueError("a run of the simulator was not understood")
    replayed_s = alone(nodes, requests, setup.rules("fastest-finish"), seed, tries=TRIES).makespan_s
    return {
        "bound / makespan": bound.makespan_s / run.makespan_s,
        "efficiency": report.efficiency,
        "losses off by": abs(report.losses.total_s - (run.makespan_s - report.lower_bound_s)),
        "T1 off by": abs(t1.value_s - replayed_s) / replayed_s,
    }


def places_of(nodes: Sequence[SimNode]) -> Places:
    """The true speeds of simulated nodes."""
    return {
        Place(node.node, engine.engine): (engine.slots, engine.rates)
        for node in nodes
        for engine in node.engines
    }


def caches_of(nodes: Sequence[SimNode]) -> Caches:
    """The true sizes of their prefix caches."""
    return {
        Place(node.node, engine.engine): engine.cache_tokens
        for node in nodes
        for engine in node.engines
        if engine.cache_tokens is not None
    }


def _unequal(seed: int, setup: Setup) -> Measured:
    nodes = unequal_three()
    return checked(nodes, burst(Random(seed), (8, 32, 64)[seed % 3], [NodeId("laptop")]), setup, seed)


def _one_slot(seed: int, setup: Setup) -> Measured:
    nodes = at_speeds(130.0, 50.0, 25.0)
    return checked(nodes, burst(Random(seed), (8, 32)[seed % 2], [nodes[0].node]), setup, seed)


def _prefixes(seed: int, setup: Setup) -> Measured:
    nodes = equal(3, 4, cache_tokens=40_000)
    origins = [node.node for node in nodes[:2]]
    requests = shared_prefixes(Random(seed), 64, origins, weights=zipf(8, 0.5), prefix_tokens=3000)
    return checked(nodes, requests, setup, seed)


def _chains(cache_tokens: int, seed: int, setup: Setup) -> Measured:
    nodes = published_trio(cache_tokens)
    random = Random(seed)
    chains = [sub_agent(random, 1 + 100_000 * number) for number in range(5)]
    return checked(nodes, played(chains, [nodes[0].node]), setup, seed)


CASES: tuple[Case, ...] = (
    Case("E13", "bursts on a server, a box and a laptop", _unequal, TARGETS, seeds=30, quick=6),
    Case("E13", "bursts on one slot each", _one_slot, TARGETS, seeds=30, quick=6),
    Case("E13", "shared prefixes, two origins", _prefixes, TARGETS, seeds=20, quick=4),
    Case("E13", "chains, large cache", partial(_chains, 600_000), TARGETS, seeds=20, quick=4),
    Case("E13", "chains, small cache", partial(_chains, 185_000), TARGETS, seeds=20, quick=4),
)
