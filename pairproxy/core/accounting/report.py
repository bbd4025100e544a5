"""The report of one run: speedup against one node alone, next to its bounds, with what must be said about it.

speedup       T1 / makespan               T1: the makespan of the same requests on one node, when known
waves bound   N / ceil(N / slots)         exact for equal requests on equal nodes, and for nothing else
lower bound   no schedule ends sooner     arrivals as they were, every node at its best pace
provable      T1 / lower bound
efficiency    lower bound / makespan      in (0, 1]

No speedup is claimed where there was nothing to share (one node, one request), or where the model of one node
alone does not even reproduce the run as it happened.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pairproxy.core.accounting.bounds import best_services, provable_makespan, waves_bound
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.services import Service, Tally, at_node, percentile, seen_slots, tally
from pairproxy.core.models import NodeId, Outcome

ANECDOTE_REQUESTS = 8  # below, one long reply decides the result
MOST_MODEL_ERROR = 0.25  # a speedup of 5/3 could not be told from none with a model that is off by more


@dataclass(frozen=True, slots=True)
class T1:
    """The makespan of a run's requests on one node alone."""

    value_s: float
    kind: Literal["measured", "modelled"]  # replayed there, or simulated with learned speeds
    node: NodeId
    model_error: float | None = (
        None  # of a modelled one: sum |modelled - real| / sum real of each request's time
    )

    @property
    def is_credible(self) -> bool:
        """Whether it was measured, or modelled well enough to be compared with."""
        return self.kind == "measured" or self.model_error is None or self.model_error <= MOST_MODEL_ERROR


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one run did; times in seconds. Encodes to JSON as it is.

    None: not known (no T1, no reply with a first byte, nothing served).
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
    bound_provable: float | None
    t1: T1 | None
    speedup: float | None
    efficiency: float | None
    notes: tuple[str, ...]


def report_run(run: Run, slots: Mapping[NodeId, int], t1: T1 | None) -> RunReport:
    """Report a run. ``slots``: of every node that holds a model of it, whether or not it served any.

    A node that was seen with more requests at once than its slots counts with what was seen.
    """
    services = [service for record in run.records for service in record.services()]
    slots = seen_slots(services, slots)
    total = max(sum(slots.values()), 1)
    can_share = len(slots) > 1 and len(run.records) > 1
    alone = t1 if can_share and t1 is not None and t1.is_credible else None
    lower_bound_s = _lower_bound(run, slots)
    if lower_bound_s is not None and alone is not None and alone.node in slots:
        lower_bound_s = min(lower_bound_s, alone.value_s)  # doing all of it there is one of the schedules
    ttfts = [record.ttft_s for record in run.records if record.ttft_s is not None]
    queues = [record.queue_s for record in run.records]
    counts = dict.fromkeys(slots, Tally()) | tally(services, at_node)
    speedup = alone.value_s / run.makespan_s if alone and run.makespan_s > 0.0 else None
    waves = waves_bound(len(run.records), total)
    return RunReport(
        run=run.id,
        requests=len(run.records),
        outcomes=dict(Counter(record.outcome.value for record in run.records)),
        per_node=counts,
        makespan_s=run.makespan_s,
        queue_p50_s=percentile(queues, 0.5),
        queue_p90_s=percentile(queues, 0.9),
        ttft_p50_s=percentile(ttfts, 0.5),
        ttft_p90_s=percentile(ttfts, 0.9),
        slots=total,
        bound_waves=waves,
        lower_bound_s=lower_bound_s,
        bound_provable=alone.value_s / lower_bound_s if alone and lower_bound_s else None,
        t1=t1 if can_share else None,
        speedup=speedup,
        efficiency=min(lower_bound_s / run.makespan_s, 1.0) if lower_bound_s and run.makespan_s else None,
        notes=(
            *_notes_on_work(run, slots),
            *(_notes_on_speed(services, waves, speedup, t1) if can_share else ()),
        ),
    )


def _lower_bound(run: Run, slots: Mapping[NodeId, int]) -> float | None:
    """Seconds below which this run could not have ended, arrivals kept; None if nothing was served."""
    served = [(record, record.final) for record in run.records if record.final and record.final.is_served]
    if not served:
        return None
    outputs = [record.usage.output_tokens or 0 for record, _ in served]
    sizes = [float(output) for output in outputs] if all(outputs) else [1.0] * len(served)
    observed = [{final.place.node: final.ended_at - final.dispatched_at} for _, final in served]
    releases = [record.arrived_at for record, _ in served]
    bound = provable_makespan(best_services(observed, sizes, slots), slots, releases)
    return min(releases) - run.started_at + bound or None


def _notes_on_work(run: Run, slots: Mapping[NodeId, int]) -> list[str]:
    notes = []
    bad = sum(record.outcome is not Outcome.DONE for record in run.records)
    if bad:
        notes.append(
            f"{bad} of {len(run.records)} requests did not end well: the times are not of the whole job."
        )
    if len(slots) == 1:
        notes.append("Only one node had a replica of this model: there was nothing to balance.")
    elif len(run.records) == 1:
        notes.append("A single request: there was nothing to share.")
    if run.is_chain:
        notes.append("A chain: each step waits for the one before, so more machines cannot help.")
    if len(run.records) < ANECDOTE_REQUESTS:
        notes.append(f"Fewer than {ANECDOTE_REQUESTS} requests: an anecdote, not a statistic.")
    return notes


def _notes_on_speed(services: list[Service], waves: float, speedup: float | None, t1: T1 | None) -> list[str]:
    if t1 is not None and not t1.is_credible:
        error = f"{t1.model_error:.0%} on the run as it happened"
        return [f"The model of one node alone is off by {error}, so no speedup is claimed."]
    if t1 is None or speedup is None:
        return ["No time of one node alone is known for these requests, so no speedup is claimed."]
    notes = []
    if t1.kind == "modelled":
        error = "" if t1.model_error is None else f" (off by {t1.model_error:.0%} on the run as it happened)"
        notes.append(f"The time of one node alone is modelled, not measured{error}.")
    if speedup < 1.0:
        notes.append("One node alone would have been faster than all of them together.")
    if speedup > waves:
        lengths = [service.service_s for service in services if service.is_reply]
        notes.append(
            f"Faster than the waves bound, which is for equal pieces on equal nodes: here the longest took"
            f" {max(lengths):.1f} s, the shortest {min(lengths):.1f} s."
        )
    return notes
