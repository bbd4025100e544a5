"""Which request follows which: agents send a step when the reply to the last one is here and a tool has run.

A step is known by the name that the client gave to its chain, or else by its prompt, which begins with all of
the full blocks of the last one's and is longer. Either way the last one had ended when it arrived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pairproxy.core.accounting.prompts import Length, Prompts
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.models import ModelName

EARLY_S = 0.05  # a client goes on at the last record of a stream, before the end of its message is here


@dataclass(frozen=True, slots=True)
class Chain:
    """Requests each of which follows the last, at least two. ``steps`` are their indices in the run."""

    steps: tuple[int, ...]
    tool_s: float  # between a reply and the next step: the client's own time, not ours
    span_s: float  # tools and services one after the other, as observed, without any waiting


def follows(records: Sequence[RequestRecord]) -> tuple[int | None, ...]:
    """For each record, by arrival, the index of the one it follows; None: of none here."""
    named: dict[tuple[str, str], int] = {}  # the latest of each named chain
    by_end: dict[tuple[int, ModelName], Prompts] = {}  # by the last hash of the prompt
    parents: list[int | None] = []
    for index, record in enumerate(records):
        parent = None
        if record.chain:
            last = named.get((record.client, record.chain))
            parent = last if last is not None and _had_ended(records[last], record) else None
            named[record.client, record.chain] = index
        parents.append(_extended(record, by_end) if parent is None else parent)
        if record.prefix:
            alike = by_end.setdefault((record.prefix[-1], record.model), Prompts())
            alike.add(index, _length(record), record.ended_at)
    return tuple(parents)


def think_s(records: Sequence[RequestRecord], index: int, parent: int) -> float:
    """Seconds between a reply and the step that follows it."""
    return max(records[index].arrived_at - records[parent].ended_at, 0.0)


def find_chains(records: Sequence[RequestRecord], parents: Sequence[int | None]) -> tuple[Chain, ...]:
    """Cut what follows() found into chains: of several that follow one request, the first goes on with it."""
    next_step: dict[int, int] = {}
    for index, parent in enumerate(parents):
        if parent is not None:
            next_step.setdefault(parent, index)
    chains = []
    for index, parent in enumerate(parents):
        if parent is not None and next_step[parent] == index:
            continue
        steps = [index]
        while (step := next_step.get(steps[-1])) is not None:
            steps.append(step)
        if len(steps) > 1:
            chains.append(_chain(records, steps))
    return tuple(chains)


def critical_path_s(records: Sequence[RequestRecord], parents: Sequence[int | None]) -> float:
    """The longest way through the run along what follows what: tools and services, as observed."""
    spans: list[float] = []
    for index, (record, parent) in enumerate(zip(records, parents, strict=True)):
        before = 0.0 if parent is None else spans[parent] + think_s(records, index, parent)
        spans.append(before + (record.service_s or 0.0))
    return max(spans, default=0.0)


def _chain(records: Sequence[RequestRecord], steps: list[int]) -> Chain:
    tool_s = sum(think_s(records, step, last) for last, step in pairwise(steps))
    service_s = sum(records[step].service_s or 0.0 for step in steps)
    return Chain(tuple(steps), tool_s, tool_s + service_s)


def _extended(record: RequestRecord, by_end: Mapping[tuple[int, ModelName], Prompts]) -> int | None:
    """Whose prompt this one goes on with: the longest one, and of equal ones the one that ended last.

    A prompt that is sent a second time is no step.
    """
    for block in reversed(record.prefix):
        alike = by_end.get((block, record.model))
        last = None if alike is None else alike.last(record.arrived_at + EARLY_S, _length(record))
        if last is not None:
            return last
    return None


def _had_ended(last: RequestRecord, step: RequestRecord) -> bool:
    return last.ended_at <= step.arrived_at + EARLY_S


def _length(record: RequestRecord) -> Length:
    return len(record.prefix), size(record)


def size(record: RequestRecord) -> int:
    """Tokens of the prompt: as the engine counted them, else as they were estimated."""
    return record.usage.prompt_tokens or record.prompt_tokens
