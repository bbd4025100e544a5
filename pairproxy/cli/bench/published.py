"""The published table of five sub-agents, with paced engines: laptop, DGX Spark, RTX 5090.

Published for NVIDIA PAIR: laptop alone 18:00, the three together 8:48; the 5090 alone takes 6:18. Its router
hands each request over at once, by count. Times are scaled back to minutes.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from pairproxy.cli.bench.direct import ask_directly
from pairproxy.cli.bench.figures import lower_bound, shares
from pairproxy.cli.bench.legs import Bench, Leg
from pairproxy.cli.bench.model import modelled
from pairproxy.cli.bench.rig import NodeSpec, Rig, names, published
from pairproxy.cli.bench.rounds import Say, measure
from pairproxy.cli.bench.tables import Row, scale_note, told
from pairproxy.cli.bench.workloads import Workload
from pairproxy.cli.bench.workloads import published as tasks

FAST_FORWARD = 40.0  # 6:18 takes 9.5 s
SPARKS = (1.0, 0.82)  # speed of a Spark, the laptop's being 1: as fast, and what the published 8:48 takes
PUBLISHED_S = 8 * 60 + 48.0
BEST_S = 6 * 60 + 18.0
TARGET_S = 4 * 60 + 40.0


async def published_table(rounds: int, say: Say) -> tuple[list[Row], list[str]]:
    """Rows and notes. Raises PairproxyError, alone or in a group."""
    rows = await _alone(say)
    best_s = next(row.value for row in rows if "5090" in row.experiment)
    for spark in SPARKS:
        rows += await _together(spark, rounds, best_s, say)
    rows += await _equal(rounds, say)
    rows += await _single(say)
    return rows, [
        scale_note(FAST_FORWARD),
        f"Medians of {rounds} rounds on fresh daemons: they know speeds, not how long replies are.",
    ]


async def _alone(say: Say) -> list[Row]:
    rig = Rig(published(), FAST_FORWARD)
    workload = tasks(5, names(rig.nodes)[:1], 0)
    rows = []
    async with Bench.of(rig, "fastest-finish") as bench:
        for name, about, seconds in (("laptop", "18:00", 1080.0), ("rtx-5090", "6:18", BEST_S)):
            leg = await bench.run(workload, alone=name)
            say(f"{name} alone: {leg.makespan_s:.0f} s")
            note = f"published {about}; {leg.makespan_s / seconds - 1:+.1%} is what the proxy costs"
            rows.append(Row(f"{name} alone", leg.makespan_s, unit="min", note=note))
    return rows


async def _together(spark: float, rounds: int, best_s: float, say: Say) -> list[Row]:
    rig = Rig(published(spark), FAST_FORWARD)
    workload = tasks(5, names(rig.nodes)[:1], 0)
    case = f"Spark {spark:g}"
    ours = await _legs(rig, "fastest-finish", workload, rounds, case, say)
    busy = await _legs(rig, "least-busy", workload, 1, case, say)
    async with Bench.of(rig, "fastest-finish") as bench:
        handed = await bench.run(workload, hands_over=True)
    ours_s, worst_s = median(leg.makespan_s for leg in ours), max(leg.makespan_s for leg in ours)
    model_s = modelled(workload, rig, "fastest-finish", 0).makespan_s
    unhurried_s = modelled(workload, Rig(rig.nodes), "fastest-finish", 0).makespan_s
    optimum = (
        f"{shares(ours[0].per_node)}; optimum {told(lower_bound(workload, rig), 'min')}; "
        f"without fast-forward the model says {told(unhurried_s, 'min')}"
    )
    return [
        Row(f"{case}: handed over by count", handed.makespan_s, unit="min", note=shares(handed.per_node)),
        Row(f"{case}: least-busy of ours", busy[0].makespan_s, unit="min", note=shares(busy[0].per_node)),
        Row(f"{case}: fastest-finish", ours_s, "<=", TARGET_S, "min", model_s, optimum),
        Row(f"{case}: its slowest round", worst_s, "<=", BEST_S, "min"),
        Row(f"{case}: against the best node", best_s / ours_s, ">=", 1.35),
    ]


async def _equal(rounds: int, say: Say) -> list[Row]:
    nodes = published(1.0)[:2]
    rig = Rig(nodes, FAST_FORWARD)
    workload = tasks(5, names(nodes)[:1], 0)
    async with Bench.of(rig, "fastest-finish") as bench:
        alone_s = (await bench.run(workload, alone=nodes[0].name)).makespan_s
    legs = await _legs(rig, "fastest-finish", workload, rounds, "two equal nodes", say)
    speedup = alone_s / median(leg.makespan_s for leg in legs)
    return [Row("two equal nodes, part of 5/3", speedup / (5 / 3), ">=", 0.98)]


async def _single(say: Say) -> list[Row]:
    """One node: through the daemon, and the same engine asked directly."""
    node: NodeSpec = replace(published()[2], name="only")
    rig = Rig((node,), FAST_FORWARD)
    workload = tasks(5, names(rig.nodes), 0)
    directly = await ask_directly(workload, rig)
    async with Bench.of(rig, "fastest-finish") as bench:
        proxied = await bench.run(workload)
    say(f"one node: {proxied.makespan_s:.0f} s, directly {directly.makespan_s:.0f} s")
    ratio = proxied.makespan_s / directly.makespan_s
    return [Row("one node / its engine directly", ratio, "<=", 1.01)]


async def _legs(rig: Rig, policy: str, workload: Workload, rounds: int, case: str, say: Say) -> Sequence[Leg]:
    legs = []
    for _ in range(rounds):
        legs.append(await measure(workload, rig, policy))
        say(f"{case}, {policy}: {legs[-1].makespan_s:.0f} s ({shares(legs[-1].per_node)})")
    return legs
