"""E6-E9: requests that share the starts of their prompts."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

from pairproxy.core.experiments.measures import hit_rate, refused_share, ttft_s
from pairproxy.core.experiments.rigs import equal
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case, Measured, Target
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode, SimRequest, SimResult
from pairproxy.core.workloads.bursts import capacity, spread_out
from pairproxy.core.workloads.chains import chat, played, shared_prefixes, zipf

NODES = 7
PREFIX_TOKENS = 8000
PREFIXES = 64
CACHED_PREFIXES = 16  # of one node: a quarter of them
CACHE_TOKENS = CACHED_PREFIXES * (PREFIX_TOKENS + 500)
REQUESTS = 350
WARM = 120  # requests in which the caches fill; what is reported comes after them
STEADY_LOAD = 0.6  # of what least-busy could do with a quarter of the prompts cached
BLIND = "least-busy"


def _nodes() -> list[SimNode]:
    return equal(NODES, 4, cache_tokens=CACHE_TOKENS)


def _asked(random: Random, weights: Sequence[float], nodes: Sequence[SimNode]) -> list[SimRequest]:
    origins = [node.node for node in nodes[:4]]
    return shared_prefixes(
        random, REQUESTS, origins, weights=weights, prefix_tokens=PREFIX_TOKENS, output=200.0
    )


def _lost(ours: float, theirs: float) -> float:
    """By which part ours is smaller."""
    return 1.0 - ours / theirs


def _long_prefixes(seed: int, setup: Setup) -> Measured:
    nodes = _nodes()
    at_once = _asked(Random(seed), [1.0] * PREFIXES, nodes)
    rate = STEADY_LOAD * capacity(nodes, at_once, CACHED_PREFIXES / PREFIXES)
    steady = spread_out(Random(seed + 1), at_once, rate)
    ours, blind = (simulate(nodes, steady, setup.rules(policy), seed) for policy in ("", BLIND))
    full, blind_full = (simulate(nodes, at_once, setup.rules(policy), seed) for policy in ("", BLIND))
    return {
        "hit": hit_rate(ours, WARM),
        "hit of least-busy": hit_rate(blind, WARM),
        "TTFT P50 saved": _lost(ttft_s(ours, 0.5, WARM), ttft_s(blind, 0.5, WARM)),
        "TTFT P90 saved": _lost(ttft_s(ours, 0.9, WARM), ttft_s(blind, 0.9, WARM)),
        "throughput gained": blind_full.makespan_s / full.makespan_s - 1.0,
        "smallest share": min(ours.per_node[node.node] for node in nodes) / REQUESTS,
        "largest share": max(ours.per_node.values()) / REQUESTS,
    }


def _chats(seed: int, setup: Setup) -> Measured:
    nodes = equal(NODES, 4, cache_tokens=60_000)
    random = Random(seed)
    chains = [chat(random, random.uniform(0.0, 60.0)) for _ in range(70)]
    requests = played(chains, [node.node for node in nodes[:4]], client="chat")
    at_once = [replace(one, at=0.0, think_s=0.0) for one in requests]
    ours, blind = (simulate(nodes, requests, setup.rules(policy), seed) for policy in ("", BLIND))
    full, blind_full = (simulate(nodes, at_once, setup.rules(policy), seed) for policy in ("", BLIND))
    return {
        "TTFT P50 saved": _lost(ttft_s(ours, 0.5), ttft_s(blind, 0.5)),
        "throughput gained": blind_full.makespan_s / full.makespan_s - 1.0,
    }


def hottest(result: SimResult, nodes: int) -> float:
    """The largest share of the replies that one node made, times the nodes: 1.0 is even."""
    return max(result.per_node.values()) * nodes / sum(result.per_node.values())


def _skewed(kind: str, seed: int, setup: Setup) -> Measured:
    nodes = _nodes()
    rest = [1.0] * (PREFIXES - 1)
    weights = [len(rest) / 3.0, *rest] if kind == "one" else zipf(PREFIXES)
    requests = _asked(Random(seed), weights, nodes)
    rate = 0.8 * capacity(nodes, requests, 0.9)
    result = simulate(nodes, spread_out(Random(seed + 1), requests, rate), setup.rules(), seed)
    return {"hottest": hottest(result, NODES), "hit": hit_rate(result, WARM)}


def _several_origins(origins: int, seed: int, setup: Setup) -> Measured:
    nodes = equal(8, 2, cache_tokens=40_000)
    asked = shared_prefixes(
        Random(seed), 160, [nodes[0].node], weights=zipf(16, 0.5), prefix_tokens=3000, output=200.0
    )
    timed = spread_out(Random(seed + 1), asked, 1.2 * capacity(nodes, asked, 0.8))
    dealt = [replace(one, origin=nodes[index % origins].node) for index, one in enumerate(timed)]
    single, result = (simulate(nodes, some, setup.rules(), seed) for some in (timed, dealt))
    return {
        "hit lost": hit_rate(single) - hit_rate(result),
        "makespan lost": result.makespan_s / single.makespan_s - 1.0,
        "refused": refused_share(result),
    }


_EVEN = (Target("smallest share", "mean", at_least=0.12), Target("largest share", "mean", at_most=0.17))

CASES: tuple[Case, ...] = (
    Case(
        "E6",
        "8,000-token prefixes on seven equal nodes, a quarter of them fits one node, 4 origins",
        _long_prefixes,
        (
            Target("hit", "mean", at_least=0.90),
            Target("hit of least-busy", "mean"),
            Target("TTFT P50 saved", "mean", at_least=0.80),
            Target("TTFT P90 saved", "mean", at_least=0.37),
            Target("throughput gained", "mean", at_least=0.16),
            *_EVEN,
        ),
        seeds=4,
        quick=1,
    ),
    Case(
        "E7",
        "short chats of several turns on seven equal nodes",
        _chats,
        (
            Target("TTFT P50 saved", "mean", at_least=0.16),
            Target("throughput gained", "mean", at_least=0.02),
        ),
        seeds=4,
        quick=0,
    ),
    *(
        Case(
            "E8",
            name,
            partial(_skewed, kind),
            (Target("hottest", "mean", at_most=1.5), Target("hit", "mean")),
            seeds=4,
            quick=0,
        )
        for kind, name in (
            ("one", "one prefix with a quarter of the traffic, at 80 % load"),
            ("zipf", "prefixes as popular as words, at 80 % load"),
        )
    ),
    *(
        Case(
            "E9",
            f"the same requests from {origins} origins instead of one",
            partial(_several_origins, origins),
            (
                Target("hit lost", "mean", at_most=0.02),
                Target("makespan lost", "mean", at_most=0.03),
                Target("refused", "mean", at_most=0.05),
            ),
            seeds=8,
            quick=int(origins == 4),
        )
        for origins in (2, 4, 8)
    ),
)
