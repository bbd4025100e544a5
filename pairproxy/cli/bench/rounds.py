"""All legs of a bench: the best node alone, then each policy in turn, so many rounds each."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pairproxy.api.results import Bounds, Figures
from pairproxy.cli.bench.figures import bounds, figures
from pairproxy.cli.bench.legs import Bench, Leg
from pairproxy.cli.bench.model import modelled
from pairproxy.cli.bench.rig import Rig
from pairproxy.cli.bench.workloads import Workload

Say = Callable[[str], None]
"""Hears what is being done, for a person who waits."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. ``keeps``: daemons live on between rounds, so that they know how long replies are."""

    workload: Workload
    rig: Rig
    policies: tuple[str, ...]
    rounds: int
    seed: int = 0
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it, one entry per policy."""

    plan: Plan
    bounds: Bounds
    figures: tuple[Figures, ...]


async def run_bench(plan: Plan, say: Say) -> Result:
    """Run everything. Raises PairproxyError, alone or in a group."""
    best = plan.rig.best.name
    async with Bench.of(plan.rig, plan.policies[0]) as bench:
        leg = await bench.run(plan.workload, alone=best)
    say(f"{best} alone: {leg.makespan_s:.1f} s")
    limits = bounds(plan.workload, plan.rig, [leg])
    found = []
    for policy in plan.policies:
        legs = await _rounds(plan, policy, say)
        found.append(_unhurried(plan, figures(policy, legs, limits, _modelled(plan, policy))))
    return Result(plan, limits, tuple(found))


async def measure(workload: Workload, rig: Rig, policy: str) -> Leg:
    """One leg on daemons that never saw a reply before."""
    async with Bench.of(rig, policy) as bench:
        return await bench.run(workload)


async def _rounds(plan: Plan, policy: str, say: Say) -> list[Leg]:
    legs: list[Leg] = []
    if plan.keeps:
        async with Bench.of(plan.rig, policy) as bench:
            for number in range(plan.rounds):
                legs.append(await bench.run(plan.workload))
                _tell(plan, policy, number, legs[-1], say)
    else:
        for number in range(plan.rounds):
            legs.append(await measure(plan.workload, plan.rig, policy))
            _tell(plan, policy, number, legs[-1], say)
    return legs


def _tell(plan: Plan, policy: str, number: int, leg: Leg, say: Say) -> None:
    say(f"{policy}, round {number + 1} of {plan.rounds}: {leg.makespan_s:.1f} s")


def _modelled(plan: Plan, policy: str) -> float | None:
    """The simulator's makespan; it forgets between rounds, so there is none for daemons that are kept."""
    return None if plan.keeps else modelled(plan.workload, plan.rig, policy, plan.seed).makespan_s


def _unhurried(plan: Plan, found: Figures) -> Figures:
    """With what the simulator says where not only engines are fast: fast-forward can change who wins."""
    if plan.keeps or plan.rig.fast_forward == 1.0:
        return found
    rig = replace(plan.rig, fast_forward=1.0)
    ours_s = modelled(plan.workload, rig, found.policy, plan.seed).makespan_s
    alone_s = modelled(plan.workload, rig, found.policy, plan.seed, only=rig.best.name).makespan_s
    return replace(found, unhurried_s=ours_s, unhurried_speedup=alone_s / ours_s)
