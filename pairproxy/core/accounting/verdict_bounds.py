"""The verdict on a run that hardly lost time: what made the bound that it stands at."""

from collections.abc import Callable
from math import ceil

from pairproxy.core.accounting.notes import MOSTLY
from pairproxy.core.accounting.occupancy import EARLY, service_s
from pairproxy.core.accounting.verdict import Seen, Verdict, several, shown
from pairproxy.core.accounting.verdict_nodes import (
    BUSY,
    SHORT,
    one_replica,
    single_node,
    slots,
    slow_place,
    unequal_nodes,
)

FEW_WAVES = 4  # up to so many, one wave more or less is a fifth of the time
QUICKER_TOOLS = "Quicker tools, or more agents side by side, would fill the slots; more machines would not."
CUT_IT = (
    "Cut that request into parts that can run side by side, ask it first, or limit its reply (max_tokens), by"
    " which pairproxy knows in advance how long it may be."
)


def by_the_bound(seen: Seen) -> Verdict:
    """The first of these that is so, from what more machines cannot change to what they can."""
    looks: tuple[Callable[[Seen], Verdict | None], ...] = (
        single_request, chain, one_at_a_time, one_long_request, slow_place, few_requests, late_arrivals,
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
    if report.span_hi_s is None or report.span_hi_s < MOSTLY * report.makespan_s or report.span_steps < 2:
        return None
    tools = f", {shown(report.span_tool_s)} s of it its own tools" if report.span_tool_s >= 0.005 else ""
    return Verdict(
        "chain",
        f"A chain of {several(report.span_steps, 'step')}, each of which waits for the one before, took"
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
    if longest is None or not occupancy.is_long or occupancy.median_s > SHORT * service_s(longest):
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
    """All came at about the same time, none waited, and there were no more of them than slots."""
    report, occupancy = seen.report, seen.occupancy
    if occupancy.most_waiting or report.requests > report.slots or occupancy.longest is None:
        return None
    if occupancy.last_arrival_s > (1.0 - MOSTLY) * report.makespan_s:
        return None
    took_s = service_s(occupancy.longest)
    count = "fewer requests" if report.requests < report.slots else "as many requests"
    than = "than" if report.requests < report.slots else "as"
    change = (
        "More machines cannot help; a faster node or shorter replies would, and so would cutting the work"
        " into more requests."
    )
    if occupancy.most_at_node > 1 and (report.lower_bound_s or 0.0) < (1.0 - EARLY) * report.makespan_s:
        change = (
            "More slots cannot help; a faster node or shorter replies would, and another machine as far as"
            f" requests at once (up to {occupancy.most_at_node} on a node) slow each other: `pairproxy"
            " advise` says by how much."
        )
    return Verdict(
        "few-requests",
        f"There were {count} ({report.requests}) {than} slots ({report.slots}): none waited, and the"
        f" longest took {seen.of_makespan(took_s)}.",
        change,
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
    filled = "" if last == report.slots else f", and the last one fills {last} of them"
    more = ceil(report.requests / (count - 1)) - report.slots
    left_s = report.makespan_s * (count - 1) / count
    how, then = "", "; more `engines.slots` do as much only as far as an engine can batch"
    if occupancy.reading > SHORT:
        how = f", {occupancy.reading:.0%} of it reading prompts"
        then = "; more `engines.slots` would not, for prompts that are read at once share the engine"
    return Verdict(
        "waves",
        f"{several(report.requests, 'request')} on {several(report.slots, 'slot')} go in {count} waves of"
        f" about {shown(occupancy.median_s)} s each{how}{filled}.",
        f"{several(more, 'more slot')} on another paired machine would make it {several(count - 1, 'wave')}:"
        f" about {shown(left_s)} s instead of {shown(report.makespan_s)} s{then}.",
        report.makespan_s,
    )


def last_request(seen: Seen) -> Verdict | None:
    """Slots stood free for much of the run: it is as long as its last request came late and took long."""
    if seen.occupancy.busy >= BUSY or not seen.timeline.bars or seen.report.chains:
        return None
    last = max(seen.timeline.bars, key=lambda bar: bar.ended_s)
    makespan_s, floor_s = seen.report.makespan_s, seen.occupancy.floor_s
    if last.waiting_s <= EARLY * makespan_s or floor_s < SHORT * makespan_s:
        return None
    change = "More machines cannot help; asking sooner, or for a shorter reply, would."
    if (waited_s := makespan_s - floor_s) > EARLY * makespan_s:
        change = (
            f"More machines would save {shown(waited_s)} s at most, in which requests waited; asking sooner,"
            " or for shorter replies, saves the rest."
        )
    return Verdict(
        "arrivals",
        f"Only {seen.occupancy.busy:.0%} of the slots' time was used: the last request to end"
        f" ({last.request[:8]} on {seen.lane_name(last.lane)}) came at {shown(last.waiting_s)} s and took"
        f" {shown(service_s(last))} s.",
        change,
        seen.report.makespan_s,
    )
