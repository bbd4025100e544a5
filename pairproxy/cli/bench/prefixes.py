"""Prefix hits where they are real: two embedded engines, eight requests over two long shared prompts.

The same requests under a policy that does not look at prefixes and under ours; cached tokens are those that
llama.cpp itself tells (timings.cache_n). Wants two cores that are otherwise idle.
"""

from collections.abc import Callable
from random import Random
from statistics import median

from pairproxy.cli.bench.figures import shares
from pairproxy.cli.bench.legs import Bench, Leg
from pairproxy.cli.bench.rounds import Say
from pairproxy.cli.bench.tables import Row
from pairproxy.cli.bench.workloads import Workload
from pairproxy.cli.demo.cluster import node_settings
from pairproxy.config import cache_dir
from pairproxy.core.models import BLOCK_TOKENS, NodeId
from pairproxy.core.workload import SimRequest
from pairproxy.engines.model_fetch import fetch_model

BLIND, OURS = "least-busy", "fastest-finish"
REQUESTS, PREFIXES = 8, 2
PREFIX_BLOCKS = 32  # of 256 characters: about 1,500 tokens of the embedded model
OWN_TOKENS = 40  # what each request adds
OUTPUT_TOKENS = 24
IDEAL = 1 - PREFIXES / REQUESTS  # the part of all shared tokens that need not be read: each prefix once
HITS = 0.9 * IDEAL


def workload(origin: NodeId, seed: int) -> Workload:
    """Eight requests at once, the two prefixes in an order that the seed shuffles."""
    kinds = [number % PREFIXES for number in range(REQUESTS)]
    Random(seed).shuffle(kinds)
    prompt = PREFIX_BLOCKS * BLOCK_TOKENS + OWN_TOKENS
    requests = tuple(
        SimRequest(
            0.0, origin, prompt, OUTPUT_TOKENS, blocks=tuple(range(1000 * kind, 1000 * kind + PREFIX_BLOCKS))
        )
        for kind in kinds
    )
    return Workload("prefixes", f"{REQUESTS} requests over {PREFIXES} prefixes", requests)


async def prefix_table(
    rounds: int, say: Say, fetching: Callable[[int, int], None]
) -> tuple[list[Row], list[str]]:
    """Rows and notes. Raises PairproxyError, alone or in a group."""
    await fetch_model(cache_dir(), fetching)
    legs: dict[str, list[Leg]] = {BLIND: [], OURS: []}
    for number in range(rounds):
        for policy in (BLIND, OURS):
            legs[policy].append(await _leg(policy, number))
            leg = legs[policy][-1]
            say(
                f"round {number + 1}, {policy}: TTFT p50 {leg.ttft(0.5):.2f} s, hits {leg.hit_rate:.0%}, "
                f"{leg.makespan_s:.1f} s ({shares(leg.per_node)})"
            )
    return _rows(legs[BLIND], legs[OURS]), [
        f"{REQUESTS} requests at once over {PREFIXES} prefixes; two embedded engines of one thread and slot.",
        f"Medians of {rounds} rounds, each in another order, on fresh daemons.",
        f"Cached tokens by llama.cpp's own account. Reading each prefix once leaves {IDEAL:.0%} to be hits.",
    ]


async def _leg(policy: str, seed: int) -> Leg:
    settings = {name: node_settings("embedded", policy=policy, threads=1) for name in "AB"}
    async with Bench(settings, is_real=True) as bench:
        return await bench.run(workload(NodeId("A"), seed))


def _rows(blind: list[Leg], ours: list[Leg]) -> list[Row]:
    rows = []
    for part, name in ((0.5, "TTFT p50"), (0.9, "TTFT p90")):
        before, now = (median(leg.ttft(part) for leg in legs) for legs in (blind, ours))
        rows += [Row(f"{BLIND}: {name}", before, unit="s"), Row(f"{OURS}: {name}", now, "<=", before, "s")]
    for policy, legs in ((BLIND, blind), (OURS, ours)):
        hits = median(leg.hit_rate for leg in legs)
        is_ours = policy == OURS
        rows += [
            Row(f"{policy}: cached of a prompt", median(_cached(leg) for leg in legs), unit="tokens"),
            Row(f"{policy}: hits", hits, ">=" if is_ours else "", HITS if is_ours else None, "%"),
            Row(f"{policy}: all eight", median(leg.makespan_s for leg in legs), unit="s"),
        ]
    return rows


def _cached(leg: Leg) -> float:
    """Tokens of a request's prompt that were cached, on average."""
    return sum(one.cached_tokens for one in leg.replies) / len(leg.replies)
