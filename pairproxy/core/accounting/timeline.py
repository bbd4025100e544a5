"""A run as a picture: one lane for each slot that was used, one bar for each attempt. Encodes to JSON.

::

    lane   node A, slot 1   |--wait--[ load | prefill | decode ]  [ prefill | decode ]
    lane   node B, slot 1   |[ prefill | decode ]
                                                      ^ lower bound       ^ makespan

Times are seconds from the run's first arrival.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pairproxy.core.accounting.losses import load_s
from pairproxy.core.accounting.records import AttemptRecord, RequestRecord
from pairproxy.core.accounting.services import OVERLAP_S
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, RequestId

Piece = tuple[AttemptRecord, RequestRecord, float]
"""An attempt, its request, and when it began to wait (seconds on their clock)."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One slot of an engine that served at least one attempt; ``slot`` counts from 1."""

    node: NodeId
    engine: EngineId
    slot: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One attempt. It waits from ``waiting_s``, reads its prompt from ``dispatched_s`` and writes from
    ``first_byte_s`` to ``ended_s``.

    ``waiting_s`` is the request's arrival, or the end of its attempt before. ``wave`` counts the attempts of
    its lane, from 1. ``end`` is an outcome, or the word of records.AttemptRecord.end. ``load_s``: how long
    its model was loaded before the prompt was read, as the engine tells it, else as it was predicted. A reply
    that comes in one piece has a ``first_byte_s`` only if its engine tells for how long it wrote.
    """

    request: RequestId
    attempt: int
    lane: int  # an index of Timeline.lanes
    wave: int
    model: ModelName
    waiting_s: float
    dispatched_s: float
    first_byte_s: float | None
    ended_s: float
    end: str
    load_s: float = 0.0
    output_tokens: int | None = None  # of the reply, if this attempt made it and its engine counts them


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A request that no node was found for: it waited, and was refused, failed or left."""

    request: RequestId
    model: ModelName
    waiting_s: float
    ended_s: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run laid out. ``bars`` by dispatch. ``lower_bound_s``: no schedule ends before; None: unknown."""

    makespan_s: float
    lower_bound_s: float | None
    lanes: tuple[Lane, ...]
    bars: tuple[Bar, ...]
    unplaced: tuple[Unplaced, ...]
    waves: int  # the most bars in one lane


def lay_out(records: Sequence[RequestRecord], started_at: float, lower_bound_s: float | None) -> Timeline:
    """Lay out the records of a run that started at ``started_at`` (seconds on their clock).

    Attempts that overlap at one place take different lanes of it, the lowest that is free. Bars of one lane
    may overlap by OVERLAP_S: an origin hears of an end when the slot is in use again already. An attempt that
    ended within it opens no lane: it was turned away.
    """
    placed = _placed(
        sorted(_pieces(records), key=lambda one: (one[0].dispatched_at, one[1].id, one[0].number))
    )
    slots: dict[Place, int] = defaultdict(int)
    for (attempt, _, _), slot in placed:
        slots[attempt.place] = max(slots[attempt.place], slot)
    lanes = [
        Lane(place.node, place.engine, slot)
        for place, count in sorted(slots.items())
        for slot in range(1, count + 1)
    ]
    index = {(lane.node, lane.engine, lane.slot): number for number, lane in enumerate(lanes)}
    waves: dict[int, int] = defaultdict(int)
    bars = []
    for (attempt, record, waiting_at), slot in placed:
        lane = index[attempt.place.node, attempt.place.engine, slot]
        waves[lane] += 1
        bars.append(_bar(attempt, record, waiting_at - started_at, lane, waves[lane], started_at))
    return Timeline(
        makespan_s=max((record.ended_at for record in records), default=started_at) - started_at,
        lower_bound_s=lower_bound_s,
        lanes=tuple(lanes),
        bars=tuple(bars),
        unplaced=tuple(_unplaced(record, started_at) for record in records if not record.attempts),
        waves=max(waves.values(), default=0),
    )


def _placed(pieces: Iterable[Piece]) -> list[tuple[Piece, int]]:
    """Each piece, by dispatch, with the lowest slot of its place that is free then, from 1."""
    slots: dict[Place, int] = defaultdict(int)
    free: dict[Place, list[int]] = defaultdict(list)
    busy: dict[Place, list[tuple[float, int]]] = defaultdict(list)
    placed = []
    for piece in pieces:
        attempt, place = piece[0], piece[0].place
        while busy[place] and busy[place][0][0] <= attempt.dispatched_at:
            heapq.heappush(free[place], heapq.heappop(busy[place])[1])
        free_at = attempt.ended_at - OVERLAP_S
        if free[place]:
            slot = heapq.heappop(free[place])
        elif slots[place] and free_at <= attempt.dispatched_at:
            placed.append((piece, 1))  # a slot that was taken: there is none more for it
            continue
        else:
            slots[place] += 1
            slot = slots[place]
        heapq.heappush(busy[place], (max(free_at, attempt.dispatched_at), slot))
        placed.append((piece, slot))
    return placed


def _pieces(records: Iterable[RequestRecord]) -> Iterable[Piece]:
    """Each attempt with its record and when it began to wait."""
    for record in records:
        waiting_at = record.arrived_at
        for attempt in sorted(record.attempts, key=lambda one: one.number):
            yield attempt, record, min(waiting_at, attempt.dispatched_at)
            waiting_at = attempt.ended_at


def _bar(
    attempt: AttemptRecord, record: RequestRecord, waiting_s: float, lane: int, wave: int, started_at: float
) -> Bar:
    first = _began_to_write(attempt, record)
    return Bar(
        request=record.id,
        attempt=attempt.number,
        lane=lane,
        wave=wave,
        model=record.model,
        waiting_s=waiting_s,
        dispatched_s=attempt.dispatched_at - started_at,
        first_byte_s=None if first is None else first - started_at,
        ended_s=attempt.ended_at - started_at,
        end=attempt.end,
        load_s=min(
            load_s(record, attempt), (attempt.ended_at if first is None else first) - attempt.dispatched_at
        ),
        output_tokens=record.usage.output_tokens if attempt is record.final else None,
    )


def _began_to_write(attempt: AttemptRecord, record: RequestRecord) -> float | None:
    """When its first byte came; of a reply in one piece, by how long its engine says that it wrote."""
    if record.is_streaming or attempt.first_byte_at is None:
        return attempt.first_byte_at
    wrote_s = record.usage.decode_s if attempt is record.final else None
    return None if wrote_s is None else max(attempt.ended_at - wrote_s, attempt.dispatched_at)


def _unplaced(record: RequestRecord, started_at: float) -> Unplaced:
    return Unplaced(
        record.id,
        record.model,
        record.arrived_at - started_at,
        record.ended_at - started_at,
        record.outcome.value,
    )
