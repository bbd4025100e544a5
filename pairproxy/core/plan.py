"""The virtual plan: when each place will be free, and what a request would cost there, in seconds."""

import heapq
from dataclasses import dataclass

from pairproxy.core.documents import ReplicaState
from pairproxy.core.models import Candidate, Place


@dataclass(slots=True)
class Occupancy:
    """The slots of one place: seconds from now until each is free, as a heap."""

    place: Place
    free_in_s: list[float]
    in_flight: int

    @classmethod
    def of(cls, place: Place, slots: int, busy_s: list[float]) -> "Occupancy":
        """Build it from the remaining seconds of what runs there now.

        More running than slots (somebody uses the engine directly) leaves every slot busy.
        """
        busy = sorted(max(seconds, MIN_REMAINING_S) for seconds in busy_s)
        free = [0.0] * max(slots - len(busy), 0) + busy[max(len(busy) - slots, 0) :]
        heapq.heapify(free)
        return cls(place, free, len(busy))

    @property
    def slots(self) -> int:
        """How many it has."""
        return len(self.free_in_s)

    @property
    def wait_s(self) -> float:
        """Seconds until a slot is free; 0.0 = now."""
        return self.free_in_s[0]

    def take(self, service_s: float) -> None:
        """Put a request on the slot that is free first."""
        heapq.heapreplace(self.free_in_s, self.free_in_s[0] + service_s)
        self.in_flight += 1


MIN_REMAINING_S = 0.05  # a request that outlived its prediction still holds its slot


def price(
    occupancy: Occupancy,
    state: ReplicaState,
    prompt: int,
    output: float,
    long_output: float,
    cached: int = 0,
) -> Candidate:
    """What ``prompt`` tokens in and ``output`` tokens out would cost where ``cached`` of the former are held.

    ``long_output`` is the length that hardly any reply exceeds; what it costs more is the candidate's margin.
    """
    rates = state.rates
    company = min(occupancy.in_flight, occupancy.slots - 1) + 1
    rate = rates.decode * rates.share(company)
    return Candidate(
        place=occupancy.place,
        wait_s=occupancy.wait_s,
        load_s=0.0 if state.is_loaded else rates.load_s,
        prefill_s=(prompt - cached) / rates.prefill,
        decode_s=output / rate,
        in_flight=occupancy.in_flight,
        slots=occupancy.slots,
        margin_s=(long_output - output) / rate,
        called=state.replica.called,
        cached_tokens=cached,
    )
