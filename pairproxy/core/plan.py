"""The virtual plan: what runs and is planned at each place, and when one more request would end there.

An engine is a shared machine: with c requests each gets the part ``1 / (1 + beta * (c - 1))`` of the rate it
would have alone (Rates.share). So all that decode advance alike, they end in the order of what is left of
them, each end makes the others faster and each arrival makes them slower. Work is counted in seconds alone on
the engine; what every request there has advanced by is one number, and adding a request costs O(slots).
"""

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from pairproxy.core.documents import ReplicaState
from pairproxy.core.models import Candidate, Place

MIN_REMAINING_S = 0.05  # a request that outlived its prediction still holds its slot


@dataclass(slots=True)
class Occupancy:
    """One engine from the moment on at which it has a free slot (``wait_s`` from now)."""

    place: Place
    slots: int
    beta: float
    in_flight: int
    wait_s: float = 0.0
    _ends: list[float] = field(default_factory=list)  # of what runs then: seconds alone, from now on, sorted
    _advanced: float = 0.0  # seconds alone by which each has advanced when the slot is free
    _reading: list[float] = field(default_factory=list)  # seconds of reading left now, of what reads now
    _times: list[float] | None = None  # of _ends: seconds from wait_s on, if one more joins and none after

    @classmethod
    def of(
        cls, place: Place, slots: int, beta: float, works: Iterable[float], reading: Iterable[float] = ()
    ) -> "Occupancy":
        """Build it from what is left of each that runs there, in seconds alone, and of these to read.

        More running than slots (somebody uses the engine directly) must end before a slot is ours.
        """
        ends = sorted(max(work, MIN_REMAINING_S) for work in works)
        made = cls(place, slots, beta, len(ends), _ends=ends, _reading=list(reading))
        made._go_on()
        return made

    def lasts_s(self, before_s: float, alone_s: float) -> float:
        """Seconds from ``wait_s`` on until a request ends that decodes for ``alone_s`` after ``before_s``.

        Nobody else is taken to join it.
        """
        ends, times = self._ends, self._curve() if self._times is None else self._times
        target = self._advanced_by(before_s, times) + alone_s
        index = bisect_right(ends, target)
        seconds, advanced = (times[index - 1], ends[index - 1]) if index else (0.0, self._advanced)
        return seconds + (target - advanced) * (1.0 + self.beta * (len(ends) - index))

    def reading_s(self, own_s: float) -> float:
        """Seconds of reading a prompt that takes ``own_s`` alone, beside those that are read now."""
        return own_s + sum(min(other, own_s) for other in self._reading) if self.wait_s <= 0.0 else own_s

    def take(self, before_s: float, alone_s: float) -> None:
        """Put a request on the slot that is free first (as lasts_s says)."""
        insort(self._ends, self._advanced_by(before_s, self._curve()) + max(alone_s, MIN_REMAINING_S))
        if self.wait_s <= 0.0:
            self._reading.append(before_s)
        self.in_flight += 1
        self._go_on()

    def _go_on(self) -> None:
        """Let time pass until a slot is free."""
        ends = self._ends
        while len(ends) >= self.slots:
            slowness = self._slowness(len(ends))
            end = ends.pop(0)
            self.wait_s += (end - self._advanced) * slowness
            self._advanced = end
        self._times = None

    def _slowness(self, company: int) -> float:
        return 1.0 + self.beta * (company - 1)

    def _curve(self) -> list[float]:
        if self._times is None:
            self._times, seconds, advanced = [], 0.0, self._advanced
            for index, end in enumerate(self._ends):
                seconds += (end - advanced) * self._slowness(len(self._ends) - index + 1)
                advanced = end
                self._times.append(seconds)
        return self._times

    def _advanced_by(self, seconds: float, times: list[float]) -> float:
        """By how many seconds alone each has advanced ``seconds`` after wait_s, if one more joins."""
        ends = self._ends
        index = bisect_right(times, seconds)
        since, advanced = (times[index - 1], ends[index - 1]) if index else (0.0, self._advanced)
        return advanced + (seconds - since) / (1.0 + self.beta * (len(ends) - index))


def price(
    occupancy: Occupancy,
    state: ReplicaState,
    prompt: int,
    output: float,
    cached: int = 0,
) -> Candidate:
    """What ``prompt`` tokens in and ``output`` out would cost where ``cached`` of the former are held."""
    rates = state.rates
    load_s = 0.0 if state.is_loaded else rates.load_s
    read_s = (prompt - cached) / rates.prefill
    prefill_s = occupancy.reading_s(read_s)
    alone_s = output / rates.decode
    lasts_s = occupancy.lasts_s(load_s + prefill_s, alone_s)
    return Candidate(
        place=occupancy.place,
        wait_s=occupancy.wait_s,
        load_s=load_s,
        prefill_s=prefill_s,
        decode_s=lasts_s - load_s - prefill_s,
        in_flight=occupancy.in_flight,
        slots=occupancy.slots,
        called=state.replica.called,
        cached_tokens=cached,
        alone_s=alone_s,
        read_s=read_s,
    )
