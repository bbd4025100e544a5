"""What runs now: every attempt of this origin, and every request that runs on an engine of this node."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pairproxy.core.lengths import Lengths
from pairproxy.core.models import AttemptId, NodeId, Place, Rates, Replica, Request, Usage
from pairproxy.core.prefixes import Pending
from pairproxy.core.timing import Timing

IN_LUMPS = 12  # records: a stream of fewer was held back by its engine, as the call of a tool is
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
    begins_s: float = 0.0  # until its first byte, as predicted at dispatch
    first_byte_at: float | None = None
    reading_s: float = 0.0  # before the first byte, divided by how many read their prompts at once
    before_s: dict[int, float] = field(default_factory=dict)  # until the first byte, by how many ran
    company_s: dict[int, float] = field(default_factory=dict)  # from then on, by how many ran
    was_cold: bool = False  # whether its model had to be loaded first
    is_settling: bool = False  # over for its client, but the engine may still be at it
    read_s: float | None = None  # of reading alone, as predicted, without what its place held
    replica: Replica | None = None  # what writes its reply
    held_blocks: int = 0  # of its prompt, by the index of the engine when it was sent (of this node's only)

    def remaining_s(self, at: float) -> float:
        """Expected seconds until the slot is free; zero and below when it should be already.

        A place that hangs is not "free in a moment" for ever.
        """
        return max(self.dispatched_at + self.expected_s - at, self._hangs_s(at))

    def left_s(self, lengths: Lengths, at: float) -> tuple[float, float]:
        """Expected seconds (of reading, of all) until its slot is free, if it had the engine for itself.

        A reply is expected to go on as the others of its kind that were as long as this one is by now.
        """
        limit = self.request.max_output_tokens
        if self.first_byte_at is not None and self.request.is_streaming:
            reading_s, tokens = 0.0, lengths.remaining(self.written_tokens(), limit)
        else:
            load_s = self.rates.load_s if self.was_cold else 0.0
            reading_s = max(load_s + self.reads_s - self.reading_s, 0.0)
            tokens = lengths.mean(limit)
        return reading_s, max(reading_s + tokens / self.rates.decode, self._hangs_s(at))

    def written_tokens(self) -> float:
        """How long its reply must be by now, by the speed of its engine and the company it had."""
        alone_s = sum(seconds * self.rates.share(company) for company, seconds in self.company_s.items())
        return alone_s * self.rates.decode

    @property
    def reads_s(self) -> float:
        """Seconds that reading its prompt should take alone."""
        return self.request.prompt_tokens / self.rates.prefill if self.read_s is None else self.read_s

    def tokens_by_now(self) -> float:
        """How long its reply should be, by the time its engine has had for it.

        Of one that comes in one piece nothing is seen before: reading takes the time that is expected.
        """
        alone_s = sum(seconds * self.rates.share(company) for company, seconds in self.company_s.items())
        if not self.request.is_streaming:
            alone_s += sum(seconds * self.rates.share(company) for company, seconds in self.before_s.items())
            alone_s -= self.reads_s
            alone_s -= self.rates.load_s if self.was_cold else 0.0
        return max(alone_s, 0.0) * self.rates.decode

    def _hangs_s(self, at: float) -> float:
        """What takes LATE_TIMES as long as expected is believed to hang, and the longer, the more."""
        return at - self.dispatched_at - LATE_TIMES * self.expected_s

    def timing(self, usage: Usage) -> Timing:
        """What its end teaches about the speed of its engine.

        A stream shows its reading and its writing. A reply that comes in one piece, or in a few, came after
        all of its work: what the engine does not say itself is the whole time, less the reading expected.
        A cold model's first byte says more of loading than of reading the prompt.
        """
        if self.first_byte_at is None:
            return Timing()
        waited_s = self.first_byte_at - self.dispatched_at
        own_part = self.reading_s / waited_s if waited_s > 0.0 and self.reading_s > 0.0 else 1.0
        if not usage.output_tokens or self._is_streamed(usage):
            return Timing(0.0 if self.was_cold else waited_s, own_part, self.company_s)
        return Timing(0.0, own_part, self._all_of_it(usage))

    def _is_streamed(self, usage: Usage) -> bool:
        """Whether the tokens came as they were made."""
        came_in = usage.records
        return self.request.is_streaming and (
            came_in is None or came_in >= min(IN_LUMPS, usage.output_tokens or 0)
        )

    def _all_of_it(self, usage: Usage) -> dict[int, float]:
        """Its decoding, of which nothing was seen: all of its time, less loading (unknown) and reading."""
        company_s = dict(self.before_s)
        for company, seconds in self.company_s.items():
            company_s[company] = company_s.get(company, 0.0) + seconds
        total_s = sum(company_s.values())
        if usage.decode_s is not None or total_s <= 0.0:
            return company_s
        if self.was_cold:
            return {}
        reading_s = usage.prefill_s
        if reading_s is None:
            reading_s = self.request.prompt_tokens / self.rates.prefill
        part = 1.0 - min(reading_s / total_s, 0.5)
        return {company: seconds * part for company, seconds in company_s.items()}


class RunningTable:
    """All running attempts; keeps their times current while the company on an engine changes."""

    def __init__(self) -> None:
        self._running: dict[AttemptId, Running] = {}
        self.pending = Pending()
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
        self.pending.add(running.place, running.request.model, running.request.prefix)

    def remove(self, attempt: AttemptId) -> None:
        """An attempt gives back its slot, if it has one."""
        running = self._running.pop(attempt, None)
        if running is not None:
            self.pending.remove(running.place, running.request.model, running.request.prefix)

    def count_time(self, at: float) -> None:
        """Credit the time since the last event to all that runs; call before any change."""
        passed, self._counted_at = at - self._counted_at, at
        if passed <= 0 or not self._running:
            return
        company: dict[Place, int] = {}
        reading: dict[Place, int] = {}
        for running in self._running.values():
            place = running.place
            company[place] = company.get(place, 0) + 1
            reading[place] = reading.get(place, 0) + (running.first_byte_at is None)
        for running in self._running.values():
            together, readers = company[running.place], reading[running.place]
            if running.first_byte_at is not None:
                running.company_s[together] = running.company_s.get(together, 0.0) + passed
                continue
            running.before_s[together] = running.before_s.get(together, 0.0) + passed
            running.reading_s += passed / readers
