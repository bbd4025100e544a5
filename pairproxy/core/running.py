"""What runs now: every attempt of this origin, and every request that runs on an engine of this node."""

from collections.abc import Iterator
from dataclasses import dataclass

from pairproxy.core.models import AttemptId, NodeId, Place, Rates, Request


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
    is_settling: bool = False  # over for its client, but the engine may still be at it

    def remaining_s(self, at: float) -> float:
        """Expected seconds until the slot is free."""
        return self.dispatched_at + self.expected_s - at


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
        return self._running.get(attempt)

    def of_request(self, request_id: str) -> Running | None:
        """The attempt that serves a request now; a settling one no longer does."""
        for running in self._running.values():
            if running.attempt.request == request_id and not running.is_settling:
                return running
        return None

    def at_place(self, place: Place) -> list[Running]:
        return [running for running in self._running.values() if running.place == place]

    def at_node(self, node: NodeId) -> list[Running]:
        return [running for running in self._running.values() if running.place.node == node]

    def add(self, running: Running) -> None:
        self._running[running.attempt] = running

    def remove(self, attempt: AttemptId) -> Running | None:
        return self._running.pop(attempt, None)

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
