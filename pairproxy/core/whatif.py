"""What if one node had done it alone: the modelled T1 of a recorded run.

Each request is replayed as it arrived, with the tokens it really had, on a GPU with the speeds the node is
known to have; in the order of arrival, at most the node's slots at once. What the run found in caches counts
as found: one node alone might have found more or less.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pairproxy.core.accounting.alone import T1
from pairproxy.core.accounting.runs import Run
from pairproxy.core.models import AttemptId, ModelName, NodeId, Outcome, Place, Rates
from pairproxy.core.simulated_gpu import Phase, Reached, SimulatedGpu

Places = Mapping[Place, tuple[int, Mapping[ModelName, Rates]]]
"""Each place with its slots, and its rates for every model it holds."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """One recorded request as work: tokens that were really read and written, and when it ran where."""

    attempt: AttemptId
    model: ModelName
    prompt: int
    output: int
    arrived_at: float
    place: Place
    dispatched_at: float
    ended_at: float

    def seconds(self, rates: Rates) -> float:
        """On an engine of its own."""
        return self.prompt / rates.prefill + self.output / rates.decode

    def start(self, gpu: SimulatedGpu, at: float, rates: Rates) -> None:
        """Run it there, the model being loaded: loading is what a warm node would not do."""
        gpu.start(at, self.attempt, self.model, replace(rates, load_s=0.0), self.prompt, self.output)


def best_single_node(run: Run, places: Places) -> T1 | None:
    """T1 on the node that would have done the run soonest alone.

    None if no node can be modelled: none holds all models of the run, or a reply that was served said
    nothing of its tokens.
    """
    nodes = dict.fromkeys(place.node for place in places)
    modelled = [t1 for node in nodes if (t1 := modelled_t1(run, node, places)) is not None]
    return min(modelled, key=lambda t1: t1.value_s, default=None)


def modelled_t1(run: Run, node: NodeId, places: Places) -> T1 | None:
    """The makespan of the run's served requests on one node alone, all of its engines or its best one.

    ``model_error`` is that of the same model on the run as it happened. None as in best_single_node.
    """
    pieces = _pieces(run)
    own = {place: known for place, known in places.items() if place.node == node}
    choices = [own, *({place: known} for place, known in own.items())] if len(own) > 1 else [own]
    able = [
        choice
        for choice in choices
        if all(any(piece.model in rates for _, rates in choice.values()) for piece in pieces)
    ]
    if not pieces or not able:
        return None
    value_s = min(_Replay(choice).makespan_s(pieces) for choice in able)
    return T1(value_s, "modelled", node, _model_error(pieces, places))


def _pieces(run: Run) -> list[_Piece]:
    """The served requests by arrival; none at all if one of them cannot be modelled."""
    pieces = []
    for record in run.records:
        usage, final = record.usage, record.final
        if record.outcome is not Outcome.DONE or final is None:
            continue
        if not usage.prompt_tokens and not usage.output_tokens:
            return []
        pieces.append(
            _Piece(
                attempt=AttemptId(record.id, final.number),
                model=record.model,
                prompt=max((usage.prompt_tokens or 0) - (usage.cached_tokens or 0), 0),
                output=usage.output_tokens or 0,
                arrived_at=record.arrived_at,
                place=final.place,
                dispatched_at=final.dispatched_at,
                ended_at=record.ended_at,
            )
        )
    return sorted(pieces, key=lambda piece: piece.arrived_at)


class _Replay:
    """Pieces on the GPUs of one node."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._gpus = {place: SimulatedGpu(slots) for place, (slots, _) in places.items()}
        self._queues: dict[ModelName, deque[_Piece]] = {}

    def makespan_s(self, pieces: Sequence[_Piece]) -> float:
        """From the first arrival to the last end. Each piece begins once a slot that may have it is free."""
        for piece in pieces:
            self._queues.setdefault(piece.model, deque()).append(piece)
        at = pieces[0].arrived_at
        while any(self._queues.values()):
            for gpu in self._gpus.values():
                gpu.advance(at)
            if not self._begin_one(at):
                at = self._next_time(at)
        return max(_last_end(gpu) for gpu in self._gpus.values()) - pieces[0].arrived_at

    def _begin_one(self, at: float) -> bool:
        """Begin the piece that waits longest of those that can begin; False: none can."""
        heads = [queue for queue in self._queues.values() if queue and queue[0].arrived_at <= at]
        for queue in sorted(heads, key=lambda queue: queue[0].arrived_at):
            free = [
                place
                for place, (slots, rates) in self._places.items()
                if queue[0].model in rates and self._gpus[place].in_flight < slots
            ]
            if free:
                piece = queue.popleft()
                place = min(free, key=lambda place: piece.seconds(self._places[place][1][piece.model]))
                piece.start(self._gpus[place], at, self._places[place][1][piece.model])
                return True
        return False

    def _next_time(self, at: float) -> float:
        """When a slot may come free, or a piece arrive."""
        changes = [change for gpu in self._gpus.values() if (change := gpu.next_change()) is not None]
        arrivals = [queue[0].arrived_at for queue in self._queues.values() if queue]
        return min([*changes, *(arrival for arrival in arrivals if arrival > at)])


def _model_error(pieces: Sequence[_Piece], places: Places) -> float | None:
    """How far off the model is on what really happened, request by request, each in the company it had.

    The sum of what each is off by over the sum of what each took, so that too long here and too short there
    do not cancel out. None if a place is no longer known.
    """
    if any(piece.model not in places.get(piece.place, (0, {}))[1] for piece in pieces):
        return None
    really_s = sum(piece.ended_at - piece.dispatched_at for piece in pieces)
    off_s = sum(
        abs(_end_in_company(piece, company, places[piece.place][1]) - piece.ended_at)
        for piece, company in _companies(pieces)
    )
    return off_s / really_s if really_s > 0.0 else None


def _companies(pieces: Sequence[_Piece]) -> list[tuple[_Piece, list[_Piece]]]:
    """Each piece with those that ran at its place at the same time."""
    found: list[tuple[_Piece, list[_Piece]]] = []
    there: dict[Place, list[tuple[_Piece, list[_Piece]]]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.dispatched_at):
        active = [one for one in there.get(piece.place, []) if one[0].ended_at > piece.dispatched_at]
        for _, company in active:
            company.append(piece)
        found.append((piece, [other for other, _ in active]))
        there[piece.place] = [*active, found[-1]]
    return found


def _end_in_company(piece: _Piece, company: Sequence[_Piece], rates: Mapping[ModelName, Rates]) -> float:
    """When a piece ends on the model, while the others begin and end as they really did."""
    gpu = SimulatedGpu(len(company) + 1)
    starts = [(one.dispatched_at, True, one) for one in (piece, *company)]
    ends = [(one.ended_at, False, one) for one in company]
    reached: list[Reached] = []
    for at, is_start, one in sorted([*starts, *ends], key=lambda change: change[:2]):
        reached += gpu.advance(at)
        if is_start:
            one.start(gpu, at, rates[one.model])
        else:
            gpu.stop(one.attempt)
    reached += _until_idle(gpu)
    return next(one.at for one in reached if one.attempt == piece.attempt and one.phase is Phase.DECODE)


def _last_end(gpu: SimulatedGpu) -> float:
    """When all that runs has ended; -inf if nothing does."""
    return max((one.at for one in _until_idle(gpu)), default=-math.inf)


def _until_idle(gpu: SimulatedGpu) -> list[Reached]:
    """Every end of a phase until nothing runs."""
    reached: list[Reached] = []
    while (change := gpu.next_change()) is not None:
        reached += gpu.advance(change)
    return reached
