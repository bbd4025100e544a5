"""What runs now: every attempt of this origin, and every request that runs on an engine of this node."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pairproxy.core.company import Clock, Company, User, Users
from pairproxy.core.lengths import Lengths
from pairproxy.core.models import AttemptId, NodeId, Place, Rates, Replica, Request, RequestId, Usage
from pairproxy.core.prefixes import Pending
from pairproxy.core.timing import Timing

IN_LUMPS: Final = 12  # records: a stream of fewer was held back by its engine, as the call of a tool is
LATE_TIMES: Final = 3.0  # one reply in twenty is three times as long as the mean (log-normal of spread 1)
MOST_USED: Final = 1024  # places where nothing runs that are remembered; a cluster has tens


class Running:
    """One attempt that holds a slot, until its engine is known to be free of it."""

    def __init__(
        self, attempt: AttemptId, request: Request, place: Place, rates: Rates, at: float, expected_s: float
    ) -> None:
        self.attempt, self.request, self.place, self.rates = attempt, request, place, rates
        self.dispatched_at, self.expected_s = at, expected_s  # service, as predicted at dispatch
        self.begins_s = 0.0  # until its first byte, as predicted at dispatch
        self.first_byte_at: float | None = None
        self.was_cold = False  # whether its model had to be loaded first
        self.is_settling = False  # over for its client, but the engine may still be at it
        self.read_s: float | None = None  # of reading alone, as predicted, without what its place held
        self.replica: Replica | None = None  # what writes its reply
        self.held_blocks = 0  # of its prompt, by the index of the engine when it was sent (this node's only)
        self.sent_with = 0  # the number of the event that led to it
        self.there: There | None = None  # while it holds its slot
        self.before: Running | None = None  # an earlier attempt of its request that holds one, too
        self.sent_mark: Sequence[float] = ()  # of the seconds of its company, when it was sent
        self.begun_mark: Sequence[float] = ()  # the same at its first byte
        self.read_mark = 0.0  # of those of reading, when it was sent
        self.has_read_s = 0.0  # reading_s, from its first byte on

    @property
    def reading_s(self) -> float:
        """Seconds before the first byte, divided by how many read their prompts at once."""
        if self.there is None or self.first_byte_at is not None:
            return self.has_read_s
        return self.there.company.reading_since(self.read_mark)

    @property
    def company_s(self) -> dict[int, float]:
        """Seconds since the first byte, by how many ran."""
        there = None if self.first_byte_at is None else self.there
        return {} if there is None else there.company.seconds_since(self.begun_mark)

    @property
    def all_s(self) -> dict[int, float]:
        """Seconds since it was sent, by how many ran."""
        return {} if self.there is None else self.there.company.seconds_since(self.sent_mark)

    def remaining_s(self, at: float) -> float:
        """Expected seconds until the slot is free; zero and below when it should be, and does not hang."""
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
        return self._alone_s(self.company_s) * self.rates.decode

    @property
    def reads_s(self) -> float:
        """Seconds that reading its prompt should take alone."""
        return self.request.prompt_tokens / self.rates.prefill if self.read_s is None else self.read_s

    def tokens_by_now(self) -> float:
        """How long its reply should be, by the time its engine has had for it.

        Of one that comes in one piece nothing is seen before: reading takes the time that is expected.
        """
        if self.request.is_streaming:
            return self.written_tokens()
        load_s = self.rates.load_s if self.was_cold else 0.0
        return max(self._alone_s(self.all_s) - self.reads_s - load_s, 0.0) * self.rates.decode

    def _alone_s(self, company_s: Mapping[int, float]) -> float:
        """How long its engine would have taken alone for what it did for it in company."""
        beta = self.rates.beta  # as Rates.share reckons, for up to as many numbers as ran there
        return sum([seconds * (1.0 / (1.0 + beta * (ran - 1))) for ran, seconds in company_s.items()])

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
        enough = min(IN_LUMPS, usage.output_tokens or 0)
        return self.request.is_streaming and (usage.records is None or usage.records >= enough)

    def _all_of_it(self, usage: Usage) -> dict[int, float]:
        """Its decoding, of which nothing was seen: all of its time, less loading (unknown) and reading."""
        company_s = self.all_s
        total_s = sum(company_s.values())
        if usage.decode_s is not None or total_s <= 0.0:
            return company_s
        if self.was_cold:
            return {}
        told_s = usage.prefill_s
        reading_s = self.request.prompt_tokens / self.rates.prefill if told_s is None else told_s
        part = 1.0 - min(reading_s / total_s, 0.5)
        return {company: seconds * part for company, seconds in company_s.items()}


class Listener:
    """Who hears of each attempt that takes a slot or gives it back. Compiled, a class is called fastest."""

    def sent(self, running: Running) -> None:
        """It takes a slot."""

    def ended(self, running: Running) -> None:
        """It gives it back."""


class There:
    """What holds slots of one place; in dicts, as in the order in which it was sent."""

    def __init__(self, clock: Clock) -> None:
        self.company, self.users = Company(clock), Users(clock)
        self.members: dict[Running, None] = {}
        self.silent: dict[Running, None] = {}  # streams of own clients, to begin yet


class RunningTable:
    """All running attempts, in the order in which they were sent, and those of each place and request."""

    def __init__(self) -> None:
        self._running: dict[AttemptId, Running] = {}
        self._there: dict[Place, There] = {}  # where any runs or ran
        self._latest: dict[RequestId, Running] = {}  # of each request
        self._to_begin: dict[Running, None] = {}  # for own clients
        self._clock = Clock()
        self.pending = Pending()
        self._listeners: list[Listener] = []

    def __iter__(self) -> Iterator[Running]:
        return iter(self._running.values())

    def __len__(self) -> int:
        return len(self._running)

    def tell(self, listener: Listener) -> None:
        """Let it hear of each attempt from now on; and now of what runs already."""
        self._listeners.append(listener)
        for running in self:
            listener.sent(running)

    def get(self, attempt: AttemptId) -> Running | None:
        """The attempt, if it holds a slot."""
        return self._running.get(attempt)

    def has_request(self, request: RequestId) -> bool:
        """Whether any attempt of a request holds a slot, also one that only settles."""
        return request in self._latest

    def of_request(self, request: RequestId) -> Running | None:
        """The attempt that serves a request now; a settling one no longer does."""
        one = self._latest.get(request)
        while one is not None and one.is_settling:
            one = one.before
        return one

    def count(self, place: Place) -> int:
        """How many hold a slot of a place."""
        return len(there.members) if (there := self._there.get(place)) is not None else 0

    def at_place(self, place: Place) -> list[Running]:
        """What holds a slot of a place."""
        return [*there.members] if (there := self._there.get(place)) is not None else []

    def at_node(self, node: NodeId) -> list[Running]:
        """What holds a slot of a node."""
        return [running for running in self._running.values() if running.place.node == node]

    def to_begin(self) -> Iterable[Running]:
        """Attempts for own clients whose first byte is to come; the oldest first."""
        return self._to_begin

    def silent(self) -> Iterator[Iterable[Running]]:
        """Streams of own clients that are to begin yet, of each place where any are; the oldest first."""
        return (there.silent for there in self._there.values() if there.silent)

    def users(self, place: Place, at: float, within_s: float) -> set[User]:
        """Who holds a slot of a place, or did ``within_s`` before ``at``; None: this node's own clients."""
        return set() if (there := self._there.get(place)) is None else there.users.recent(at, within_s)

    def has_guests(self, place: Place) -> bool:
        """Whether another node has a slot of a place, or had one, as far as that is remembered."""
        return (there := self._there.get(place)) is not None and there.users.has_others

    def add(self, running: Running) -> None:
        """An attempt takes its slot."""
        place, request = running.place, running.request
        self._running[running.attempt] = running
        running.before = self._latest.get(request.id)
        self._latest[request.id] = running
        there = running.there = self._there.get(place) or self._first_at(place)
        running.sent_with = self._clock.events
        running.sent_mark, running.read_mark = there.company.join()
        there.members[running] = None
        there.users.join(request.origin)
        if request.origin is None:
            self._to_begin[running] = None
            if request.is_streaming:
                there.silent[running] = None
        if request.prefix:
            self.pending.add(place, request.model, request.prefix)
        for listener in self._listeners:
            listener.sent(running)

    def _first_at(self, place: Place) -> There:
        if len(self._there) >= MOST_USED:
            self._there = {place: there for place, there in self._there.items() if there.members}
        there = self._there[place] = There(self._clock)
        return there

    def begin(self, running: Running, at: float) -> None:
        """The first byte of a reply is here."""
        there = running.there
        if there is not None and running.first_byte_at is None:
            running.begun_mark, running.has_read_s = there.company.begin(running.read_mark)
            self._is_heard(running, there)
        running.first_byte_at = at

    def settle(self, running: Running) -> None:
        """It is over for its client, but holds its slot: its engine may still be at it."""
        running.is_settling = True
        if running.there is not None:
            self._is_heard(running, running.there)

    def remove(self, attempt: AttemptId) -> None:
        """An attempt gives back its slot, if it has one; its times are known no more."""
        running = self._running.pop(attempt, None)
        if running is None or running.there is None:
            return
        there, request, running.there = running.there, running.request, None
        before, later = running.before, self._latest[request.id]
        if later is not running:
            while later.before is not None and later.before is not running:
                later = later.before
            later.before = before
        elif before is not None:
            self._latest[request.id] = before
        else:
            del self._latest[request.id]
        is_reader = running.first_byte_at is None
        there.company.leave(is_reader=is_reader)
        del there.members[running]
        if is_reader:
            self._is_heard(running, there)
        there.users.leave(request.origin, running.sent_with)
        if request.prefix:
            self.pending.remove(running.place, request.model, request.prefix)
        for listener in self._listeners:
            listener.ended(running)

    def _is_heard(self, running: Running, there: There) -> None:
        """It is waited for no more."""
        if running in self._to_begin:
            del self._to_begin[running]
        if running in there.silent:
            del there.silent[running]

    def count_time(self, at: float) -> None:
        """It is now ``at``; call it before any change. What ran is credited when that changes."""
        self._clock.go_on(at)
