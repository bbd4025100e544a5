"""Where the time went that no schedule would have needed: seconds that add up to makespan - lower bound.

All nodes together can do so much in a second; each node's part of that is its weight. What a node lost for
some time costs the run its weight times that time (the area of a Gantt chart, divided by the capacity). Idle
time that no schedule avoids is in the lower bound already: where the causes come to more than was lost,
all are shortened alike. What is left when they come to less is work that took longer than the best pace seen,
or went where it took longer than predicted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

from pairproxy.core.accounting.chains import size
from pairproxy.core.accounting.paces import cached_of
from pairproxy.core.accounting.records import AttemptRecord, RequestRecord
from pairproxy.core.accounting.runs import Run
from pairproxy.core.accounting.works import Places, Work, speeds_of
from pairproxy.core.models import ModelName, Place, Rates

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Losses:
    """Seconds of the makespan, none negative. Their sum is makespan - lower bound."""

    tail_idle_s: float = 0.0  # slots without work while nothing waited: at the end, and while tools ran
    cold_load_s: float = 0.0  # loading models
    duplicated_prefill_s: float = 0.0  # reading what had been read before, on another node or twice
    waiting_by_plan_s: float = 0.0  # slots without work while requests waited for a better place
    transport_s: float = 0.0  # between the engine's own time and ours
    rescue_waste_s: float = 0.0  # attempts that led to nothing
    prediction_error_s: float = 0.0  # the rest: slower than the best pace seen, or the wrong place

    @property
    def total_s(self) -> float:
        """All of them."""
        return sum(seconds for _, seconds in self.items())

    @property
    def largest(self) -> tuple[str, float]:
        """Name and seconds of the largest, the first of equal ones."""
        return max(self.items(), key=lambda item: item[1])

    def items(self) -> Iterator[tuple[str, float]]:
        """Name and seconds of each."""
        for cause in fields(self):
            yield cause.name, getattr(self, cause.name)


IN_WORDS: dict[str, str] = {
    "tail_idle_s": "idle with nothing to do",
    "cold_load_s": "loading models",
    "duplicated_prefill_s": "reading prompts twice",
    "waiting_by_plan_s": "idle by plan while requests waited",
    "transport_s": "on the way",
    "rescue_waste_s": "attempts for nothing",
    "prediction_error_s": "slower than the best pace, or the wrong place",
}
"""What a person calls each of them."""


def split(run: Run, works: Sequence[Work], places: Places, lost_s: float) -> Losses:
    """Say where ``lost_s`` seconds (makespan - lower bound, not negative) of a run went.

    ``works`` are those of its served records (works_of), ``places`` with the rates that the bound has.
    """
    weights = _weights(works, places)
    idle_s, waiting_s = 0.0, 0.0
    for place, weight in weights.items():
        tail, planned = _idle(run, place, places[place])
        idle_s += weight * tail
        waiting_s += weight * planned
    attempts = [
        (record, attempt, weights[attempt.place] / places[attempt.place][0])
        for record in run.records
        for attempt in record.attempts
        if attempt.place in weights
    ]
    causes = {
        "tail_idle_s": idle_s,
        "cold_load_s": sum(part * load_s(record, attempt) for record, attempt, part in attempts),
        "duplicated_prefill_s": _read_twice(run, works, places, weights),
        "waiting_by_plan_s": waiting_s,
        "transport_s": sum(part * _transport_s(record, attempt) for record, attempt, part in attempts),
        "rescue_waste_s": sum(
            part * (attempt.ended_at - attempt.dispatched_at)
            for record, attempt, part in attempts
            if not attempt.is_broken and (attempt is not record.final or not attempt.is_served)
        ),
    }
    return _fitted(causes, max(lost_s, 0.0))


def _fitted(causes: Mapping[str, float], lost_s: float) -> Losses:
    """Shorten the causes to what was lost, or call the rest prediction error."""
    found_s = sum(causes.values())
    scale = min(1.0, lost_s / found_s) if found_s > 0.0 else 0.0
    fitted = {cause: seconds * scale for cause, seconds in causes.items()}
    return Losses(**fitted, prediction_error_s=max(lost_s - sum(fitted.values()), 0.0))


def _weights(works: Sequence[Work], places: Places) -> dict[Place, float]:
    """Each place's part of what all that hold a model of the run can do of its mean request; sums to 1."""
    speeds = speeds_of(works, places)
    total = sum(speeds.values())
    return {place: speed / total for place, speed in speeds.items()}


def _idle(run: Run, place: Place, known: tuple[int, Mapping[ModelName, Rates]]) -> tuple[float, float]:
    """Seconds of the whole place that were idle: while nothing waited, and while something did."""
    slots, rates = known
    curve = next(iter(rates.values()))
    full = slots * curve.share(slots)
    changes = [(run.started_at, 0, 0), (run.ended_at, 0, 0)]
    for record in run.records:
        for start, end in _waits(record):
            changes += [(start, 0, 1), (end, 0, -1)]
        for attempt in record.attempts:
            if attempt.place == place:
                changes += [(attempt.dispatched_at, 1, 0), (attempt.ended_at, -1, 0)]
    running, waiting = 0, 0
    tail_s = planned_s = 0.0
    for (at, started, queued), (until, _, _) in pairwise(sorted(changes)):
        running, waiting = running + started, waiting + queued
        idle_s = (until - at) * max(1.0 - running * curve.share(running) / full, 0.0)
        if waiting > 0:
            planned_s += idle_s
        else:
            tail_s += idle_s
    return tail_s, planned_s


def _waits(record: RequestRecord) -> Iterator[Interval]:
    """When a request was in the queue."""
    since = record.arrived_at
    for attempt in sorted(record.attempts, key=lambda attempt: attempt.dispatched_at):
        if attempt.dispatched_at > since:
            yield since, attempt.dispatched_at
        since = max(since, attempt.ended_at)
    if record.ended_at > since:
        yield since, record.ended_at


def load_s(record: RequestRecord, attempt: AttemptRecord) -> float:
    """Seconds of an attempt that went into loading: as told, else as predicted; no more than it ran."""
    told = record.usage.load_s if attempt is record.final else None
    predicted = attempt.priced.load_s if attempt.priced else 0.0
    return min(predicted if told is None else told, attempt.ended_at - attempt.dispatched_at)


def _transport_s(record: RequestRecord, attempt: AttemptRecord) -> float:
    """Seconds of the final attempt in which its engine did not work on it, where the engine tells its own."""
    usage = record.usage
    if attempt is not record.final or usage.prefill_s is None or usage.decode_s is None:
        return 0.0
    worked_s = usage.prefill_s + usage.decode_s + load_s(record, attempt)
    return max(attempt.ended_at - attempt.dispatched_at - worked_s, 0.0)


def _read_twice(run: Run, works: Sequence[Work], places: Places, weights: Mapping[Place, float]) -> float:
    """Seconds for reading more than had to be read."""
    served = [record for record in run.records if record.final and record.final.is_served]
    extra_s, seconds_per_token = 0.0, []
    for record, work in zip(served, works, strict=False):
        place = record.place
        if place is None or place not in weights or not record.prefix:
            continue
        seconds_per_token.append(weights[place] / places[place][1][record.model].prefill)
        extra_s += max(size(record) - cached_of(record) - work.read_tokens, 0.0) * seconds_per_token[-1]
    shared = sum(work.read_tokens for work in works[len(served) :])
    if not seconds_per_token:
        return 0.0
    return max(extra_s - shared * sum(seconds_per_token) / len(seconds_per_token), 0.0)
