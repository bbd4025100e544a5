"""What runs now: every attempt of this origin, and every request that runs on an engine of this node."""

from collections.abc import Iterator
from dataclasses import dataclass

from pairproxy.core.models import AttemptId, NodeId, Place, Rates, Request, Usage

LATE_TIMES = 3.0  # one reply in twenty is three times as long as the mean (log-normal of spread 1)


@dataclass(slots=True)
class Running:
    """One attempt that holds a slot, until its engine is known to be free of it."""

    attempt: AttemptId
    request: Request
    place: Place
    rates: Rates
    dispatched_at: float
    expected_s: float  # service, as predicted at dispatch
    first_byte_at: float | None = None
    alone_s: float = 0.0  # decoding time, corrected for company (costs.Costs.learn)
    was_cold: bool = False  # whether its model had to be loaded first
    is_settling: bool = False  # over for its client, but the engine may still be at it

    def remaining_s(self, at: float) -> float:
        """Expected seconds until the slot is free; zero and below when it should be already.

        What takes LATE_TIMES as long as expected is believed to hang, and the longer, the more: its place is
        not "free in a moment" for ever.
        """
        ran_s = at - self.dispatched_at
        return max(self.expected_s - ran_s, ran_s - LATE_TIMES * self.expected_s)

    def measured(self, usage: Usage, company: int) -> tuple[float, float]:
        """(seconds to the first byte, decoding seconds corrected for company) for Costs.learn; 0.0: unknown.

        A streamed reply shows both. One that comes in one piece came after all of its work: what the engine
        does not say itself is the whole time, less the reading that was expected. ``company``: running there.
        A cold model's first byte says more of loading than of reading the prompt.
        """
        if self.first_byte_at is None:
            return 0.0, 0.0
        waited_s = self.first_byte_at - self.dispatched_at
        if self.request.is_streaming or not usage.output_tokens:
            return 0.0 if self.was_cold else waited_s, self.alone_s
        decode_s = usage.decode_s
        if decode_s is None:
            reading_s = min(self.request.prompt_tokens / self.rates.prefill, waited_s / 2)
            decode_s = 0.0 if self.was_cold else waited_s - reading_s
        return 0.0, decode_s * self.rates.share(company)


class RunningTable:
    """All running attempts; keeps ``alone_s`` current while the company on an engine changes."""

    def __init__(self) -> None:
        self._running: dict[AttemptId, Running] = {}
        self._counted_at = 0.0

    def __iter__(self) -> Iterator[Running]:
        return iter(self._running.values())

    def __len__(self) -> int:
        return len(self._running)

    def get(self, attempt: AttemptId) -> Running | None:
        """The attempt, if it holds a slot."""
        return self._running.get(attempt)

    def of_request(self, request_id: str) -> Running | None:
        """The attempt that serves a request now; a settling one no longer does."""
        for running in self._running.values():
            if running.attempt.request == request_id and not running.is_settling:
                return running
        return None

    def at_place(self, place: Place) -> list[Running]:
        """What holds a slot of a place."""
        return [running for running in self._running.values() if running.place == place]

    def at_node(self, node: NodeId) -> list[Running]:
        """What holds a slot of a node."""
        return [running for running in self._running.values() if running.place.node == node]

    def add(self, running: Running) -> None:
        """An attempt takes its slot."""
        self._running[running.attempt] = running

    def remove(self, attempt: AttemptId) -> None:
        """An attempt gives back its slot, if it has one."""
        self._running.pop(attempt, None)

    def count_time(self, at: float) -> None:
        """Credit the time since the last event to every decoding request; call before any change."""
        passed, self._counted_at = at - self._counted_at, at
        if passed <= 0 or not self._running:
            return
        company: dict[Place, int] = {}
        for running in self._running.values():
            company[running.place] = company.get(running.place, 0) + 1
        for running in self._running.values():
            if running.first_byte_at is not None:
                running.alone_s += passed * running.rates.share(company[running.place])
