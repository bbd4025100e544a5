"""A GPU on a virtual clock: running requests share it, and their work is accounted for whenever that changes.

Each request is loaded (once per model), then read, then answered. Those that are being read share the prefill
rate equally; with c requests running, each of those that are being answered gets ``decode * share(c)``
tokens/s. The paced engine does the same in real time.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from pairproxy.core.models import AttemptId, ModelName, Rates

INSTANT_S = 1e-9  # sooner than this is now: rounding must not leave crumbs of work


class Phase(IntEnum):
    """What a running request is at."""

    LOAD = 0
    PREFILL = 1
    DECODE = 2


class Reached(NamedTuple):
    """A request came to the end of a phase; the end of DECODE is the end of its reply."""

    at: float
    attempt: AttemptId
    phase: Phase


@dataclass(slots=True)
class _Work:
    rates: Rates
    left: list[float]  # per phase: seconds, tokens, tokens
    phase: Phase = Phase.LOAD


class SimulatedGpu:
    """One engine's machine. Times are seconds on the virtual clock and never go back."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.most_in_flight = 0
        self._works: dict[AttemptId, _Work] = {}
        self._loaded_at: dict[ModelName, float] = {}
        self._at = float("-inf")

    @property
    def in_flight(self) -> int:
        """Requests running now."""
        return len(self._works)

    def preload(self, at: float, model: ModelName) -> None:
        """Let the model be in memory from ``at`` on."""
        self._loaded_at[model] = at

    def is_loaded(self, at: float, model: ModelName) -> bool:
        """Whether the model is in memory."""
        return model in self._loaded_at and self._loaded_at[model] <= at + INSTANT_S

    def start(
        self, at: float, attempt: AttemptId, model: ModelName, rates: Rates, prompt: float, output: float
    ) -> None:
        """Begin a request of ``prompt`` tokens in and ``output`` tokens out; call advance(at) before.

        Raises RuntimeError when no slot is free: whoever hands over more than the slots has a fault.
        """
        if len(self._works) >= self.slots:
            raise RuntimeError(f"an engine of {self.slots} slots was given one more request: {attempt}")
        self._at = max(self._at, at)
        loaded_at = self._loaded_at.setdefault(model, at + rates.load_s)
        self._works[attempt] = _Work(rates, [max(loaded_at - at, 0.0), prompt, output])
        self.most_in_flight = max(self.most_in_flight, len(self._works))

    def runs(self, attempt: AttemptId) -> bool:
        """Whether a request is in one of the slots."""
        return attempt in self._works

    def stop(self, attempt: AttemptId) -> None:
        """Drop a request, if it still runs. Call advance() before."""
        self._works.pop(attempt, None)

    def next_change(self) -> float | None:
        """When the next request comes to the end of a phase; None: nothing runs."""
        reading = self._reading()
        left = [work.left[work.phase] / self._speed(work, reading) for work in self._works.values()]
        return self._at + max(min(left), 0.0) if left else None

    def advance(self, at: float) -> list[Reached]:
        """Work until ``at``; returns every end of a phase on the way, in order."""
        reached: list[Reached] = []
        while (change := self.next_change()) is not None and change <= at + INSTANT_S:
            self._work_until(change)
            reached += self._end_phases()
        self._work_until(at)
        return reached

    def _reading(self) -> int:
        return sum(work.phase is Phase.PREFILL for work in self._works.values())

    def _speed(self, work: _Work, reading: int) -> float:
        """Units of its phase per second."""
        if work.phase is Phase.LOAD:
            return 1.0
        if work.phase is Phase.PREFILL:
            return work.rates.prefill / reading
        return work.rates.decode * work.rates.share(len(self._works))

    def _work_until(self, at: float) -> None:
        if not self._works:
            self._at = at
        passed, self._at = max(at - self._at, 0.0), max(at, self._at)
        reading = self._reading()
        for work in self._works.values():
            work.left[work.phase] -= passed * self._speed(work, reading)

    def _end_phases(self) -> list[Reached]:
        reading = self._reading()
        ended = [
            (attempt, work)
            for attempt, work in self._works.items()
            if work.left[work.phase] / self._speed(work, reading) <= INSTANT_S
        ]
        reached = [Reached(self._at, attempt, work.phase) for attempt, work in ended]
        for attempt, work in ended:
            if work.phase is Phase.DECODE:
                del self._works[attempt]
            else:
                work.phase = Phase(work.phase + 1)
        return reached
