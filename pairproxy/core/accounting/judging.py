"""What limited a run: its time is its lower bound, which no schedule avoids, and the losses beyond it.

If one loss stands out, that was the limit: the largest. Else the bound was, and it is looked at what made it.
Where no losses are known the picture has to do.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from pairproxy.core.accounting.losses import IN_WORDS
from pairproxy.core.accounting.occupancy import occupancy
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.timeline import Timeline
from pairproxy.core.accounting.verdict import Cause, Seen, Verdict, several, shown
from pairproxy.core.accounting.verdict_bounds import by_the_bound
from pairproxy.core.accounting.verdict_losses import by_the_losses

DECISIVE = 0.15  # of the makespan: a loss below it explains less than what made the bound
WORTH_SAYING = 0.05  # of the makespan: below, runs of one job differ by as much anyway
EXPLAINED = 0.1  # of what requests took: so well the known speeds say it, company included
FAILING = 0.1  # of the requests did not end well: from then on the rest is not the job any more

COMPANY = "requests that slow each other on an engine"
BY_SLOTS: frozenset[Cause] = frozenset(("waves", "slots"))
IDLE: frozenset[Cause] = frozenset(("chain", "one-at-a-time", "few-requests", "arrivals", "tools"))
"""What is idle there is what these tell already."""


def judge(report: RunReport, timeline: Timeline, names: Mapping[str, str] | None = None) -> Verdict:
    """Say in two sentences what limited a run, and what would change it. ``names``: as people call nodes."""
    seen = Seen(report, timeline, occupancy(timeline, report.slots), names or {})
    bad = report.requests - report.outcomes.get("done", 0)
    if bad >= FAILING * report.requests:
        return _failures(seen, bad)
    if report.losses is None:
        return _bounded(seen)
    loss, seconds = report.losses.largest
    is_company = loss == "prediction_error_s" and _is_company(seen)
    if seconds >= DECISIVE * report.makespan_s and not is_company:
        return by_the_losses(seen, report.losses)
    found = _bounded(seen)
    if seconds < WORTH_SAYING * report.makespan_s or (loss == "tail_idle_s" and found.cause in IDLE):
        return found
    words = COMPANY if is_company else IN_WORDS[loss]
    return replace(
        found, limited_by=f"{found.limited_by.removesuffix('.')}; beyond that, {words} {shown(seconds)} s."
    )


def _bounded(seen: Seen) -> Verdict:
    """What made the bound; where it is slots, those of the nodes that were fast enough to take part."""
    found, report = by_the_bound(seen), seen.report
    worked = {node: tally for node, tally in report.per_node.items() if tally.requests}
    slow = [seen.name(node) for node in report.per_node if node not in worked]
    if found.cause not in BY_SLOTS or not slow or len(worked) < 2 or not seen.occupancy.most_waiting:
        return found
    node_slots = {node: count for node, count in report.node_slots.items() if node in worked}
    report = replace(report, slots=max(sum(node_slots.values()), 1), node_slots=node_slots, per_node=worked)
    theirs = by_the_bound(replace(seen, report=report, occupancy=occupancy(seen.timeline, report.slots)))
    named = slow[0] if len(slow) == 1 else several(len(slow), "other node")
    left_out = f"; {named} would have ended none of them sooner."
    return replace(theirs, limited_by=theirs.limited_by.removesuffix(".") + left_out)


def _is_company(seen: Seen) -> bool:
    """Whether the pace that was missed is what requests cost each other that share an engine, as is known."""
    error = seen.report.model_error
    return error is not None and error <= EXPLAINED and seen.occupancy.most_at_node > 1


def _failures(seen: Seen, bad: int) -> Verdict:
    report = seen.report
    how = ", ".join(f"{count} {word}" for word, count in sorted(report.outcomes.items()) if word != "done")
    places = Counter(seen.lane_name(bar.lane) for bar in seen.timeline.bars if bar.end != "done")
    where = f"; attempts that led to nothing: {seen.named(places)}" if places else ""
    limited = f"{bad} of {several(report.requests, 'request')} did not end well ({how}){where}."
    return Verdict("failures", limited, _remedy(seen))


def _remedy(seen: Seen) -> str:
    """What to do about those that did not end well, by what happened to most of them."""
    outcomes = seen.report.outcomes
    if outcomes.get("cancelled", 0) > sum(outcomes.get(word, 0) for word in ("refused", "failed", "error")):
        return (
            "The clients left before their replies came; those that ended took"
            f" {shown(seen.occupancy.median_s)} s"
            " (median) once they ran. Give them more patience, ask for shorter replies, or add a machine."
        )
    if unplaced := len(seen.timeline.unplaced):
        return (
            f"{several(unplaced, 'request')} found no place: `pairproxy explain` says of each why. For"
            " more of"
            " them at once, pair another machine or raise routing.queue_limit and routing.queue_timeout_s."
        )
    return "`pairproxy explain` says of each why, `pairproxy status` which node has a problem now."
