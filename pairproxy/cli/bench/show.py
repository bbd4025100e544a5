"""The result of a bench: a table with what stands beside it in words, or one JSON document."""

import msgspec

from pairproxy.api.results import BenchNode, BenchResult, Figures
from pairproxy.cli.bench.figures import shares
from pairproxy.cli.bench.rounds import Result
from pairproxy.cli.bench.tables import AGREEMENT, scale_note
from pairproxy.cli.printing import console, counted, show_table

TITLES = (
    "policy", "makespan", "spread", "speedup", "bound", "hits", "TTFT", "p90", "model",
)  # fmt: skip


def report(result: Result) -> None:
    """Print it for people."""
    out = console()
    show_table(out, TITLES, [_row(one) for one in result.figures], frozenset(("policy",)))
    for line in lines(result):
        out.print(line, markup=False)


def lines(result: Result) -> list[str]:
    """What stands below the table."""
    plan, limits = result.plan, result.bounds
    pace, count = plan.rig.fast_forward, len(plan.workload.requests)
    slots = sum(plan.rig.slots.values())
    best = plan.rig.best.name
    found = [f"{one.policy}: requests on {shares(one.per_node)}{_refusals(one)}" for one in result.figures]
    waves = counted(-(-count // slots), "wave")
    found += [
        f"{plan.workload.about}; {counted(len(plan.rig.nodes), 'node')}, {counted(slots, 'slot')}.",
        f"Best single node: {best}, alone {limits.alone_s:.1f} s, measured. Speedups are against it.",
        f"Waves bound {limits.waves:.2f}, for equal nodes and requests: {count} on {slots} go in {waves}.",
        f"Capacity {limits.capacity:.2f}: the speeds of all nodes over that of the best; caches add to it.",
        f"Provable bound {limits.provable:.2f}: no schedule ends before {limits.lower_s:.1f} s.",
        f"makespan: median of {counted(plan.rounds, 'round')}; spread: longest less shortest, part of it.",
        "bound: how much of the provable bound was reached; hits: prompt tokens that were in a cache.",
        "TTFT and p90: its median and the one that a tenth of the requests exceeds.",
    ]
    if any(one.modelled_s is not None for one in result.figures):
        found.append("model: the makespan that the simulator finds for the same.")
    if pace != 1.0:
        found.append(scale_note(pace))
    unhurried = [
        f"{one.policy} {one.unhurried_s:.1f} s (speedup {one.unhurried_speedup:.2f})"
        for one in result.figures
        if one.unhurried_s is not None
    ]
    if unhurried:
        found.append(f"Without fast-forward the model says: {', '.join(unhurried)}.")
    for one in result.figures:
        gap = abs(one.modelled_s / one.makespan_s - 1.0) if one.modelled_s is not None else 0.0
        if gap > AGREEMENT:
            found.append(
                f"{one.policy}: modelled and measured differ by {gap:.0%}; near a tie, milliseconds decide "
                "which node gets a request."
            )
    if limits.provable < 1.02:
        found.append("One node alone is at the bound: more machines cannot help here.")
    return found


def to_json(result: Result) -> str:
    """One document for machines."""
    plan = result.plan
    document = BenchResult(
        workload=plan.workload.name,
        requests=len(plan.workload.requests),
        nodes=tuple(msgspec.convert(one, BenchNode, from_attributes=True) for one in plan.rig.nodes),
        fast_forward=plan.rig.fast_forward,
        rounds=plan.rounds,
        seed=plan.seed,
        best_node=plan.rig.best.name,
        bounds=result.bounds,
        policies=tuple(result.figures),
        explanation=tuple(lines(result)),
    )
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _row(one: Figures) -> tuple[str, ...]:
    return (
        one.policy,
        _seconds(one.makespan_s),
        f"{one.spread:.0%}",
        f"{one.speedup:.2f}",
        f"{one.efficiency:.0%}",
        f"{one.hit_rate:.0%}",
        _seconds(one.ttft_p50_s),
        _seconds(one.ttft_p90_s),
        "" if one.modelled_s is None else _seconds(one.modelled_s),
    )


def _seconds(value_s: float) -> str:
    """As few digits as tell policies apart: longer rows would not stand side by side on 80 characters."""
    return f"{value_s:.1f} s" if value_s < 99.95 else f"{value_s:.0f} s"


def _refusals(one: Figures) -> str:
    return f"; {one.refused:.1%} of the attempts were refused" if one.refused else ""
