"""Speeds at their best observed minute: a bound must allow for what was seen, whatever the mean says."""

from collections.abc import Sequence
from dataclasses import replace

from pairproxy.core.accounting.chains import size
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.accounting.services import peak
from pairproxy.core.accounting.works import Places, Work

MINUTE_S = 60.0  # shorter ones say more about when replies happened to end than about the engine
WINDOWS = 64  # minutes looked at per place: keeps a report of thousands of requests under half a second

Job = tuple[float, float, tuple[float, float, float]]
"""When it ran there, from and to, and what it took of the engine (Work.uses)."""


def at_their_best(records: Sequence[RequestRecord], places: Places) -> Places:
    """The places with all rates raised to what their best minute shows, and the slots that were seen in use.

    A request that was faster than the rates allow, alone or with others in one minute, raises them by as
    much; they are never lowered.
    """
    best = {}
    for place, (told, rates) in places.items():
        ran = [(record, final) for record in records if (final := record.final) and final.place == place]
        slots = max(told, peak((final.dispatched_at, final.ended_at) for _, final in ran))
        jobs, factor = [], 1.0
        for record, final in ran:
            if final.is_served and not record.continued and record.model in rates:
                work = _done(record)
                service_s = final.ended_at - final.dispatched_at
                factor = max(factor, work.alone_s(rates[record.model]) / max(service_s, 1e-9))
                uses = work.uses(slots, rates[record.model])
                jobs.append((final.dispatched_at, final.ended_at, uses))
        factor = max(factor, _busiest(sorted(jobs)))
        best[place] = (
            slots,
            {
                model: replace(one, prefill=one.prefill * factor, decode=one.decode * factor)
                for model, one in rates.items()
            },
        )
    return best


def cached_of(record: RequestRecord) -> int:
    """Tokens of the prompt that were cached where it was served: as told, else as predicted, else none."""
    if record.usage.cached_tokens is not None:
        return record.usage.cached_tokens
    priced = record.final.priced if record.final else None
    return priced.cached_tokens if priced else 0


def _done(record: RequestRecord) -> Work:
    """What was really read and written."""
    read = max(size(record) - cached_of(record), 0)
    return Work(record.arrived_at, record.model, read, record.usage.output_tokens or 0)


def _busiest(jobs: Sequence[Job]) -> float:
    """How many times as much as it can at its rates an engine did in its best minute, or run if shorter."""
    busiest = 0.0
    for index in range(0, len(jobs), max(len(jobs) // WINDOWS, 1)):
        start = jobs[index][0]
        inside = [(end, uses) for _, end, uses in jobs[index:] if end <= start + MINUTE_S]
        if inside:
            elapsed_s = max(end for end, _ in inside) - start
            taken_s = max(sum(part) for part in zip(*(uses for _, uses in inside), strict=True))
            busiest = max(busiest, taken_s / max(elapsed_s, 1e-9))
    return busiest
