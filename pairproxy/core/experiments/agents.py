"""E15, E17-E19 and closed loops: sub-agents that go step by step.

Recorded chains (Setup.chains) where the public trace is at hand, generated ones like them elsewhere. E17's
cache sizes on the fast node are those at which it finds about six and eight in ten prompt tokens alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

from pairproxy.core.experiments.loads import against_least_busy
from pairproxy.core.experiments.measures import (
    alone,
    chains_bound_s,
    hit_rate,
    ideal_hit_rate,
    new_tokens,
)
from pairproxy.core.experiments.rigs import box, client, equal, gpu_server, published_trio
from pairproxy.core.experiments.setup import DYNAMO_RUN, Setup
from pairproxy.core.experiments.verdicts import Case, Measured, Target
from pairproxy.core.models import NodeId
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import MODEL, SimNode, SimRequest
from pairproxy.core.workloads.chains import Chain, fan_out, played, sub_agent
from pairproxy.core.workloads.traces import dynamo_chains

CHAINS = 5
LARGE_CACHE = 600_000  # tokens, on the fast node
SMALL_CACHES = {1: 185_000, 4: 205_000}  # the same, by its slots
OPTIONS = 3  # concurrencies that a node alone may choose from: its cache may hold no more


def drawn(seed: int, setup: Setup, count: int = CHAINS) -> list[Chain]:
    """A random set of chains, at most once each while there are enough."""
    chains = setup.chains()
    random = Random(seed)
    return random.sample(chains, count) if count <= len(chains) else random.choices(chains, k=count)


def compared(
    nodes: Sequence[SimNode], requests: Sequence[SimRequest], setup: Setup, seed: int
) -> dict[str, float]:
    """Chains beside the best node alone ("speedup"), the bound ("to_bound"), endless memory ("hit ...")."""
    result = simulate(nodes, requests, setup.rules(), seed)
    best = alone(nodes, requests, setup.rules("fastest-finish"), seed, tries=OPTIONS)
    return {
        "speedup": best.makespan_s / result.makespan_s,
        "to_bound": result.makespan_s / chains_bound_s(nodes, requests),
        "possible": best.makespan_s / chains_bound_s(nodes, requests),
        "hit": hit_rate(result),
        "hit alone": hit_rate(best),
        "hit of the ideal": hit_rate(result) / ideal_hit_rate(requests),
    }


def _on_the_trio(slots: int, cache_tokens: int, seed: int, setup: Setup) -> Measured:
    nodes = published_trio(cache_tokens, slots)
    return compared(nodes, played(drawn(seed, setup), [nodes[0].node]), setup, seed)


def _on_two_equal(seed: int, setup: Setup) -> Measured:
    nodes = equal(2, 1, cache_tokens=LARGE_CACHE, decode=80.0)
    return compared(nodes, played(drawn(seed, setup), [nodes[0].node]), setup, seed)


def _session(seed: int, setup: Setup) -> Measured:
    """Twenty sub-agents of one session; each begins with the same 20,000 tokens."""
    nodes = equal(4, 4, cache_tokens=600_000, decode=80.0)
    random = Random(seed)
    chains = [sub_agent(random, start=1, common_tokens=20_000) for _ in range(20)]
    return compared(nodes, played(chains, [nodes[0].node]), setup, seed)


def _one_chain(seed: int, setup: Setup) -> Measured:
    """One replica, at a peer; beside the same steps sent to it directly."""
    nodes = [client("laptop"), box("box", 4, 500_000)]
    (chain,) = drawn(seed, setup, 1)
    requests = played([chain], [NodeId("laptop")])
    result = simulate(nodes, requests, setup.rules(), seed)
    rates = nodes[1].engines[0].rates[MODEL]
    direct_s = sum(
        new / rates.prefill + request.output_tokens / rates.decode + request.think_s
        for new, request in zip(new_tokens(requests), requests, strict=True)
    )
    return {"to_direct": result.makespan_s / direct_s}


def _closed_loop(seed: int, setup: Setup) -> Measured:
    nodes = [box("box0", 4, 150_000), box("box1", 4, 150_000), gpu_server("server", 8, 300_000)]
    random = Random(seed)
    chains = [replace(chain, begins_s=random.uniform(0.0, 90.0)) for chain in drawn(seed, setup, 16)]
    requests = played(chains, [node.node for node in nodes])
    return against_least_busy(nodes, requests, setup, seed)


def _tree(seed: int, setup: Setup) -> Measured:
    nodes = published_trio(LARGE_CACHE)
    return compared(nodes, fan_out(Random(seed), nodes[0].node, 4), setup, seed)


def _recorded_run(seed: int, setup: Setup) -> Measured:
    nodes = published_trio(LARGE_CACHE)
    chains = [chain for chain in dynamo_chains(setup.traces[DYNAMO_RUN]) if len(chain.steps) > 1]
    return compared(nodes, played(chains, [nodes[seed % 2].node]), setup, seed)


_SHOWN = (
    Target("to_bound", "mean"),
    Target("possible", "mean"),
    Target("hit", "mean"),
    Target("hit alone", "mean"),
)

CASES: tuple[Case, ...] = (
    Case(
        "E15",
        "one chain, one replica, at a peer",
        _one_chain,
        (Target("to_direct", "mean", at_most=1.01), Target("to_direct", "max", at_most=1.05)),
        seeds=20,
        quick=3,
    ),
    *(
        Case(
            "E17",
            f"five sub-agents on laptop + Spark + 5090, {slots} slot{'s' * (slots > 1)} each, {size} cache",
            partial(_on_the_trio, slots, LARGE_CACHE if size == "large" else SMALL_CACHES[slots]),
            (
                Target("speedup", "mean", at_least=wanted),
                Target("speedup", "min", at_least=0.98),
                Target("speedup", "p50"),
                *_SHOWN,
            ),
            seeds=40,
            quick=2,
        )
        for slots in (1, 4)
        for size, wanted in (("small", 1.2), ("large", 1.1))
    ),
    Case(
        "E17",
        "a main agent with four sub-agents that it waits for, on the same",
        _tree,
        (Target("speedup", "mean"), Target("speedup", "min"), Target("to_bound", "mean")),
        seeds=20,
        quick=0,
    ),
    Case(
        "E17",
        "the recorded agent with three sub-agents, on the same",
        _recorded_run,
        (Target("speedup", "mean"), Target("to_bound", "mean")),
        seeds=2,
        quick=0,
        trace=DYNAMO_RUN,
    ),
    Case(
        "E18",
        "five sub-agents on two equal nodes of one slot",
        _on_two_equal,
        (Target("speedup", "mean", at_least=1.7), Target("speedup", "min", at_least=1.2), *_SHOWN),
        seeds=40,
        quick=2,
    ),
    Case(
        "E19",
        "twenty sub-agents that share 20,000 tokens on four equal nodes",
        _session,
        (
            Target("hit of the ideal", "mean", at_least=0.90),
            Target("to_bound", "mean", at_most=1.25),
            Target("speedup", "mean"),
        ),
        seeds=6,
        quick=1,
    ),
    Case(
        "S10",
        "sixteen sub-agents in closed loop on three nodes, against least-busy",
        _closed_loop,
        (
            Target("latency", "mean", at_most=0.62),
            Target("TTFT P50", "mean", at_most=0.25),
            Target("TTFT P90", "mean", at_most=0.50),
            Target("hit", "mean", at_least=0.74),
        ),
        seeds=10,
        quick=1,
    ),
)
