"""A run's requests as work: what must be read and written by whoever serves them, and when at the earliest.

What several requests share at the beginning of their prompts must be read at least once, somewhere: it counts
once. A step of a chain cannot arrive before the one it follows could have ended.

The blocks of a prompt are equal pieces of its text, so a block is counted as an equal part of its tokens.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pairproxy.core.accounting.bounds import provable_makespan
from pairproxy.core.accounting.chains import size, think_s, waits_for
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.models import ModelName, NodeId, Place, Rates

Places = Mapping[Place, tuple[int, Mapping[ModelName, Rates]]]
"""Each place with its slots, and its rates for every model it holds."""


def holding(places: Places, models: Iterable[ModelName]) -> Places:
    """Those that hold some of these models."""
    wanted = frozenset(models)
    return {place: known for place, known in places.items() if not wanted.isdisjoint(known[1])}


def able(places: Places, records: Sequence[RequestRecord]) -> Places:
    """Those that could serve some of these requests.

    They hold a model of them and were a candidate for one: what must stay at a node, is too long for another,
    or takes what a replica of the same name does not have, has no more. Where some of the decisions are no
    longer kept, all that hold a model count.
    """
    held = holding(places, (record.model for record in records))
    decisions = [attempt.decision for record in records for attempt in record.attempts]
    met = {one.place for decision in decisions if decision is not None for one in decision.candidates}
    found = {place: known for place, known in held.items() if place in met}
    return held if None in decisions or not found else found


def slots_of(places: Places) -> dict[NodeId, int]:
    """The slots of each node."""
    slots: Counter[NodeId] = Counter()
    for place, (count, _) in places.items():
        slots[place.node] += count
    return dict(slots)


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work. ``after``: the index of the work it follows, ``think_s`` seconds after its end."""

    arrived_at: float  # what follows another one may begin sooner, if that one ends sooner
    model: ModelName
    read_tokens: float
    write_tokens: float
    after: int | None = None
    think_s: float = 0.0

    def alone_s(self, rates: Rates) -> float:
        """Seconds on an engine of its own."""
        return self.read_tokens / rates.prefill + self.write_tokens / rates.decode

    def uses(self, slots: int, rates: Rates) -> tuple[float, float, float]:
        """Seconds for which it would take up all slots, all reading, all writing of an engine."""
        together = max(count * rates.share(count) for count in (1, slots))
        return (
            self.alone_s(rates) / slots,
            self.read_tokens / rates.prefill,
            self.write_tokens / (rates.decode * together),
        )


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """Seconds from the first arrival below which no schedule ends, at the given rates.

    ``span_s`` is the longest chain alone, each step where it is soonest; ``makespan_s`` includes it.
    """

    makespan_s: float
    span_s: float


def lower_bounds(works: Sequence[Work], places: Places) -> LowerBounds:
    """Bounds on the makespan of works, in the order of arrival; what follows a work stands after it.

    Raises ValueError if there are none, or one of them can be done nowhere.
    """
    began_at = min(work.arrived_at for work in works)
    rows = [
        {
            place: work.alone_s(rates[work.model])
            for place, (_, rates) in places.items()
            if work.model in rates
        }
        for work in works
    ]
    releases: list[float] = []
    ends: list[float] = []
    for work, row in zip(works, rows, strict=True):
        release = work.arrived_at if work.after is None else ends[work.after] + work.think_s
        releases.append(min(release, work.arrived_at))
        ends.append(releases[-1] + min(row.values(), default=0.0))
    slots = {place: count for place, (count, _) in places.items()}
    uses = [
        {
            place: work.uses(count, rates[work.model])
            for place, (count, rates) in places.items()
            if work.model in rates
        }
        for work in works
    ]
    bound = provable_makespan(rows, slots, releases, uses)
    spans = [end - began_at for end in ends]
    return LowerBounds(max(bound, *spans), max(spans))


def speeds_of(works: Sequence[Work], places: Places) -> dict[Place, float]:
    """How many of the works' mean each place does in a second, all its slots in use."""
    models = {work.model for work in works}
    read = sum(work.read_tokens for work in works) / len(works)
    write = sum(work.write_tokens for work in works) / len(works)
    return {
        place: 1.0 / max(*Work(0.0, model, read, write).uses(slots, rates[model]), 1e-12)
        for place, (slots, rates) in places.items()
        for model in sorted(models & rates.keys())[:1]
    }


def works_of(records: Sequence[RequestRecord], parents: Sequence[int | None]) -> tuple[Work, ...]:
    """What nobody who serves these records (by arrival, all served) is spared; empty if that is not known.

    One work per record, in their order, and one for each beginning that they share.
    """
    if any(not (size(one) and one.usage.output_tokens is not None) for one in records):
        return ()
    own, shared = _reading(records, parents)
    waits = waits_for(records, parents)
    works = [
        Work(
            arrived_at=record.arrived_at,
            model=record.model,
            read_tokens=own[index],
            write_tokens=float(record.usage.output_tokens or 0),
            after=waits[index][-1] if waits[index] else None,
            think_s=think_s(records, index, waits[index][-1]) if waits[index] else 0.0,
        )
        for index, record in enumerate(records)
    ]
    return (*works, *shared)


def _reading(
    records: Sequence[RequestRecord], parents: Sequence[int | None]
) -> tuple[list[float], list[Work]]:
    """Tokens that each record must read for itself, and the works that several have in common."""
    counts = Counter(block for record in records for block in record.prefix)
    holders: defaultdict[int, list[int]] = defaultdict(list)  # first block of a piece -> who has it
    lengths: dict[int, int] = {}
    own = []
    for index, record in enumerate(records):
        alone = len(record.prefix)
        for start, end in _pieces([counts[block] for block in record.prefix]):
            if counts[record.prefix[start]] > 1:
                alone -= end - start
                holders[record.prefix[start]].append(index)
                lengths[record.prefix[start]] = end - start
        own.append(size(record) * (alone / len(record.prefix) if record.prefix else 1.0))
    shared = []
    for first, sharers in holders.items():
        tokens = lengths[first] * min(size(records[one]) / (len(records[one].prefix) + 1) for one in sharers)
        known = set(sharers)
        if all(parents[one] in known for one in sharers[1:]):  # all others wait for the first
            own[sharers[0]] += tokens
        else:
            reader = min((records[one] for one in sharers), key=_dispatched_at)
            tokens = min(tokens, _read_anew(reader))
            shared.append(Work(records[sharers[0]].arrived_at, reader.model, tokens, 0.0))
    return [_least(records, index, parents[index], tokens) for index, tokens in enumerate(own)], shared


def _least(records: Sequence[RequestRecord], index: int, parent: int | None, tokens: float) -> float:
    """Without what was cached, and what the reply before it left in a cache."""
    record = records[index]
    if parent is not None:
        tokens -= records[parent].usage.output_tokens or 0
        tokens -= 0 if record.prefix else size(records[parent])  # a named chain: it may repeat all of that
    return max(min(tokens, _read_anew(record)), 0.0)


def _read_anew(record: RequestRecord) -> float:
    return float(max(size(record) - (record.usage.cached_tokens or 0), 0))


def _dispatched_at(record: RequestRecord) -> float:
    return record.final.dispatched_at if record.final else record.ended_at


def _pieces(counts: list[int]) -> list[tuple[int, int]]:
    """Cut where the number of those who share a block changes: (start, end) of each piece."""
    cuts = [0, *(i for i in range(1, len(counts)) if counts[i] != counts[i - 1]), len(counts)]
    return [(start, end) for start, end in pairwise(cuts) if end > start]
