"""Which places are left alone for a while, and for how long."""

from dataclasses import dataclass

from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import PairproxyError, SlotsTaken, UpstreamBusy
from pairproxy.core.models import NodeId, Place

HOLD_BACK_S = 0.25  # after a refusal without news: one promise time, so that a fresh state can arrive
BUSY_HOLD_S = 1.0  # after an engine said 503: what its Retry-After usually says
AVOID_FIRST_S = 1.0  # a place that failed is left alone for this long, doubling with each failure ...
AVOID_LONGEST_S = 30.0  # ... up to this, so that a node that came back is used within half a minute


@dataclass(slots=True)
class _Avoided:
    until: float
    failures: int


class Avoidance:
    """Places that refused (held back for a moment) or failed (avoided for a growing time)."""

    def __init__(self) -> None:
        self._avoided: dict[Place, _Avoided] = {}

    def blame(self, place: Place, error: PairproxyError, at: float) -> None:
        """Note that an attempt at a place ended with ``error`` before its first byte."""
        known = self._avoided.get(place)
        failures = known.failures if known else 0
        if isinstance(error, SlotsTaken):
            self._avoid(place, at + HOLD_BACK_S, failures)
        elif isinstance(error, UpstreamBusy):
            self._avoid(place, at + BUSY_HOLD_S, failures)
        else:
            avoid_s = min(AVOID_FIRST_S * 2.0**failures, AVOID_LONGEST_S)
            self._avoid(place, at + avoid_s, failures + 1)

    def _avoid(self, place: Place, until: float, failures: int) -> None:
        """Never shorter than what is avoided already."""
        known = self._avoided.get(place)
        self._avoided[place] = _Avoided(max(until, known.until) if known else until, failures)

    def forgive(self, place: Place) -> None:
        """A reply began there: the place works."""
        self._avoided.pop(place, None)

    def hear(self, document: StateDocument, reader: NodeId) -> None:
        """Fresh news of a slot that is free for the reader end a hold-back, not an avoidance."""
        for engine in document.engines:
            place = Place(document.node, engine.engine)
            avoided = self._avoided.get(place)
            kept = sum(promise.origin != reader for promise in engine.promises)
            if avoided is not None and avoided.failures == 0 and engine.in_flight + kept < engine.slots:
                del self._avoided[place]

    def is_avoided(self, place: Place, at: float) -> bool:
        """Whether the place is left alone now, for whatever reason."""
        avoided = self._avoided.get(place)
        return avoided is not None and avoided.until > at

    def is_held_back(self, place: Place, at: float) -> bool:
        """Whether it only said "not now": it is not even a last resort until then, but may be waited for."""
        return self.is_avoided(place, at) and self._avoided[place].failures == 0

    def held_back_s(self, place: Place, at: float) -> float:
        """For how long it goes on to say "not now": it is busy until then; 0.0: it does not."""
        avoided = self._avoided.get(place)
        return avoided.until - at if avoided is not None and self.is_held_back(place, at) else 0.0

    def next_end(self, at: float) -> float | None:
        """When the next place may be used again."""
        return min((one.until for one in self._avoided.values() if one.until > at), default=None)
