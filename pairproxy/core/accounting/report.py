"""The report of one run: speedup against one node alone, next to its bounds, with what must be said about it.

speedup       T1 / makespan               T1: the makespan of the same requests on one node, when known
waves bound   N / ceil(N / slots)         exact for equal requests on equal nodes, and for nothing else
capacity      sum of speeds / best speed  if work could be cut at will
lower bound   no schedule ends sooner     arrivals as they were, steps as soon as they could come, every node
                                          at its best pace, what prompts share read once
provable      T1 / lower bound
efficiency    lower bound / makespan      in (0, 1]
gained        (speedup - 1) / (provable - 1)

No speedup is claimed where there was nothing to share (one node, one request), or where the model of one node
alone does not even reproduce the run as it happened.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pairproxy.core.accounting import notes
from pairproxy.core.accounting.alone import T1
from pairproxy.core.accounting.bounds import (
    best_services,
    capacity_bound,
    provable_makespan,
    waves_bound,
)
from pairproxy.core.accounting.chains import Chain, critical_path, find_chains, follows
from pairproxy.core.accounting.losses import Losses, split
from pairproxy.core.accounting.paces import at_their_best
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.services import Tally, at_node, percentile, seen_slots, tally
from pairproxy.core.accounting.works import Places, Work, lower_bounds, speeds_of, works_of
from pairproxy.core.models import NodeId


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one run did; times in seconds. Encodes to JSON as it is.

    None: not known (no T1, no reply with a first byte, nothing served, no speeds). ``ttft`` is the time to
    the first byte of a reply's body, which some engines send before the first token.
    """

    run: str
    requests: int
    outcomes: dict[str, int]
    per_node: dict[NodeId, Tally]
    makespan_s: float
    queue_p50_s: float | None
    queue_p90_s: float | None
    ttft_p50_s: float | None
    ttft_p90_s: float | None
    slots: int  # of all nodes: what the waves bound counts with
    bound_waves: float
    lower_bound_s: float | None
    bound_provable: float | None = None
    t1: T1 | None = None
    speedup: float | None = None
    efficiency: float | None = None
    notes: tuple[str, ...] = ()
    t1_local: T1 | None = None  # of this machine; t1 is that of the best node
    speedup_local: float | None = None
    bound_capacity: float | None = None
    gained: float | None = None  # the part of the possible gain over the best node; 0.0 and below: none
    chains: int = 0  # of two steps or more
    chain_steps: int = 0
    longest_chain: int = 0  # steps
    tool_s: float = 0.0  # between the steps of all chains: the client's own time, not ours
    span_lo_s: float | None = None  # the longest chain, each step where it is soonest: always a lower bound
    span_hi_s: float | None = None  # the same as observed, without waiting: a bound only if nothing is sooner
    cached_tokens: int | None = None  # of all prompts, where engines tell it
    prompt_tokens: int | None = None  # of those prompts
    losses: Losses | None = None  # seconds that add up to makespan - lower bound
    node_slots: dict[NodeId, int] = field(default_factory=dict)  # of each node; ``slots`` is their sum
    span_steps: int = 0  # of the longest chain by its seconds, span_hi_s
    span_tool_s: float = 0.0  # its part of these that was between its steps
    barred: int = 0  # nodes that hold a model of it, and could take none of its requests
    model_error: float | None = None  # part by which what requests took is not what the known speeds say


@dataclass(frozen=True, slots=True)
class _Bound:
    """The lower bound of a run, with the work and the speeds it was found for, if they are known."""

    makespan_s: float | None
    span_s: float | None = None
    works: Sequence[Work] = ()
    places: Places | None = None
    is_run_itself: bool = False


def report_run(
    run: Run,
    slots: Mapping[NodeId, int],
    t1: T1 | None,
    *,
    places: Places | None = None,
    t1_local: T1 | None = None,
    barred: int = 0,
) -> RunReport:
    """Report a run. ``slots``: of every node that could serve some of it, whether or not it served any.

    ``barred``: how many others hold a model of it.

    ``places``: what is known of their speeds; without it the bounds go by what requests took, and the losses
    are not split. A node that was seen with more requests at once than its slots counts with what was seen.
    """
    services = [service for record in run.records for service in record.services()]
    slots = seen_slots(services, slots)
    can_share = len(slots) > 1 and len(run.records) > 1
    served = [record for record in run.records if record.final and record.final.is_served]
    bound = _bound(run, served, slots, places)
    if can_share and bound.makespan_s and t1 is not None and t1.is_credible and t1.node in slots:
        # doing all of it there is one of the schedules
        bound = replace(bound, makespan_s=min(bound.makespan_s, t1.value_s))
    parents = follows(run.records)
    chains = find_chains(run.records, parents)
    report = _counted(run, slots, tally(services, at_node), bound)
    report = replace(report, model_error=t1.model_error if t1 is not None else None, barred=barred)
    if chains:
        report = _chained(report, chains, critical_path(run.records, parents), bound)
    span_s = report.span_hi_s or 0.0
    said = [*notes.on_work(run, slots, chains, span_s, barred), *notes.on_bound(bound.is_run_itself)]
    if can_share:
        report = _compared(report, t1, t1_local)
        said += notes.on_speed(services, report.bound_waves, report.speedup, t1)
    return replace(report, notes=tuple(said))


def _counted(
    run: Run, slots: Mapping[NodeId, int], counts: Mapping[NodeId, Tally], bound: _Bound
) -> RunReport:
    """All that can be said without a time of one node alone."""
    total = max(sum(slots.values()), 1)
    ttfts = [record.ttft_s for record in run.records if record.ttft_s is not None]
    queues = [record.queue_s for record in run.records]
    told = [one.usage for one in run.records if one.usage.cached_tokens is not None]
    return RunReport(
        run=run.id,
        requests=len(run.records),
        outcomes=dict(Counter(record.outcome.value for record in run.records)),
        per_node=dict.fromkeys(slots, Tally()) | dict(counts),
        makespan_s=run.makespan_s,
        queue_p50_s=percentile(queues, 0.5),
        queue_p90_s=percentile(queues, 0.9),
        ttft_p50_s=percentile(ttfts, 0.5),
        ttft_p90_s=percentile(ttfts, 0.9),
        slots=total,
        bound_waves=waves_bound(len(run.records), total),
        lower_bound_s=bound.makespan_s,
        efficiency=min(bound.makespan_s / run.makespan_s, 1.0) if bound.makespan_s else None,
        bound_capacity=_capacity(bound),
        cached_tokens=sum(usage.cached_tokens or 0 for usage in told) if told else None,
        prompt_tokens=sum(usage.prompt_tokens or 0 for usage in told) if told else None,
        losses=_losses(run, bound),
        node_slots=dict(slots),
    )


def _chained(report: RunReport, chains: Sequence[Chain], longest: Chain, bound: _Bound) -> RunReport:
    """The report with what follows what. ``longest``: by its seconds."""
    return replace(
        report,
        chains=len(chains),
        chain_steps=sum(len(chain.steps) for chain in chains),
        longest_chain=max(len(chain.steps) for chain in chains),
        tool_s=sum(chain.tool_s for chain in chains),
        span_lo_s=bound.span_s,
        span_hi_s=longest.span_s,
        span_steps=len(longest.steps),
        span_tool_s=longest.tool_s,
    )


def _compared(report: RunReport, t1: T1 | None, t1_local: T1 | None) -> RunReport:
    """The report next to one node alone; of a time that is not to be believed only the time."""
    report = replace(report, t1=t1, t1_local=t1_local)
    if report.makespan_s <= 0.0:
        return report
    if t1_local is not None and t1_local.is_credible:
        report = replace(report, speedup_local=t1_local.value_s / report.makespan_s)
    if t1 is None or not t1.is_credible:
        return report
    speedup = t1.value_s / report.makespan_s
    provable = t1.value_s / report.lower_bound_s if report.lower_bound_s else None
    can_gain = provable is not None and provable > 1.0 + 1e-6
    gained = (speedup - 1.0) / (provable - 1.0) if provable is not None and can_gain else None
    return replace(report, speedup=speedup, bound_provable=provable, gained=gained)


def _bound(
    run: Run, served: Sequence[RequestRecord], slots: Mapping[NodeId, int], places: Places | None
) -> _Bound:
    """Seconds below which this run could not have ended; none if nothing was served."""
    if not served:
        return _Bound(None)
    works = works_of(served, follows(served)) if places is not None else ()
    if not works or places is None or not _are_known(served, places):
        observed_s = _observed_bound(run, served, slots)
        return _Bound(None if observed_s is None else min(observed_s, run.makespan_s) or None)
    best = at_their_best(served, places)
    found = lower_bounds(works, best)
    waited_s = min(record.arrived_at for record in served) - run.started_at
    makespan_s = waited_s + found.makespan_s
    return _Bound(
        makespan_s=min(makespan_s, run.makespan_s) or None,
        span_s=min(found.span_s, run.makespan_s),
        works=works,
        places=best,
        is_run_itself=makespan_s > run.makespan_s * (1.0 + 1e-6),
    )


def _are_known(served: Sequence[RequestRecord], places: Places) -> bool:
    """Whether each request ran at a place whose speed is known for its model."""
    return all(
        record.place is not None and record.model in places.get(record.place, (0, {}))[1] for record in served
    )


def _observed_bound(run: Run, served: Sequence[RequestRecord], slots: Mapping[NodeId, int]) -> float | None:
    """The same where no speeds are known: from what requests took on the nodes that served them."""
    finals = [final for record in served if (final := record.final)]
    outputs = [record.usage.output_tokens or 0 for record in served]
    sizes = [float(output) for output in outputs] if all(outputs) else [1.0] * len(served)
    observed = [{final.place.node: final.ended_at - final.dispatched_at} for final in finals]
    releases = [record.arrived_at for record in served]
    bound = provable_makespan(best_services(observed, sizes, slots), slots, releases)
    return min(releases) - run.started_at + bound or None


def _capacity(bound: _Bound) -> float | None:
    """What all nodes together do of the run's mean request, over what the best of them does."""
    if bound.places is None:
        return None
    speeds: dict[NodeId, float] = {}
    for place, speed in speeds_of(bound.works, bound.places).items():
        speeds[place.node] = speeds.get(place.node, 0.0) + speed
    return capacity_bound(speeds.values())


def _losses(run: Run, bound: _Bound) -> Losses | None:
    if bound.places is None or bound.makespan_s is None:
        return None
    return split(run, bound.works, bound.places, run.makespan_s - bound.makespan_s)
