"""What `pairproxy report` says in lines: who did what, times, bounds, losses, and the requests to look at."""

from typing import TYPE_CHECKING

from pairproxy.cli.options import plain
from pairproxy.cli.printing import counted

if TYPE_CHECKING:
    from pairproxy.api.schema import Report
    from pairproxy.core.accounting.report import RunReport

TITLES = ("node", "requests", "tokens in", "tokens out", "busy")
NOTHING = (
    "No request came to this machine since its daemon started (`pairproxy report --all` lists the runs "
    "before). Point a tool at its port and come back. What it does for paired machines stands in their "
    "reports."
)
SHORT = 8  # characters of an id: `explain` takes the beginning of one
MOST_BAD, MOST_SLOW, MOST_FINDINGS = 5, 3, 3  # that are listed: a screen has some 24 lines


def rows(found: "Report", run: "RunReport") -> list[tuple[str, ...]]:
    """What each node did, as cells below TITLES."""
    return [
        (
            plain(found.names.get(node, node[:8])),
            str(tally.requests),
            str(tally.prompt_tokens),
            str(tally.output_tokens),
            f"{tally.busy_s:.1f} s",
        )
        for node, tally in run.per_node.items()
    ]


def lines(found: "Report", run: "RunReport") -> list[str]:
    """All that is to be said of a run beside its verdict."""
    advice = [plain(finding) for finding in found.findings[:MOST_FINDINGS]]
    return [*sentences(run), *advice, *continued(found), *requests(found)]


def judged(found: "Report") -> list[str]:
    """What limited the run, and what would change it; nothing in a report of before there was a verdict."""
    if found.verdict is None:
        return []
    return [
        f"What limited it: {plain(found.verdict.limited_by)}",
        f"What would change it: {plain(found.verdict.change)}",
    ]


def sentences(run: "RunReport") -> list[str]:
    """A run's report in lines for a person: times, caches, chains, bounds, losses, and what must be said."""
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(run.outcomes.items()))
    lines = [f"{counted(run.requests, 'request')} ({outcomes}) in {run.makespan_s:.2f} s"]
    if run.ttft_p50_s is not None and run.ttft_p90_s is not None:
        lines.append(f"first byte after {run.ttft_p50_s:.2f} s (median), {run.ttft_p90_s:.2f} s (p90)")
    if run.cached_tokens is not None and run.prompt_tokens:
        part = f"{run.cached_tokens / run.prompt_tokens:.0%}"
        lines.append(f"{run.cached_tokens} of {run.prompt_tokens} prompt tokens ({part}) came from a cache")
    return [*lines, *_chains(run), *_bounds(run), *_losses(run), *run.notes]


def _chains(run: "RunReport") -> list[str]:
    if not run.chains or run.span_hi_s is None:
        return []
    steps = (
        f"{counted(run.chains, 'chain')} of {counted(run.chain_steps, 'step')} (longest {run.longest_chain})"
    )
    path = f"the longest takes {run.span_hi_s:.1f} s without waiting"
    least = "" if run.span_lo_s is None else f", {run.span_lo_s:.1f} s with each step where it is soonest"
    return [f"{steps}, tools between them {run.tool_s:.1f} s; {path}{least}"]


def _bounds(run: "RunReport") -> list[str]:
    lines = []
    if len(run.per_node) > 1:
        slots = f"{counted(run.requests, 'request')}, {counted(run.slots, 'slot')}; equal nodes only"
        capacity = "" if run.bound_capacity is None else f", capacity {run.bound_capacity:.2f}"
        lines.append(f"waves bound {run.bound_waves:.2f} ({slots}){capacity}")
    if run.t1 is not None and run.speedup is not None:
        lines.append(
            f"speedup {run.speedup:.2f} against the best node alone ({run.t1.kind}: {run.t1.value_s:.2f} s)"
        )
    if run.t1_local is not None and run.speedup_local is not None and run.t1_local != run.t1:
        lines.append(f"speedup {run.speedup_local:.2f} against this machine alone")
    if run.bound_provable is not None and run.efficiency is not None:
        gained = "" if run.gained is None else f", {max(run.gained, 0.0):.0%} of the possible gain"
        lines.append(f"provable bound {run.bound_provable:.2f}, efficiency {run.efficiency:.0%}{gained}")
    return lines


def _losses(run: "RunReport") -> list[str]:
    """Where the time beyond the lower bound went; what is under a hundredth of the run is left out."""
    if run.losses is None or run.lower_bound_s is None or run.losses.total_s < 0.01 * run.makespan_s:
        return []
    from pairproxy.core.accounting.losses import IN_WORDS

    parts = [
        f"{IN_WORDS[cause]} {seconds:.2f} s"
        for cause, seconds in run.losses.items()
        if seconds >= 0.01 * run.makespan_s
    ] or [f"{run.losses.total_s:.2f} s for many small reasons"]
    return [f"no schedule ends before {run.lower_bound_s:.2f} s; beyond that: {', '.join(parts)}"]


def continued(found: "Report") -> list[str]:
    """The replies that went on at another node, by their ids; no line if there are none."""
    ids = [plain(one.request)[:SHORT] for one in found.records if one.continued]
    if not ids:
        return []
    more = f" and {len(ids) - MOST_BAD} more" if len(ids) > MOST_BAD else ""
    told = f"lost their node and went on at another (see `pairproxy explain`): {', '.join(ids[:MOST_BAD])}"
    return [told + more]


def requests(found: "Report") -> list[str]:
    """The ids by which `pairproxy explain` knows them: those that went wrong, and the slowest."""
    bad = [record for record in found.records if record.outcome != "done"]
    lines = [
        f"{short} {one.outcome}: {plain(one.error) or f'see `pairproxy explain {short}`'}"
        for one in bad[:MOST_BAD]
        for short in (plain(one.request)[:SHORT],)
    ]
    if len(bad) > MOST_BAD:
        lines.append(f"and {len(bad) - MOST_BAD} more; `pairproxy report --json` has them all")
    good = sorted(
        (record for record in found.records if record.outcome == "done"),
        key=lambda record: record.ended_s - record.arrived_s,
    )[-MOST_SLOW:]
    if good:
        slowest = ", ".join(
            f"{plain(one.request)[:SHORT]} {one.ended_s - one.arrived_s:.1f} s" for one in reversed(good)
        )
        lines.append(f"slowest: {slowest} (see `pairproxy explain {plain(good[-1].request)[:SHORT]}`)")
    return lines
