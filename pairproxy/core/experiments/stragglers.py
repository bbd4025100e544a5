"""E1, E2 and E5 with replies in one piece: to the last, what is slow can be taken back (core.rescue)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from pairproxy.core.experiments.bursts import NEVER_BELOW, SIZES, compared
from pairproxy.core.experiments.rigs import at_speeds, client, unequal_three
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case, Measured, Target
from pairproxy.core.models import NodeId
from pairproxy.core.workload import SimNode, SimRequest
from pairproxy.core.workloads.bursts import burst

Rig = Callable[[int], tuple[list[SimNode], list[SimRequest]]]
"""seed -> nodes, and what is asked of them."""

_TARGETS = (
    Target("speedup", "min", at_least=NEVER_BELOW, is_hard=True),
    Target("extra_tokens", "mean", at_most=0.08),
)


def _very_unequal(origins: int, seed: int) -> tuple[list[SimNode], list[SimRequest]]:
    nodes = unequal_three()
    asking = [NodeId("laptop"), NodeId("box"), NodeId("server"), NodeId("client")][:origins]
    if origins > len(nodes):
        nodes.append(client("client"))
    return nodes, burst(Random(seed), SIZES[seed % len(SIZES)], asking)


def _at_speeds(
    speeds: tuple[float, ...], slots: int, count: int, seed: int
) -> tuple[list[SimNode], list[SimRequest]]:
    nodes = at_speeds(*speeds, slots=slots)
    return nodes, burst(Random(seed), count, [nodes[-1].node])


def _whole(rig: Rig, seed: int, setup: Setup) -> Measured:
    nodes, asked = rig(seed)
    return compared(nodes, [replace(one, is_streaming=False) for one in asked], setup, seed)[0]


def _case(experiment: str, name: str, rig: Rig, mean: float, seeds: int, quick: int) -> Case:
    targets = (*_TARGETS, Target("speedup", "mean", at_least=mean))
    return Case(experiment, f"{name}, not streamed", partial(_whole, rig), targets, seeds, quick)


CASES: tuple[Case, ...] = (
    *(
        _case(
            "E1",
            f"burst of 8-128 on 16+4+1 slots, {origins} origin{'s' * (origins > 1)}",
            partial(_very_unequal, origins),
            1.0,
            seeds=30,
            quick=2,
        )
        for origins in (1, 4)
    ),
    *(
        _case(
            "E2",
            f"{count} requests on one slot each at 130/50/25 tokens/s",
            partial(_at_speeds, (130.0, 50.0, 25.0), 1, count),
            mean,
            seeds=100,
            quick=10,
        )
        for count, mean in ((8, 1.12), (32, 1.30))
    ),
    *(
        _case(
            "E5",
            f"48 requests on two nodes of 4 slots, {ratio:g} : 1",
            partial(_at_speeds, (100.0, 100.0 / ratio), 4, 48),
            max(1.0, 0.82 * (1 + 1 / ratio)) if ratio <= 3.0 else 1.0,
            seeds=20,
            quick=2,
        )
        for ratio in (1.5, 3.0, 10.0)
    ),
)
