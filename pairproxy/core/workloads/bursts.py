"""Requests without a past: bursts, and arrivals at a load. Lengths are log-normal, as those of chats are."""

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from pairproxy.core.models import NodeId
from pairproxy.core.workload import MODEL, SimNode, SimRequest

MEDIAN_OUTPUT = 300.0  # tokens; the published median of chat traffic, and the prior of core.lengths
SPREAD = 1.0  # standard deviation of the logarithm
LEAST_OUTPUT, MOST_OUTPUT = 8, 8192  # tokens; no model goes on for ever
PROMPTS = (100, 2000)  # tokens, evenly spread
LIMITS = (256, 512, 1024, 2048, 4096, 8192)  # max_tokens, as people set it: a round number above


def draw_output(random: Random, median: float = MEDIAN_OUTPUT, spread: float = SPREAD) -> int:
    """The length of one reply in tokens."""
    tokens = round(random.lognormvariate(math.log(median), spread))
    return min(max(tokens, LEAST_OUTPUT), MOST_OUTPUT)


def burst(
    random: Random,
    count: int,
    origins: Sequence[NodeId],
    *,
    has_limits: bool = False,
    median: float = MEDIAN_OUTPUT,
    spread: float = SPREAD,
) -> list[SimRequest]:
    """``count`` requests at once, dealt to the origins in turn.

    ``has_limits``: each says max_tokens, the next round number above what it will get.
    """
    requests = []
    for index in range(count):
        output = draw_output(random, median, spread)
        limit = next(one for one in LIMITS if one >= output) if has_limits else None
        prompt = random.randint(*PROMPTS)
        requests.append(SimRequest(0.0, origins[index % len(origins)], prompt, output, limit))
    return requests


def equal_burst(count: int, origin: NodeId, prompt: int, output: int) -> list[SimRequest]:
    """An agent's fan-out of equal tasks; nobody is told how long they will be."""
    return [SimRequest(0.0, origin, prompt, output) for _ in range(count)]


def spread_out(random: Random, requests: Sequence[SimRequest], per_second: float) -> list[SimRequest]:
    """The same requests, arriving at random moments (a Poisson process) at a mean rate."""
    at, spread = 0.0, []
    for request in requests:
        at += random.expovariate(per_second)
        spread.append(replace(request, at=at))
    return spread


def capacity(nodes: Sequence[SimNode], requests: Sequence[SimRequest], cached: float = 0.0) -> float:
    """Requests of this mean size that the nodes end per second when they never pause, about.

    On each engine all slots write while one reads: the lesser of what the slots and what the reading allow.
    ``cached``: the part of the prompts that is not read.
    """
    prompt = sum(one.prompt_tokens for one in requests) / len(requests) * (1.0 - cached)
    output = sum(one.output_tokens for one in requests) / len(requests)
    total = 0.0
    for engine in (engine for node in nodes for engine in node.engines):
        rates = engine.rates[MODEL]
        read_s, write_s = prompt / rates.prefill, output / (rates.decode * rates.share(engine.slots))
        total += 1.0 / max((read_s + write_s) / engine.slots, read_s)
    return total
