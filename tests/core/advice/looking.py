"""Workloads that have a property, by the simulator, and the evidence that a daemon would gather of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pairproxy.core.accounting.runs import Run
from pairproxy.core.advice.evidence import Conclusion, Evidence
from pairproxy.core.advice.gathering import Known, gather
from pairproxy.core.advice.tree import advise
from pairproxy.core.advice.trials import Trials
from pairproxy.core.models import ModelName, NodeId, Place, Rates
from pairproxy.core.rules import Rules
from pairproxy.core.simulator import simulate
from pairproxy.core.workload import SimNode, SimRequest, SimResult

A, B = NodeId("a"), NodeId("b")
USUAL = Rates(2000.0, 50.0, 0.15)
CACHE = 100_000  # tokens


def node(name: str, slots: int = 1, rates: Rates = USUAL) -> SimNode:
    """One with a prefix cache."""
    return SimNode.of(name, slots, rates, cache_tokens=CACHE)


def happens(nodes: Sequence[SimNode], requests: Sequence[SimRequest], policy: str) -> SimResult:
    """What really comes of it."""
    return simulate(nodes, requests, Rules(policy=policy, queue_timeout_s=1e6))


def look(
    nodes: Sequence[SimNode],
    requests: Sequence[SimRequest],
    policy: str = "fastest-finish",
    **known: Any,
) -> Evidence:
    """What the node ``a`` gathers when all has ended."""
    records = happens(nodes, requests, policy).records
    run = Run("job", "job", tuple(sorted(records, key=lambda record: record.arrived_at)))
    places: dict[Place, tuple[int, dict[ModelName, Rates]]] = {
        Place(one.node, engine.engine): (engine.slots, {**engine.rates})
        for one in nodes
        for engine in one.engines
    }
    names: dict[str, str] = {one.node: f"node {one.node}" for one in nodes}
    return gather(
        run,
        Known(
            A, policy, places, dict.fromkeys(places, "paced"), dict.fromkeys(places, CACHE), names, **known
        ),
    )


def advised(evidence: Evidence) -> tuple[Conclusion, ...]:
    """What the tree says, with all the trials it wants."""
    return advise(evidence, Trials(evidence))


def told(found: Sequence[Conclusion], lever: str) -> Conclusion:
    """The first conclusion on a lever."""
    return next(one for one in found if one.lever == lever)


def burst(count: int, prompt: int = 200, output: int = 100) -> list[SimRequest]:
    """Equal requests at once."""
    return [SimRequest(0.0, A, prompt, output) for _ in range(count)]


def chain(steps: int, prompt: int = 200, output: int = 50) -> list[SimRequest]:
    """One after the other, each going on with the prompt of the last."""
    requests = [SimRequest(0.0, A, prompt, output, blocks=(1, 2))]
    for step in range(1, steps):
        blocks = tuple(range(1, 3 + step))
        requests.append(
            SimRequest(0.0, A, max(prompt, 64 * len(blocks) + 1), output, after=step - 1, blocks=blocks)
        )
    return requests


def prefixes(order: Sequence[int], blocks: int = 60, pause_s: float = 4.0) -> list[SimRequest]:
    """Requests that come one by one, each with the long beginning of its kind."""
    return [
        SimRequest(
            index * pause_s, A, 64 * blocks + 20, 20, blocks=tuple(range(1000 * kind, 1000 * kind + blocks))
        )
        for index, kind in enumerate(order, 1)
    ]


def faster(rates: Rates, *, prefill: float = 1.0, decode: float = 1.0) -> Rates:
    """So many times as fast."""
    return replace(rates, prefill=rates.prefill * prefill, decode=rates.decode * decode)
