"""From the records of a run to its Report: the same whether they come from memory or from the disk."""

from collections.abc import Mapping, Sequence

from pairproxy.api.schema import Record, Report
from pairproxy.core.accounting.judging import judge
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.timeline import lay_out
from pairproxy.core.models import NodeId
from pairproxy.core.whatif.recording import Recording


def report_of(
    run: RunReport,
    records: Sequence[RequestRecord],
    started_at: float,
    *,
    node: NodeId,
    names: Mapping[str, str],
    started_unix: float | None,
    recording: Recording | None = None,
    findings: tuple[str, ...] = (),
) -> Report:
    """Tell of a run: its ``records`` by arrival, the first at ``started_at`` (seconds on their clock)."""
    timeline = lay_out(records, started_at, run.lower_bound_s)
    return Report(
        run=run,
        records=tuple(record_of(one, started_at) for one in records),
        names=dict(names),
        recording=recording,
        findings=findings,
        node=node,
        timeline=timeline,
        started_unix=started_unix,
        verdict=judge(run, timeline, names),
    )


def record_of(record: RequestRecord, began_at: float) -> Record:
    """One request; ``began_at`` is when its run did, in seconds on the record's clock."""
    place, final = record.place, record.final
    return Record(
        request=record.id,
        node=place.node if place else None,
        engine=place.engine if place else None,
        outcome=record.outcome,
        arrived_s=record.arrived_at - began_at,
        dispatched_s=final.dispatched_at - began_at if final else None,
        first_byte_s=final.first_byte_at - began_at if final and final.first_byte_at is not None else None,
        ended_s=record.ended_at - began_at,
        prompt_tokens=record.usage.prompt_tokens,
        output_tokens=record.usage.output_tokens,
        attempts=len(record.attempts),
        reason=final.reason if final else None,
        model=record.model,
        cached_tokens=record.usage.cached_tokens,
        error=record.error,
        continued=record.continued,
    )
