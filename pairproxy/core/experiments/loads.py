"""E16 and the public traces: requests that arrive one after another, at a load."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

from pairproxy.core.experiments.measures import hit_rate, ideal_hit_rate, mean_latency_s, ttft_s
from pairproxy.core.experiments.rigs import box, gpu_server, unequal_three
from pairproxy.core.experiments.setup import AZURE, MOONCAKE, Setup
from pairproxy.core.experiments.verdicts import Case, Measured, Target
from pairproxy.core.models import NodeId
from pairproxy.core.policies import POLICIES
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode, SimRequest
from pairproxy.core.workloads.bursts import burst, capacity, spread_out
from pairproxy.core.workloads.traces import at_rate, azure, mooncake

LOADS = (0.2, 0.5, 0.9)
REQUESTS = 150
TRACED = 300  # requests of a trace
MOST_PROMPT = 24_000  # tokens: the few that are longer are cut, as small machines have smaller windows
NO_RIVALS = ("local-only",)  # stays on this machine whatever happens


def _at_load(load: float, seed: int, setup: Setup) -> Measured:
    nodes = unequal_three()
    asked = burst(Random(seed), REQUESTS, [NodeId("laptop"), NodeId("box")])
    requests = spread_out(Random(seed + 1), asked, load * capacity(nodes, asked))
    latencies = {
        policy: mean_latency_s(simulate(nodes, requests, setup.rules(policy), seed))
        for policy in {*POLICIES, setup.policy}
        if policy not in NO_RIVALS
    }
    ours = latencies.pop(setup.policy)
    return {"to_best_policy": ours / min(latencies.values())}


def _mixed(cache_tokens: int) -> list[SimNode]:
    return [
        box("box0", 4, cache_tokens),
        box("box1", 4, cache_tokens),
        gpu_server("server", 8, cache_tokens),
        gpu_server("small", 4, cache_tokens),
    ]


def _traced(trace: str, seed: int, setup: Setup) -> Measured:
    """A stretch of the trace, as many requests each time, sped up or slowed down to 80 % load."""
    nodes = _mixed(150_000)
    origins = [node.node for node in nodes[:2]]
    lines = setup.traces[trace]
    read = mooncake if trace == MOONCAKE else azure
    every = read(lines, origins, TRACED * (seed + 1))[TRACED * seed :]
    requests = [_cut(one) for one in every]
    rate = 0.8 * capacity(nodes, requests, 0.8 * ideal_hit_rate(requests))
    factor = at_rate(requests, rate)
    timed = [replace(one, at=(one.at - requests[0].at) * factor) for one in requests]
    return against_least_busy(nodes, timed, setup, seed)


def against_least_busy(
    nodes: Sequence[SimNode], requests: Sequence[SimRequest], setup: Setup, seed: int
) -> dict[str, float]:
    """Mean latency and TTFT as parts of those of least-busy, and the hit rate."""
    ours, blind = (simulate(nodes, requests, setup.rules(policy), seed) for policy in ("", "least-busy"))
    return {
        "latency": mean_latency_s(ours) / mean_latency_s(blind),
        "TTFT P50": ttft_s(ours, 0.5) / ttft_s(blind, 0.5),
        "TTFT P90": ttft_s(ours, 0.9) / ttft_s(blind, 0.9),
        "hit": hit_rate(ours),
    }


def _cut(request: SimRequest) -> SimRequest:
    if request.prompt_tokens <= MOST_PROMPT:
        return request
    return replace(request, prompt_tokens=MOST_PROMPT, blocks=request.blocks[: MOST_PROMPT // 64])


CASES: tuple[Case, ...] = (
    *(
        Case(
            "E16",
            f"mean latency at {load:.0%} load, beside the best other policy",
            partial(_at_load, load),
            (Target("to_best_policy", "mean", at_most=1.0),),
            seeds=6,
            quick=1,
        )
        for load in LOADS
    ),
    *(
        Case(
            "S10",
            f"{name} in open loop at 80 % load, against least-busy",
            partial(_traced, trace),
            (
                Target("latency", "mean", at_most=0.70),
                Target("TTFT P50", "mean", at_most=0.60),
                Target("TTFT P90", "mean", at_most=0.55),
                Target("hit", "mean"),
            ),
            seeds=4,
            quick=0,
            trace=trace,
        )
        for name, trace in (("the Mooncake conversations", MOONCAKE), ("the Azure coding trace", AZURE))
    ),
)
