"""E11 and E12: nodes that fall silent, speeds that are wrong, machines that are slowed by somebody."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from pairproxy.core.experiments.measures import alone, lower_bound_s
from pairproxy.core.experiments.rigs import at_speeds
from pairproxy.core.experiments.setup import Setup
from pairproxy.core.experiments.verdicts import Case, Measured, Target
from pairproxy.core.models import Outcome
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode, SimRequest, Slowdown
from pairproxy.core.workloads.bursts import burst

SPEEDS = (100.0, 60.0, 40.0)
NOTICED_S = 5.0  # silence after which a node is gone
WRONG = (0.6, 1.4)  # what a node measured, times its true speed
HALVED = Slowdown(5.0, 35.0, 0.5)


def _burst(seed: int, nodes: Sequence[SimNode], count: int = 48) -> list[SimRequest]:
    return burst(Random(seed), count, [nodes[0].node])


def _node_lost(seed: int, setup: Setup) -> Measured:
    nodes = at_speeds(*SPEEDS, slots=2)
    requests = [replace(one, is_streaming=False) for one in _burst(seed, nodes)]
    victim = 1 + seed % 2
    nodes[victim] = replace(nodes[victim], lost_at=Random(seed).uniform(3.0, 30.0))
    result = simulate(nodes, requests, setup.rules(), seed)
    left = [node for node in nodes if node.lost_at is None]
    failed = sum(record.outcome is not Outcome.DONE for record in result.records)
    bound_s = lower_bound_s(left, requests)
    return {"failed": failed, "to_bound": (result.makespan_s - NOTICED_S) / bound_s}


def _with(nodes: Sequence[SimNode], measured: Sequence[float]) -> list[SimNode]:
    return [
        replace(node, engines=(replace(node.engines[0], measured=factor),))
        for node, factor in zip(nodes, measured, strict=True)
    ]


def _wrong_speeds(seed: int, setup: Setup) -> Measured:
    random = Random(seed)
    nodes = at_speeds(*SPEEDS, slots=2)
    requests = _burst(seed, nodes)
    wrong = _with(nodes, [random.choice(WRONG) for _ in nodes])
    right_s = simulate(nodes, requests, setup.rules(), seed).makespan_s
    wrong_s = simulate(wrong, requests, setup.rules(), seed).makespan_s
    best = alone(nodes, requests, setup.rules("fastest-finish"), seed)
    return {"makespan lost": wrong_s / right_s - 1.0, "speedup": best.makespan_s / wrong_s}


def _halved(seed: int, setup: Setup) -> Measured:
    nodes = at_speeds(*SPEEDS, slots=2)
    requests = _burst(seed, nodes, 64)
    slowed = list(nodes)
    slowed[seed % 3] = replace(slowed[seed % 3], slowed=(HALVED,))
    steady_s = simulate(nodes, requests, setup.rules(), seed).makespan_s
    halved_s = simulate(slowed, requests, setup.rules(), seed).makespan_s
    best = alone(slowed, requests, setup.rules("fastest-finish"), seed)
    return {"makespan lost": halved_s / steady_s - 1.0, "speedup": best.makespan_s / halved_s}


CASES: tuple[Case, ...] = (
    Case(
        "E11",
        "a node falls silent in the middle of a burst of buffered requests",
        _node_lost,
        (Target("failed", "max", at_most=0.0), Target("to_bound", "mean", at_most=1.3)),
        seeds=20,
        quick=2,
    ),
    Case(
        "E12",
        "each node believes to be 1.4 or 0.6 times as fast as it is",
        _wrong_speeds,
        (Target("makespan lost", "mean", at_most=0.10), Target("speedup", "min", at_least=0.95)),
        seeds=30,
        quick=3,
    ),
    Case(
        "E12",
        "a node works at half its speed for 30 s",
        _halved,
        (Target("makespan lost", "mean", at_most=0.15), Target("speedup", "min", at_least=0.95)),
        seeds=30,
        quick=3,
    ),
)
