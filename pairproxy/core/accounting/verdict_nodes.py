"""The verdict on a run whose nodes made its bound: too few of them, too unequal, too slow."""

from collections import defaultdict
from math import ceil
from statistics import median

from pairproxy.core.accounting.notes import MOSTLY
from pairproxy.core.accounting.occupancy import EARLY, service_s
from pairproxy.core.accounting.verdict import Seen, Verdict, several, shown
from pairproxy.core.models import ModelName, NodeId

DOMINANT = 0.75  # of what all nodes do in a second, done by one: the others add a third at most
FASTER = 1.5  # times its part of the slots, done by one node: then it is worth waiting for
BUSY = 0.7  # of the slots' time: below, more of them would mostly stand free as well
LET_THEM = (
    "Let them go there, if that is meant. What keeps them: X-Pairproxy-Local or routing.local_only; other"
    " content, a smaller window or missing rights, which `pairproxy models` shows; or it was not there yet."
)
EVEN = 0.8  # of the longest: where half of the requests take as long, they are about equal
SHORT = 0.5  # of the longest: where half of the replies take less, that one stands out


def at_least(seen: Seen, left_s: float) -> float:
    """What more nodes promise, but no less than one request alone, or the last to come, needs."""
    report, longest = seen.report, seen.occupancy.longest
    floor_s = seen.occupancy.floor_s
    if report.chains and longest is not None:  # what comes late may come sooner
        floor_s = max(service_s(longest), report.span_hi_s or 0.0)
    return min(max(left_s, floor_s), report.makespan_s)


def _shared(seen: Seen, part: float) -> float:
    """The time that is left where the slots' work is done in this part of it; what else there is stays."""
    return seen.report.makespan_s * (1.0 - seen.occupancy.busy * (1.0 - part))


def _is_even_burst(seen: Seen) -> bool:
    """Whether all came at once and took about as long."""
    longest, occupancy = seen.occupancy.longest, seen.occupancy
    if longest is None or occupancy.last_arrival_s > EARLY * seen.report.makespan_s:
        return False
    return occupancy.median_s >= EVEN * service_s(longest)


def one_replica(seen: Seen) -> Verdict | None:
    """Requests waited for the one node that has their model, and others stood free."""
    alone, occupancy = _only_places(seen), seen.occupancy
    if not alone or not occupancy.most_waiting or occupancy.busy >= BUSY:
        return None
    model, node = max(alone.items(), key=lambda item: _waited_s(seen, item[0]))
    count = len({bar.request for bar in seen.timeline.bars if bar.model == model})
    return Verdict(
        "one-replica",
        f"{model} ran on {seen.name(node)} only, and its {several(count, 'request')} waited"
        f" {shown(_waited_s(seen, model) / count)} s on average, while {1.0 - occupancy.busy:.0%} of all"
        " slots'"
        f" time in {shown(seen.report.makespan_s)} s went unused.",
        f"Put {model} on another paired machine: `pairproxy models` shows who has what.",
        seen.report.makespan_s,
    )


def _only_places(seen: Seen) -> dict[ModelName, NodeId]:
    """Models that waited and ran on one node only, where the run had several models."""
    nodes: defaultdict[ModelName, set[NodeId]] = defaultdict(set)
    for bar in seen.timeline.bars:
        nodes[bar.model].add(seen.timeline.lanes[bar.lane].node)
    if len(nodes) < 2:
        return {}
    return {
        model: next(iter(places))
        for model, places in nodes.items()
        if len(places) == 1 and _waited_s(seen, model) > 0.5 * _waited_s(seen, None)
    }


def _waited_s(seen: Seen, model: ModelName | None) -> float:
    """How long requests of a model waited, together; of all of them for None."""
    return sum(bar.dispatched_s - bar.waiting_s for bar in seen.timeline.bars if model in (None, bar.model))


def single_node(seen: Seen) -> Verdict | None:
    """Nobody else has the model."""
    report = seen.report
    if len(report.per_node) != 1:
        return None
    (node,) = report.per_node
    left_s = at_least(seen, _shared(seen, 0.5))
    models = sorted({bar.model for bar in seen.timeline.bars})
    called = models[0] if len(models) == 1 else several(len(models), "model")
    busy = (
        f"{several(report.slots, 'slot')} {'was' if report.slots == 1 else 'were'} busy for"
        f" {seen.occupancy.busy:.0%} of the {shown(report.makespan_s)} s."
    )
    if report.barred:
        return _must_stay(seen, node, called, busy, left_s)
    return Verdict(
        "single-node",
        f"Only one node, {seen.name(node)}, has {called}, and its {busy}",
        "Put the same model on a paired machine (`pairproxy models` shows who has what, `pairproxy pair` adds"
        f" one): with a second node like this one it would take about {shown(left_s)} s.",
        report.makespan_s,
    )


def _must_stay(seen: Seen, node: NodeId, called: str, busy: str, left_s: float) -> Verdict:
    """Others have the model, and none of the requests could go there."""
    report = seen.report
    others = f"{several(report.barred, 'other node')} {'has' if report.barred == 1 else 'have'}"
    return Verdict(
        "must-stay",
        f"No request could leave {seen.name(node)}, though {others} {called}, and its {busy}",
        f"{LET_THEM} With a second node like this one it would take about {shown(left_s)} s.",
        report.makespan_s,
    )


def unequal_nodes(seen: Seen) -> Verdict | None:
    """One node does most of what all can, or so much more than the others that requests wait for it."""
    report, occupancy = seen.report, seen.occupancy
    if report.bound_capacity is None or len(report.per_node) == 1 or not occupancy.most_waiting:
        return None
    best = max(report.per_node, key=lambda node: report.per_node[node].output_tokens)
    part = 1.0 / report.bound_capacity
    is_faster = part * report.slots >= FASTER * report.node_slots.get(best, report.slots)
    if part < DOMINANT and not (is_faster and occupancy.busy < BUSY):
        return None
    count = report.per_node[best].requests
    left_s = at_least(seen, report.makespan_s * report.bound_capacity / (report.bound_capacity + 1.0))
    return Verdict(
        "unequal-nodes",
        f"{seen.name(best)} does {part:.0%} of what all {len(report.per_node)} nodes can do together and did"
        f" {count} of {several(report.requests, 'request')}: no schedule is more than"
        f" {report.bound_capacity:.2f} times as fast as the best node alone.",
        f"Only a node of about the speed of {seen.name(best)} would help much, and slots on it as far as its"
        f" engine can batch: with one more node like it the run would take about {shown(left_s)} s.",
        report.makespan_s,
    )


def slow_place(seen: Seen) -> Verdict | None:
    """The run is as long as one request that is no longer than others and was on a slower node."""
    longest, report, occupancy = seen.occupancy.longest, seen.report, seen.occupancy
    if longest is None or occupancy.is_long or longest.ended_s < MOSTLY * report.makespan_s:
        return None
    if occupancy.median_s > SHORT * service_s(longest) or service_s(longest) < SHORT * longest.ended_s:
        return None
    times: defaultdict[NodeId, list[float]] = defaultdict(list)
    for bar in seen.timeline.bars:
        if bar.end == "done":
            times[seen.timeline.lanes[bar.lane].node].append(service_s(bar))
    best = min(times, key=lambda node: median(times[node]))
    if best == seen.timeline.lanes[longest.lane].node:
        return None
    best_s, count = median(times[best]), ceil(report.requests / report.slots)
    return Verdict(
        "unequal-nodes",
        f"{seen.lane_name(longest.lane)} took {seen.of_makespan(service_s(longest))} for one request"
        f" ({longest.request[:8]}) that is no longer than others; one on {seen.name(best)} took"
        f" {shown(best_s)} s.",
        f"A machine as fast as {seen.name(best)} in place of each slower one: {several(count, 'wave')} of"
        f" {shown(best_s)} s, about {shown(min(count * best_s, report.makespan_s))} s. Shorter replies help"
        " as well.",
        report.makespan_s,
    )


def slots(seen: Seen) -> Verdict:
    """All slots had work for all of the time: the work itself."""
    report, occupancy = seen.report, seen.occupancy
    more = ceil(report.slots / 2)
    used = report.slots + more
    if occupancy.is_closed or report.chains:
        used = max(min(used, occupancy.most_open), report.slots)
    shared_s = _shared(seen, report.slots / used)
    if _is_even_burst(seen):  # it goes in waves
        counts = ceil(report.requests / used), ceil(report.requests / report.slots)
        shared_s = max(shared_s, report.makespan_s * counts[0] / counts[1])
    left_s = at_least(seen, shared_s)
    reads, shorter, then = "", "", ""
    if occupancy.reading > SHORT:
        reads = f", {occupancy.reading:.0%} of it with reading prompts"
        shorter = "Shorter prompts, or ones that begin alike and are found in a cache, save most. "
    if used < report.slots + more:
        then = f", for the clients keep no more than {several(occupancy.most_open, 'request')} open"
    elif left_s > shared_s:
        then = ", for what cannot be shared takes as long, or comes as late"
    about = f"at best about {shown(left_s)} s" if report.chains else f"about {shown(left_s)} s"
    return Verdict(
        "slots",
        f"The work itself: {several(report.requests, 'request')} kept {several(report.slots, 'slot')} on"
        f" {several(len(report.per_node), 'node')} busy for {occupancy.busy:.0%} of the"
        f" {shown(report.makespan_s)} s{reads}, with up to {occupancy.most_waiting} waiting.",
        f"{shorter}More nodes, or slots where an engine can batch: with {more} more like these it would take"
        f" {about}{then}. `pairproxy whatif --add` simulates it.",
        report.makespan_s,
    )
