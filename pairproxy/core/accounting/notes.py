"""What must be said about a run in words: where more machines cannot help, and what a number is worth."""

from collections.abc import Iterator, Mapping, Sequence

from pairproxy.core.accounting.alone import T1
from pairproxy.core.accounting.chains import Chain
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.services import Service
from pairproxy.core.models import NodeId, Outcome

ANECDOTE_REQUESTS = 8  # below, one long reply decides the result
MOSTLY = 0.8  # of the makespan: a chain that alone takes so much leaves little for other machines to do


def on_work(
    run: Run, slots: Mapping[NodeId, int], chains: Sequence[Chain], span_s: float, barred: int = 0
) -> Iterator[str]:
    """What kind of work it was. ``span_s``: the longest chain as observed, without waiting; 0.0: none.

    ``barred``: nodes that hold its model, and could take none of it.
    """
    bad = sum(record.outcome is not Outcome.DONE for record in run.records)
    if bad:
        yield f"{bad} of {len(run.records)} requests did not end well: the times are not of the whole job."
    if len(slots) == 1 and barred:
        yield "Only one node could take these requests: there was nothing to balance."
    elif len(slots) == 1:
        yield "Only one node had a replica of this model: there was nothing to balance."
    elif len(run.records) == 1:
        yield "A single request: there was nothing to share."
    longest = max((len(chain.steps) for chain in chains), default=0)
    if longest == len(run.records):
        yield "A chain: each step waits for the one before, so more machines cannot help."
    elif run.is_chain:
        yield "Each request came when the one before had ended: so more machines cannot help."
    elif chains and run.makespan_s > 0.0 and span_s >= MOSTLY * run.makespan_s:
        yield (
            f"The longest chain alone takes {span_s:.1f} of {run.makespan_s:.1f} s: each of its steps waits"
            " for the one before, so more machines cannot help much."
        )
    if len(run.records) < ANECDOTE_REQUESTS:
        yield f"Fewer than {ANECDOTE_REQUESTS} requests: an anecdote, not a statistic."


def on_speed(
    services: Sequence[Service], waves: float, speedup: float | None, t1: T1 | None
) -> Iterator[str]:
    """What the speedup is worth, or why there is none."""
    if t1 is not None and not t1.is_credible:
        error = f"{t1.model_error:.0%} on the run as it happened"
        yield f"The model of one node alone is off by {error}, so no speedup is claimed."
        return
    if t1 is None or speedup is None:
        yield "No time of one node alone is known for these requests, so no speedup is claimed."
        return
    if t1.kind == "modelled":
        error = "" if t1.model_error is None else f" (off by {t1.model_error:.0%} on the run as it happened)"
        yield f"The time of one node alone is modelled, not measured{error}."
    if round(speedup, 2) < 1.0:  # as it is shown: 1.00 with this beside it would contradict itself
        yield "One node alone would have been faster than all of them together."
    if speedup > waves:
        lengths = [service.service_s for service in services if service.is_reply]
        yield (
            f"Faster than the waves bound, which is for equal pieces on equal nodes: here the longest took"
            f" {max(lengths):.1f} s, the shortest {min(lengths):.1f} s."
        )


def on_bound(is_faster: bool) -> Iterator[str]:
    """When the run itself was faster than the speeds known of the nodes allow."""
    if is_faster:
        yield "The run was faster than the known speeds allow: its lower bound is the run itself."
