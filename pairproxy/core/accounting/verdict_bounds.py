"""The verdict on a run that hardly lost time: what made the bound that it stands at."""

from collections import defaultdict
from collections.abc import Callable
from math import ceil

from pairproxy.core.accounting.notes import MOSTLY
from pairproxy.core.accounting.occupancy import service_s
from pairproxy.core.accounting.verdict import Seen, Verdict, several, shown
from pairproxy.core.models import ModelName, NodeId

DOMINANT = 0.75  # of what all nodes do in a second, done by one: the others add a third at most
BUSY = 0.7  # of the slots' time: below, more of them would mostly stand free as well
FEW_WAVES = 4  # up to so many, one wave more or less is a fifth of the time
SHORT = 0.5  # of the longest: where half of the replies take less, that one stands out
QUICKER_TOOLS = "Quicker tools, or more agents side by side, would fill the slots; more machines would not."
CUT_IT = (
    "Cut that request into parts that can run side by side, ask it first, or limit its reply (max_tokens), by"
    " which pairproxy knows in advance how long it may be."
)


def by_the_bound(seen: Seen) -> Verdict:
    """The first of these that is so, from what more machines cannot change to what they can."""
    looks: tuple[Callable[[Seen], Verdict | None], ...] = (
        single_request, chain, one_at_a_time, one_long_request, few_requests, late_arrivals,
        one_replica, single_node, unequal_nodes, waves, last_request,
    )  # fmt: skip
    for look in looks:
        if (found := look(seen)) is not None:
            return found
    return slots(seen)


def single_request(seen: Seen) -> Verdict | None:
    """There was one."""
    if seen.report.requests != 1:
        return None
    took_s = seen.report.makespan_s
    return Verdict(
        "single-request",
        f"It was a single request, and took {shown(took_s)} s: one request runs on one node.",
        "More machines cannot help it; a faster node or a shorter reply would, and so would asking in parts.",
        took_s,
    )


def chain(seen: Seen) -> Verdict | None:
    """The longest chain alone took most of the run."""
    report = seen.report
    if report.span_hi_s is None or report.span_hi_s < MOSTLY * report.makespan_s:
        return None
    tools = f", tools {shown(report.tool_s)} s in all" if report.tool_s >= 0.005 else ""
    return Verdict(
        "chain",
        f"A chain of {several(report.longest_chain, 'step')}, each of which waits for the one before, took"
        f" {seen.of_makespan(report.span_hi_s)}{tools}.",
        "More machines cannot help; fewer or shorter steps, quicker tools, steps that are asked side by"
        " side or"
        " a faster node would.",
        report.span_hi_s,
    )


def one_at_a_time(seen: Seen) -> Verdict | None:
    """No two requests were ever open together."""
    if seen.occupancy.most_open != 1:
        return None
    return Verdict(
        "one-at-a-time",
        f"Its {several(seen.report.requests, 'request')} came one at a time, each when the one before had"
        f" ended: never more than 1 of {several(seen.report.slots, 'slot')} had work.",
        f"Ask up to {several(seen.report.slots, 'request')} at once; as it is, only a faster node would"
        " help.",
        seen.report.makespan_s,
    )


def one_long_request(seen: Seen) -> Verdict | None:
    """One that ended late took more than half of the run, and half of the others less than half of that."""
    longest, occupancy = seen.occupancy.longest, seen.occupancy
    if longest is None or occupancy.median_s > SHORT * service_s(longest):
        return None
    if longest.ended_s < MOSTLY * seen.report.makespan_s or service_s(longest) < SHORT * longest.ended_s:
        return None
    took_s = service_s(longest)
    return Verdict(
        "one-long-request",
        f"One request ({longest.request[:8]} on {seen.lane_name(longest.lane)}) ran for"
        f" {seen.of_makespan(took_s)}, half of all took {shown(occupancy.median_s)} s or less.",
        f"More machines cannot help. {CUT_IT}",
        took_s,
    )


def few_requests(seen: Seen) -> Verdict | None:
    """All came at about the same time, none waited, and slots stayed free."""
    report, occupancy = seen.report, seen.occupancy
    if occupancy.most_waiting or report.requests >= report.slots or occupancy.longest is None:
        return None
    if occupancy.last_arrival_s > (1.0 - MOSTLY) * report.makespan_s:
        return None
    took_s = service_s(occupancy.longest)
    return Verdict(
        "few-requests",
        f"There were fewer requests ({report.requests}) than slots ({report.slots}): none waited, and the"
        f" longest took {seen.of_makespan(took_s)}.",
        "More machines cannot help; a faster node or shorter replies would, and so would cutting the work"
        " into"
        f" {report.slots} requests or more.",
        took_s,
    )


def late_arrivals(seen: Seen) -> Verdict | None:
    """Requests came until near the end, and hardly waited."""
    report, occupancy = seen.report, seen.occupancy
    if occupancy.waited_s > (1.0 - MOSTLY) * max(occupancy.median_s, 1e-9):
        return None
    if occupancy.last_arrival_s <= SHORT * report.makespan_s:
        return None
    asked = (
        f"The clients asked over {seen.of_makespan(occupancy.last_arrival_s)}, at most"
        f" {several(occupancy.most_open, 'request')} at once for {several(report.slots, 'slot')}, and hardly"
        f" waited ({shown(occupancy.waited_s)} s on average)"
    )
    if report.chains and report.tool_s > 0.0:
        tools = f"; tools {shown(report.tool_s)} s in {several(report.chains, 'chain')}."
        return Verdict("tools", asked + tools, QUICKER_TOOLS, occupancy.last_arrival_s)
    return Verdict(
        "arrivals",
        f"{asked}.",
        f"The nodes had room, {occupancy.busy:.0%} of their slots' time was used: ask sooner, or more at"
        " once.",
        occupancy.last_arrival_s,
    )


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
    models = sorted({bar.model for bar in seen.timeline.bars})
    called = models[0] if len(models) == 1 else several(len(models), "model")
    return Verdict(
        "single-node",
        f"Only one node, {seen.name(node)}, has {called}, and its {several(report.slots, 'slot')}"
        f" {'was' if report.slots == 1 else 'were'} busy for {seen.occupancy.busy:.0%} of the"
        f" {shown(report.makespan_s)} s.",
        "Put the same model on a paired machine (`pairproxy models` shows who has what, `pairproxy pair` adds"
        f" one): a second node like this one would need about {shown(report.makespan_s / 2.0)} s.",
        report.makespan_s,
    )


def unequal_nodes(seen: Seen) -> Verdict | None:
    """One node does most of what all can."""
    report = seen.report
    if report.bound_capacity is None or len(report.per_node) == 1 or report.bound_capacity * DOMINANT > 1.0:
        return None
    best = max(report.per_node, key=lambda node: report.per_node[node].output_tokens)
    return Verdict(
        "unequal-nodes",
        f"{seen.name(best)} does {1.0 / report.bound_capacity:.0%} of what all {len(report.per_node)}"
        " nodes can do"
        f" together: no schedule is more than {report.bound_capacity:.2f} times as fast as the best node"
        " alone.",
        f"Only a node of about the speed of {seen.name(best)}, or more slots on it, would help much: one"
        " more like it"
        f" would need about {shown(report.makespan_s * _with_another(report.bound_capacity))} s.",
        report.makespan_s,
    )


def _with_another(capacity: float) -> float:
    """The part of the time that is left with another node like the best."""
    return capacity / (capacity + 1.0)


def waves(seen: Seen) -> Verdict | None:
    """Requests of about one length, all at once, and so few for each slot that one wave less counts."""
    report, occupancy = seen.report, seen.occupancy
    count = ceil(report.requests / report.slots)
    if not 1 < count <= FEW_WAVES or not occupancy.most_waiting or occupancy.longest is None:
        return None
    is_even = occupancy.median_s > SHORT * service_s(occupancy.longest)
    if not is_even or occupancy.last_arrival_s > (1.0 - MOSTLY) * report.makespan_s:
        return None
    last = report.requests - (count - 1) * report.slots
    need = ceil(report.requests / (count - 1))
    return Verdict(
        "waves",
        f"{several(report.requests, 'request')} on {several(report.slots, 'slot')} go in {count} waves of"
        " about"
        f" {shown(occupancy.median_s)} s each, and the last one fills {last} of them.",
        f"{several(need - report.slots, 'more slot')}, on another paired machine or by `engines.slots`, would"
        f" make it {several(count - 1, 'wave')}: about {shown(report.makespan_s * (count - 1) / count)} s"
        " instead"
        f" of {shown(report.makespan_s)} s.",
        report.makespan_s,
    )


def last_request(seen: Seen) -> Verdict | None:
    """Slots stood free for much of the run: it is as long as its last request came late and took long."""
    if seen.occupancy.busy >= BUSY or not seen.timeline.bars:
        return None
    last = max(seen.timeline.bars, key=lambda bar: bar.ended_s)
    return Verdict(
        "arrivals",
        f"Only {seen.occupancy.busy:.0%} of the slots' time was used: the last request to end"
        f" ({last.request[:8]} on {seen.lane_name(last.lane)}) came at {shown(last.waiting_s)} s and took"
        f" {shown(service_s(last))} s.",
        "More machines cannot help; asking sooner, or for a shorter reply, would.",
        seen.report.makespan_s,
    )


def slots(seen: Seen) -> Verdict:
    """All slots had work for all of the time: the work itself."""
    report = seen.report
    more = ceil(report.slots / 2)
    left_s = report.makespan_s * report.slots / (report.slots + more)
    reads, shorter = "", ""
    if seen.occupancy.reading > SHORT:
        reads = f", {seen.occupancy.reading:.0%} of it with reading prompts"
        shorter = "Shorter prompts, or ones that begin alike and are found in a cache, save most. "
    return Verdict(
        "slots",
        f"The work itself: {several(report.requests, 'request')} kept {several(report.slots, 'slot')} on"
        f" {several(len(report.per_node), 'node')} busy for {seen.occupancy.busy:.0%} of the"
        f" {shown(report.makespan_s)} s{reads}, with up to {seen.occupancy.most_waiting} waiting.",
        f"{shorter}More nodes, or slots where an engine can batch: {more} more like these would need about"
        f" {shown(left_s)} s. `pairproxy whatif --add` simulates it.",
        report.makespan_s,
    )
