"""The verdict on a run that lost time beyond its bound: what the largest of its losses came of."""

from collections import Counter
from dataclasses import replace

from pairproxy.core.accounting.losses import Losses
from pairproxy.core.accounting.notes import MOSTLY
from pairproxy.core.accounting.occupancy import service_s
from pairproxy.core.accounting.timeline import Bar
from pairproxy.core.accounting.verdict import Seen, Verdict, several, shown
from pairproxy.core.accounting.verdict_bounds import (
    CUT_IT,
    QUICKER_TOOLS,
    chain,
    few_requests,
    one_at_a_time,
)
from pairproxy.core.accounting.verdict_nodes import SHORT, one_replica, single_node

CLEARLY = 1.1  # times as much: what a person would call another number


def by_the_losses(seen: Seen, losses: Losses) -> Verdict:
    """About the largest one."""
    loss, seconds = losses.largest
    tell = {
        "tail_idle_s": _idle,
        "cold_load_s": _cold_loads,
        "duplicated_prefill_s": _repeated_prompts,
        "waiting_by_plan_s": _waiting_by_plan,
        "transport_s": _transport,
        "rescue_waste_s": _wasted_attempts,
        "prediction_error_s": _slow_pace,
    }[loss]
    found = tell(seen, loss, seconds)
    if seen.report.lower_bound_s is None:
        return found
    least = f"; no schedule ends before {shown(seen.report.lower_bound_s)} s."
    return replace(found, limited_by=found.limited_by.removesuffix(".") + least)


def _idle(seen: Seen, loss: str, seconds: float) -> Verdict:
    """Slots without work while nothing waited: why there was none."""
    occupancy, report = seen.occupancy, seen.report
    for found in (chain(seen), one_at_a_time(seen), few_requests(seen)):
        if found is not None:
            return replace(found, loss=loss)
    if occupancy.idle_before_s > occupancy.idle_after_s:
        return _starved(seen, loss, seconds)
    longest = occupancy.longest
    stands_out = longest is not None and occupancy.median_s <= SHORT * service_s(longest)
    if longest is not None and stands_out and longest.ended_s >= MOSTLY * report.makespan_s:
        if not occupancy.is_long:
            return _slow_end(seen, longest, loss, seconds)
        return Verdict(
            "one-long-request",
            f"One request ({longest.request[:8]} on {seen.lane_name(longest.lane)}, from"
            f" {shown(longest.dispatched_s)} to {shown(longest.ended_s)} s; half of all took"
            f" {shown(occupancy.median_s)} s or less) went on while other slots had nothing left to do, which"
            f" cost {seen.of_makespan(seconds)}.",
            CUT_IT,
            seconds,
            loss,
        )
    return _uneven_end(seen, loss, seconds)


def _slow_end(seen: Seen, longest: Bar, loss: str, seconds: float) -> Verdict:
    """The last one is no longer than others: where it ran was slow."""
    where = seen.lane_name(longest.lane)
    return Verdict(
        "slow-pace",
        f"One request ({longest.request[:8]}) took {shown(service_s(longest))} s on {where}, although its"
        f" reply is no longer than others, half of which took {shown(seen.occupancy.median_s)} s or less;"
        f" other slots had nothing left to do, which cost {seen.of_makespan(seconds)}.",
        f"See whether something else used {where} meanwhile, or whether it slows down when it is hot. If it"
        " is always so slow, the others may be sooner done without it: `pairproxy whatif --remove`"
        " simulates it.",
        seconds,
        loss,
    )


def _starved(seen: Seen, loss: str, seconds: float) -> Verdict:
    """The clients had not asked yet, or their tools were at work."""
    occupancy, report = seen.occupancy, seen.report
    used = (
        f"{seen.of_makespan(seconds)} went by with slots that had nothing to do, at most"
        f" {several(occupancy.most_open, 'request')} at once for {several(report.slots, 'slot')}"
    )
    if report.chains and report.tool_s > 0.0:
        return Verdict(
            "tools",
            f"The agents' own tools: {shown(report.tool_s)} s in {several(report.chains, 'chain')}; {used}.",
            QUICKER_TOOLS,
            seconds,
            loss,
        )
    return Verdict(
        "arrivals",
        f"The clients asked over {shown(occupancy.last_arrival_s)} s: {used}.",
        "Ask sooner, or more at once; more machines would wait as well.",
        seconds,
        loss,
    )


def _uneven_end(seen: Seen, loss: str, seconds: float) -> Verdict:
    last = max(seen.timeline.bars, key=lambda bar: bar.ended_s)
    return Verdict(
        "uneven-end",
        f"At the end slots had nothing left to do, which cost {seen.of_makespan(seconds)}: the last request"
        f" ({last.request[:8]} on {seen.lane_name(last.lane)}) began at {shown(last.dispatched_s)} s and took"
        f" {shown(service_s(last))} s.",
        "More, shorter requests end more evenly; ask the long ones first, or limit replies (max_tokens), by"
        " which pairproxy knows in advance how long they may be.",
        seconds,
        loss,
    )


def _cold_loads(seen: Seen, loss: str, seconds: float) -> Verdict:
    loads = [bar for bar in seen.timeline.bars if bar.load_s > 0.0]
    where = seen.named(Counter(seen.lane_name(bar.lane) for bar in loads))
    longest_s = max((bar.load_s for bar in loads), default=0.0)
    all_s = seen.report.losses.total_s if seen.report.losses is not None else seconds
    most = (
        f", or {shown(all_s)} s where the other slots stood idle for it" if all_s > CLEARLY * seconds else ""
    )
    return Verdict(
        "cold-loads",
        f"Loading models cost {seen.of_makespan(seconds)}: {several(len(loads), 'request')} had to wait"
        " for it"
        f" ({where}), up to {shown(longest_s)} s.",
        "Let the engines keep the model in memory (Ollama: OLLAMA_KEEP_ALIVE), or send each node one short"
        f" request before the run: that saves about {shown(seconds)} s{most}.",
        seconds,
        loss,
    )


def _repeated_prompts(seen: Seen, loss: str, seconds: float) -> Verdict:
    report = seen.report
    cached = (
        f"{report.cached_tokens} of {report.prompt_tokens} prompt tokens came from a cache"
        if report.cached_tokens is not None
        else "no engine told what came from a cache"
    )
    return Verdict(
        "repeated-prompts",
        f"Reading again what another request had read already cost {seen.of_makespan(seconds)}; {cached}.",
        "Keep the beginnings of prompts the same to the byte, let one request end before the others with its"
        " beginning start, and give engines a larger prefix cache; `pairproxy advise` says where prompts"
        " part.",
        seconds,
        loss,
    )


def _waiting_by_plan(seen: Seen, loss: str, seconds: float) -> Verdict:
    if (found := one_replica(seen)) is not None:
        return replace(found, seconds=seconds, loss=loss)
    return Verdict(
        "waiting-by-plan",
        f"Slots stood free by plan while requests waited for a node that would end them sooner, which cost"
        f" {seen.of_makespan(seconds)} ({_counts(seen)}).",
        "A faster node in place of the slowest would help most; whether using every slot at once had been"
        " quicker,"
        " `pairproxy whatif --policy least-busy` simulates.",
        seconds,
        loss,
    )


def _transport(seen: Seen, loss: str, seconds: float) -> Verdict:
    return Verdict(
        "transport",
        f"The way between the nodes and their engines cost {seen.of_makespan(seconds)}: so much longer did"
        f" {several(len(seen.timeline.bars), 'attempt')} take than their engines say they worked.",
        "Use a cable where machines talk over Wi-Fi; `pairproxy peers` says at which address each is"
        " reached.",
        seconds,
        loss,
    )


def _wasted_attempts(seen: Seen, loss: str, seconds: float) -> Verdict:
    wasted = [bar for bar in seen.timeline.bars if bar.end != "done"]
    where = seen.named(Counter(seen.lane_name(bar.lane) for bar in wasted))
    which = max(wasted, key=service_s, default=None)
    ask = "" if which is None else f" {which.request[:8]}"
    return Verdict(
        "wasted-attempts",
        f"{several(len(wasted), 'attempt')} led to nothing ({where}), which cost"
        f" {seen.of_makespan(seconds)}.",
        f"`pairproxy explain{ask}` says why, `pairproxy status` whether that node has a problem now.",
        seconds,
        loss,
    )


def _slow_pace(seen: Seen, loss: str, seconds: float) -> Verdict:
    """What no other cause explains; of one node that was always busy it says less than that it was alone."""
    alone = single_node(seen)
    if alone is not None and seen.occupancy.busy >= MOSTLY:
        return replace(alone, loss=loss)
    return Verdict(
        "slow-pace",
        f"Requests took longer than the best pace seen of their nodes, or ran where another node had been"
        f" quicker, which cost {seen.of_makespan(seconds)} ({_paces(seen)}).",
        "See whether something else used these machines meanwhile, or whether they slow down when they are"
        " hot;"
        " where requests slow each other, fewer `engines.slots` help.",
        seconds,
        loss,
    )


def _counts(seen: Seen) -> str:
    """How many requests each node did."""
    told = [f"{seen.name(node)} {tally.requests}" for node, tally in seen.report.per_node.items()]
    return "requests: " + _first(told)


def _paces(seen: Seen) -> str:
    """Tokens per busy second of each node."""
    told = [
        f"{seen.name(node)} {tally.output_tokens / tally.busy_s:.0f}"
        for node, tally in seen.report.per_node.items()
        if tally.busy_s > 0.0
    ]
    return "tokens a busy second: " + _first(told)


def _first(told: list[str], most: int = 4) -> str:
    more = len(told) - most
    return ", ".join(told[:most]) + (f" and {several(more, 'other')}" if more > 0 else "")
