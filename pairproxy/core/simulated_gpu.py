"""A GPU on a virtual clock: running requests share it, and their work is accounted for whenever that changes.

Each request is loaded (once per model), then read, then answered. Those that are being read share the prefill
rate equally; with c requests running, each of those that are being answered gets ``decode * share(c)``
tokens/s. The paced engine does the same in real time. With ``interference`` above 1, reading and writing slow
each other by that factor while both go on, as published for engines without chunked prefill (1.5 is usual).

What the prefix cache holds of a prompt when its reading begins is not read again, but for one token at least.
A prompt counts as cached once it was read, and with its reply once that ended.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from pairproxy.core.models import AttemptId, ModelName, Rates
from pairproxy.core.simulated_cache import SimulatedCache

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
    cached_tokens: int = 0  # of its prompt, known once its model is loaded


@dataclass(slots=True)
class _Work:
    rates: Rates
    left: list[float]  # per phase: seconds, tokens, tokens
    blocks: Sequence[int] = ()
    reply_blocks: Sequence[int] = ()
    phase: Phase = Phase.LOAD
    cached_tokens: int = 0


class SimulatedGpu:
    """One engine's machine. Times are seconds on the virtual clock and never go back.

    ``cache_tokens``: the room of its prefix cache; None: it has none.
    """

    def __init__(self, slots: int, cache_tokens: int | None = None, interference: float = 1.0) -> None:
        self.slots = slots
        self._cache = None if cache_tokens is None else SimulatedCache(cache_tokens)
        self._interference = interference
        self._pace = 1.0
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
        self,
        at: float,
        attempt: AttemptId,
        model: ModelName,
        rates: Rates,
        prompt: float,
        output: float,
        blocks: Sequence[int] = (),
        reply_blocks: Sequence[int] = (),
    ) -> None:
        """Begin a request of ``prompt`` tokens in and ``output`` tokens out; call advance(at) before.

        ``blocks``: the prompt's, ``reply_blocks``: those that the reply completes after them. Raises
        RuntimeError when no slot is free: whoever hands over more than the slots has a fault.
        """
        if len(self._works) >= self.slots:
            raise RuntimeError(f"an engine of {self.slots} slots was given one more request: {attempt}")
        self._at = max(self._at, at)
        loaded_at = self._loaded_at.setdefault(model, at + rates.load_s)
        left = [max(loaded_at - at, 0.0), prompt, output]
        self._works[attempt] = _Work(rates, left, blocks, reply_blocks)
        self.most_in_flight = max(self.most_in_flight, len(self._works))

    def runs(self, attempt: AttemptId) -> bool:
        """Whether a request is in one of the slots."""
        return attempt in self._works

    def stop(self, attempt: AttemptId) -> None:
        """Drop a request, if it still runs. Call advance() before."""
        self._works.pop(attempt, None)
        if self._cache is not None:
            self._cache.release(attempt)

    def set_pace(self, pace: float) -> None:
        """Work at ``pace`` times the rates from now on: somebody uses the machine. Call advance() before."""
        self._pace = pace

    def next_change(self) -> float | None:
        """When the next request comes to the end of a phase; None: nothing runs."""
        if not self._works:
            return None
        speed = self._speeds()
        left = min(work.left[work.phase] / speed(work) for work in self._works.values())
        return self._at + max(left, 0.0)

    def advance(self, at: float) -> list[Reached]:
        """Work until ``at``; returns every end of a phase on the way, in order."""
        reached: list[Reached] = []
        while (change := self.next_change()) is not None and change <= at + INSTANT_S:
            self._work_until(change)
            reached += self._end_phases()
        self._work_until(at)
        return reached

    def _speeds(self) -> Callable[[_Work], float]:
        """Units of its phase per second, for each request that runs now."""
        reading = sum(work.phase is Phase.PREFILL for work in self._works.values())
        is_writing = any(work.phase is Phase.DECODE for work in self._works.values())
        pace = self._pace / (self._interference if reading and is_writing else 1.0)
        running = len(self._works)

        def speed(work: _Work) -> float:
            if work.phase is Phase.LOAD:
                return 1.0
            if work.phase is Phase.PREFILL:
                return work.rates.prefill / reading * pace
            return work.rates.decode * work.rates.share(running) * pace

        return speed

    def _work_until(self, at: float) -> None:
        if not self._works:
            self._at = at
            return
        passed, self._at = max(at - self._at, 0.0), max(at, self._at)
        if passed > 0.0:
            speed = self._speeds()
            for work in self._works.values():
                work.left[work.phase] -= passed * speed(work)

    def _end_phases(self) -> list[Reached]:
        speed = self._speeds()
        ended = [
            (attempt, work)
            for attempt, work in self._works.items()
            if work.left[work.phase] / speed(work) <= INSTANT_S
        ]
        return [self._end_phase(attempt, work) for attempt, work in ended]

    def _end_phase(self, attempt: AttemptId, work: _Work) -> Reached:
        """Let a request come to its next phase, or end."""
        ended = work.phase
        if ended is Phase.DECODE:
            del self._works[attempt]
        else:
            work.phase = Phase(ended + 1)
        if self._cache is not None:
            self._use_cache(self._cache, attempt, work, ended)
        return Reached(self._at, attempt, ended, work.cached_tokens)

    def _use_cache(self, cache: SimulatedCache, attempt: AttemptId, work: _Work, ended: Phase) -> None:
        if ended is Phase.LOAD:
            found = cache.hold(attempt, work.blocks)
            work.cached_tokens = max(min(found, int(work.left[Phase.PREFILL]) - 1), 0)
            work.left[Phase.PREFILL] -= work.cached_tokens
        elif ended is Phase.PREFILL:
            cache.keep(attempt, work.blocks)
        else:
            cache.keep(attempt, [*work.blocks, *work.reply_blocks])
            cache.release(attempt)
