"""How far the model is off on what really happened, request by request, each in the company it had."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pairproxy.core.accounting.works import Places
from pairproxy.core.models import ModelName, Place, Rates
from pairproxy.core.simulated_gpu import Phase, Reached, SimulatedGpu
from pairproxy.core.whatif.pieces import Piece

FEWEST = 3  # requests of a place by which its speed is corrected: one may have been disturbed
MOST_CORRECTED = 2.0  # times: what is further off is not the same machine as before
MOST_CHECKED = 64  # requests, evenly spread: more would hardly change the mean error, only take seconds


def model_error(pieces: Sequence[Piece], places: Places) -> float | None:
    """The sum of what each is off by over the sum of what each took.

    So that too long here and too short there do not cancel out. None if a place is no longer known.
    """
    if any(piece.model not in places.get(piece.place, (0, {}))[1] for piece in pieces):
        return None
    times = _times(pieces, places)
    really_s = sum(time.real_s for time in times)
    off_s = sum(abs(time.modelled_s - time.real_s) for time in times)
    return off_s / really_s if really_s > 0.0 else None


def as_in_the_run(pieces: Sequence[Piece], places: Places) -> Places:
    """The places as fast as they were in the run: what was learned may lag behind, or run ahead.

    All rates of a place are multiplied alike, by at most MOST_CORRECTED, so that the times of its requests
    add up to what they took. A place with fewer than FEWEST requests stays as it was.
    """
    known = [piece for piece in pieces if piece.model in places.get(piece.place, (0, {}))[1]]
    there: dict[Place, list[_Time]] = {}
    for time in _times(known, places):
        there.setdefault(time.place, []).append(time)
    corrected = {**places}
    for place, times in there.items():
        real_s = sum(time.real_s for time in times)
        if len(times) >= FEWEST and real_s > 0.0:
            by = sum(time.modelled_s for time in times) / real_s
            by = min(max(by, 1.0 / MOST_CORRECTED), MOST_CORRECTED)
            slots, rates = places[place]
            corrected[place] = (
                slots,
                {
                    model: replace(one, prefill=one.prefill * by, decode=one.decode * by)
                    for model, one in rates.items()
                },
            )
    return corrected


class _Time(NamedTuple):
    """How long a request held its slot, by the model and really."""

    place: Place
    modelled_s: float
    real_s: float


def _times(pieces: Sequence[Piece], places: Places) -> list[_Time]:
    """Of at most MOST_CHECKED pieces, evenly spread."""
    checked = _companies(pieces)[:: max(len(pieces) // MOST_CHECKED, 1)]
    return [
        _Time(
            piece.place,
            _end_in_company(piece, company, places[piece.place][1]) - piece.dispatched_at,
            piece.ended_at - piece.dispatched_at,
        )
        for piece, company in checked
    ]


def _companies(pieces: Sequence[Piece]) -> list[tuple[Piece, list[Piece]]]:
    """Each piece with those that ran at its place at the same time."""
    found: list[tuple[Piece, list[Piece]]] = []
    there: dict[Place, list[tuple[Piece, list[Piece]]]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.dispatched_at):
        active = [one for one in there.get(piece.place, []) if one[0].ended_at > piece.dispatched_at]
        for _, company in active:
            company.append(piece)
        found.append((piece, [other for other, _ in active]))
        there[piece.place] = [*active, found[-1]]
    return found


def _end_in_company(piece: Piece, company: Sequence[Piece], rates: Mapping[ModelName, Rates]) -> float:
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


def _until_idle(gpu: SimulatedGpu) -> list[Reached]:
    """Every end of a phase until nothing runs."""
    reached: list[Reached] = []
    while (change := gpu.next_change()) is not None:
        reached += gpu.advance(change)
    return reached
