"""Which request follows which: agents send a step when the reply to the last one is here and a tool has run.

A step is known by the name that the client gave to its chain, or else by its prompt, which begins with all of
the full blocks of the last one's and is longer. Either way the last one had ended when it arrived.

An agent that sends out sub-agents goes on when the last of them is done: what stands between two steps is
then their work, and not a tool's.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pairproxy.core.accounting.prompts import Length, Prompts
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.models import ModelName

EARLY_S = 0.05  # a client goes on at the last record of a stream, before the end of its message is here
JOIN_S = 2.0  # in which an agent goes on with what its sub-agents told; a tool takes as long, and more


@dataclass(frozen=True, slots=True)
class Chain:
    """Requests each of which follows the last. ``steps`` are their indices in the run."""

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


def waits_for(records: Sequence[RequestRecord], parents: Sequence[int | None]) -> tuple[tuple[int, ...], ...]:
    """For each record, by arrival, the indices of all that had to end before it came, the last to end last.

    That is the one it follows and, where its agent went on at once when they were over, the sub-agents in
    between: all that began after that reply, each told by the last of what followed it. Their first steps
    wait for that reply.
    """
    waits: list[tuple[int, ...]] = [() if parent is None else (parent,) for parent in parents]
    over = _over(records, parents)
    firsts = [index for index, parent in enumerate(parents) if parent is None]
    arrivals = [records[index].arrived_at for index in firsts]
    others: dict[int, list[int]] = {}
    for index, parent in enumerate(parents):
        if parent is None:
            continue
        since, until = records[parent].ended_at - EARLY_S, records[index].arrived_at + EARLY_S
        between = firsts[bisect_left(arrivals, since) : bisect_right(arrivals, until)]
        beside = others.setdefault(parent, [])
        sub_agents = [
            one
            for one in (*between, *beside)
            if one != parent and over[one] < index and records[over[one]].ended_at <= until
        ]
        beside.append(index)
        joins = sorted((over[one] for one in sub_agents), key=lambda one: records[one].ended_at)
        if joins and records[joins[-1]].ended_at >= until - EARLY_S - JOIN_S:
            waits[index] = (parent, *joins)
            for one in sub_agents:
                waits[one] = waits[one] or (parent,)
    return tuple(waits)


def _over(records: Sequence[RequestRecord], parents: Sequence[int | None]) -> list[int]:
    """For each record the one that ended last of it and all that followed it."""
    over = [*range(len(records))]
    for index in reversed(range(len(records))):
        parent = parents[index]
        if parent is not None and records[over[index]].ended_at > records[over[parent]].ended_at:
            over[parent] = over[index]
    return over


def find_chains(records: Sequence[RequestRecord], parents: Sequence[int | None]) -> tuple[Chain, ...]:
    """Cut what follows() found into chains: of several that follow one request, the first goes on with it."""
    next_step: dict[int, int] = {}
    waits = waits_for(records, parents)
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
            chains.append(_chain(records, steps, waits))
    return tuple(chains)


def critical_path(records: Sequence[RequestRecord], parents: Sequence[int | None]) -> Chain:
    """The longest way through the run along what follows what: tools and services, as observed.

    It may be a single request; of no records it is empty.
    """
    spans: list[float] = []
    waits = waits_for(records, parents)
    for index, (record, before) in enumerate(zip(records, waits, strict=True)):
        began_s = spans[before[-1]] + think_s(records, index, before[-1]) if before else 0.0
        spans.append(began_s + (record.service_s or 0.0))
    steps: list[int] = []
    step = max(range(len(spans)), key=spans.__getitem__, default=None)
    while step is not None:
        steps.insert(0, step)
        step = waits[step][-1] if waits[step] else None
    return _chain(records, steps, waits)


def _chain(records: Sequence[RequestRecord], steps: list[int], waits: Sequence[tuple[int, ...]]) -> Chain:
    tool_s = sum(think_s(records, step, waits[step][-1]) for step in steps[1:])
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
