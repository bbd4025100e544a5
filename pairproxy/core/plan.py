"""The virtual plan: what runs and is planned at each place, and when one more request would end there.

An engine is a shared machine: with c requests each gets the part ``1 / (1 + beta * (c - 1))`` of the rate it
would have alone (Rates.share). So all that decode advance alike, they end in the order of what is left of
them, each end makes the others faster and each arrival makes them slower. Work is counted in seconds alone on
the engine; what every request there has advanced by is one number, and adding a request costs O(slots).
"""

from bisect import bisect_right, insort
from collections.abc import Iterable
from typing import Final

from pairproxy.core.documents import ReplicaState
from pairproxy.core.models import Candidate, Place

BLOCK: Final = 16  # requests that are looked at together: where hundreds run, the sum of some is soon made
MIN_REMAINING_S: Final = 0.05  # a request that outlived its prediction still holds its slot


class Occupancy:
    """One engine from the moment on at which it has a free slot (``wait_s`` from now)."""

    def __init__(
        self,
        place: Place,
        slots: int,
        beta: float,
        ends: list[float] | None = None,
        reading: list[float] | None = None,
    ) -> None:
        """Of an engine where nothing runs; else as of_sorted says."""
        self._are_lent = ends is not None
        self.place = place
        self.slots = slots
        self.beta = beta
        self.in_flight = 0 if ends is None else len(ends)
        self.wait_s = 0.0
        self._ends = [] if ends is None else ends  # of what runs then: seconds alone, from now on, sorted
        self._advanced = 0.0  # seconds alone by which each has advanced when the slot is free
        self._reading = [] if reading is None else reading  # seconds of it left now, of what reads; sorted

    @classmethod
    def of(
        cls, place: Place, slots: int, beta: float, works: Iterable[float], reading: Iterable[float] = ()
    ) -> "Occupancy":
        """Build it from what is left of each that runs there, in seconds alone, and of these to read.

        More running than slots (somebody uses the engine directly) must end before a slot is ours.
        """
        ends = sorted([max(work, MIN_REMAINING_S) for work in works])
        return cls.of_sorted(place, slots, beta, ends, sorted(reading))

    @classmethod
    def of_sorted(
        cls, place: Place, slots: int, beta: float, ends: list[float], reading: list[float]
    ) -> "Occupancy":
        """The same of what is sorted already, and no shorter than MIN_REMAINING_S. The lists are lent."""
        made = cls(place, slots, beta, ends, reading)
        made._go_on()
        return made

    def lasts_s(self, before_s: float, alone_s: float) -> float:
        """Seconds from ``wait_s`` on until a request ends that decodes for ``alone_s`` after ``before_s``.

        Nobody else is taken to join it.
        """
        if not self._ends and not self._advanced:
            return before_s + alone_s  # it has the engine for itself from now on
        return self._seconds_until(self._advanced_by(before_s) + alone_s)

    def reading_s(self, own_s: float) -> float:
        """Seconds of reading a prompt that takes ``own_s`` alone, beside those that are read now."""
        reading = self._reading
        if not reading or self.wait_s > 0.0:
            return own_s
        if reading[-1] <= own_s:
            return own_s + sum(reading)
        shorter = bisect_right(reading, own_s)
        return own_s + sum(reading[:shorter]) + (len(reading) - shorter) * own_s

    def take(self, before_s: float, alone_s: float) -> None:
        """Put a request on the slot that is free first (as lasts_s says)."""
        end = self._advanced_by(before_s) + max(alone_s, MIN_REMAINING_S)
        self._own_lists()
        insort(self._ends, end)
        if self.wait_s <= 0.0:
            insort(self._reading, before_s)
        self.in_flight += 1
        self._go_on()

    def _own_lists(self) -> None:
        """Before any of them is changed: mostly a place is only asked."""
        if self._are_lent:
            self._ends, self._reading, self._are_lent = self._ends[:], self._reading[:], False

    def _go_on(self) -> None:
        """Let time pass until a slot is free."""
        if len(self._ends) < self.slots:
            return
        self._own_lists()
        ends = self._ends
        while len(ends) >= self.slots:
            slowness = 1.0 + self.beta * (len(ends) - 1)
            end = ends.pop(0)
            self.wait_s += (end - self._advanced) * slowness
            self._advanced = end

    def _seconds_until(self, level: float) -> float:
        """Seconds from ``wait_s`` on until each has advanced by ``level``, if one more joins.

        That one slows nobody but for its own share, and each of the others slows it until its own end. So
        they need not be gone through one by one: a sum over those that end before is all.
        """
        ends, own = self._ends, level - self._advanced
        ended = bisect_right(ends, level)
        others = sum(ends[:ended]) - ended * self._advanced + (len(ends) - ended) * own
        return own + self.beta * others

    def _advanced_by(self, seconds: float) -> float:
        """By how many seconds alone each has advanced ``seconds`` after wait_s, if one more joins."""
        ends, advanced, beta = self._ends, self._advanced, self.beta
        count = len(ends)
        level = advanced + seconds / (1.0 + beta * count)
        if not ends or level <= ends[0]:
            return level
        ended, total, last_s = self._blocks_ended(seconds)
        while ended < count:  # as _seconds_until reckons, and whoever ends with another goes with it
            end, with_it, more = ends[ended], ended, total
            while with_it < count and ends[with_it] == end:
                with_it, more = with_it + 1, more + end
            own = end - advanced
            until_s = own + beta * (more - with_it * advanced + (count - with_it) * own)
            if seconds < until_s:
                break
            ended, total, last_s = with_it, more, until_s
        return ends[ended - 1] + (seconds - last_s) / (1.0 + beta * (count - ended)) if ended else level

    def _blocks_ended(self, seconds: float) -> tuple[int, float, float]:
        """(how many have ended by then, their ends in sum, when the last did), but for the last few."""
        ends, advanced, count = self._ends, self._advanced, len(self._ends)
        ended, total, last_s = 0, 0.0, 0.0
        while ended + BLOCK <= count:
            with_it = ended + BLOCK
            more, own = sum(ends[ended:with_it], total), ends[with_it - 1] - advanced
            until_s = own + self.beta * (more - with_it * advanced + (count - with_it) * own)
            if seconds < until_s:
                break
            ended, total, last_s = with_it, more, until_s
        return ended, total, last_s


def price(
    occupancy: Occupancy,
    state: ReplicaState,
    prompt: int,
    output: float,
    cached: int = 0,
    *,
    is_part: bool = True,
    evicts: bool = False,
) -> Candidate:
    """What ``prompt`` tokens in and ``output`` out would cost where ``cached`` of the former are held.

    ``is_part``: of a burst, which is over when all of it is; else it is dear to hold up the others there.
    ``evicts``: somebody will want back what is thrown out for it: a place that loses nothing is better.
    """
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
        margin_s=load_s if evicts else 0.0,
        delay_s=0.0 if is_part else prefill_s - read_s,
        called=state.replica.called,
        cached_tokens=cached,
        alone_s=alone_s,
        read_s=read_s,
    )
