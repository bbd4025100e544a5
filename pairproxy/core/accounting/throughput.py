"""Output tokens a second of each node, as they come: what a sparkline shows.

Nothing is counted chunk by chunk. Whenever somebody looks, each attempt that writes is asked how much came so
far, and what came since the last look is spread over the time since then. Its end tells the true number. So
nobody pays for it while nobody looks, and a reply that nobody saw coming is spread over the time in which it
was written:

    a stream                       from its first byte to its end
    a reply that comes in a lump   the engine's own decoding time before its end, else since its dispatch
    a reply without a count        only what was seen of it: nothing is made up
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from pairproxy.core.commands import Command, Dispatch, Refuse
from pairproxy.core.events import (
    AttemptFailed,
    AttemptFinished,
    Event,
    FirstByteReceived,
    ReplyBroken,
    RequestAbandoned,
    RequestArrived,
)
from pairproxy.core.models import AttemptId, NodeId, RequestId, Usage
from pairproxy.core.running import IN_LUMPS

RECENT_S: Final = 60  # seconds that are told
MOST_NODES: Final = 256  # of which seconds are kept; the one that wrote longest ago goes first
MOST_WRITING: Final = 4096  # requests, as many as the ledger follows

WrittenOf = Callable[[AttemptId], Callable[[], int] | None]
"""What tells how many tokens of an attempt's reply came so far; None: it is not known."""


class _Writing:
    """An attempt: how much of its reply is counted, up to when. ``following``: a later one of its request."""

    __slots__ = (
        "counted_tokens", "counted_until", "dispatched_at", "first_byte_at", "following", "node", "number",
        "written",
    )  # fmt: skip

    def __init__(self, number: int, node: NodeId, dispatched_at: float) -> None:
        self.number = number
        self.node = node
        self.following: _Writing | None = None  # few requests have one: a table for each took longer
        self.dispatched_at = dispatched_at
        self.first_byte_at: float | None = None
        self.written: Callable[[], int] | None = None
        self.counted_tokens = 0.0
        self.counted_until = 0.0


class Throughput:
    """Hears every event; tells output tokens a second by node. Times are those of ``event.at``."""

    def __init__(self, written_of: WrittenOf) -> None:
        self._written_of = written_of
        self._writing: dict[RequestId, _Writing] = {}  # the first attempt of each that is not over
        self._seconds: dict[NodeId, dict[int, float]] = {}  # tokens in each second; who wrote last, last

    def record(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in one event and the commands it led to."""
        if isinstance(event, FirstByteReceived):
            self._begin(event.attempt, event.at)
        elif isinstance(event, AttemptFinished):
            self._end(event.attempt, event.at, event.usage)
            self._forget(event.attempt.request, event.at)
        elif isinstance(event, ReplyBroken):
            self._end(event.attempt, event.at, Usage(output_tokens=event.delivered_tokens))
        elif isinstance(event, AttemptFailed):
            self._taken(event.attempt)
        elif isinstance(event, RequestAbandoned):
            self._forget(event.request, event.at)
        for command in commands:
            if isinstance(command, Refuse):
                # One that is refused as it arrives wrote nothing; what writes is another of the same id.
                if not (isinstance(event, RequestArrived) and event.request.id == command.request):
                    self._forget(command.request, event.at)
            elif isinstance(command, Dispatch):
                number, node = command.attempt.number, command.decision.place.node
                self._follow(command.attempt.request, _Writing(number, node, event.at))

    def look(self, at: float) -> None:
        """Count what came up to now."""
        for first in self._writing.values():
            self._count_all(first, at)

    def tokens_of(self, attempt: AttemptId) -> int:
        """About how many tokens of an attempt's reply came, up to the last look."""
        one = self._find(attempt)
        return 0 if one is None else round(one.counted_tokens)

    def recent(self, node: NodeId, at: float) -> tuple[float, ...]:
        """Tokens in each of the last RECENT_S whole seconds, the oldest first."""
        seconds, now = self._seconds.get(node, {}), math.floor(at)
        return tuple(max(seconds.get(second, 0.0), 0.0) for second in range(now - RECENT_S, now))

    def current(self, node: NodeId, at: float) -> float:
        """Tokens a second in the last second."""
        seconds, now = self._seconds.get(node, {}), math.floor(at)
        return max(seconds.get(now, 0.0) + seconds.get(now - 1, 0.0) * (1.0 - (at - now)), 0.0)

    def _follow(self, request: RequestId, one: _Writing) -> None:
        last = self._writing.get(request)
        if last is None:
            if len(self._writing) < MOST_WRITING:
                self._writing[request] = one
            return
        while last.following is not None:
            last = last.following
        last.following = one

    def _find(self, attempt: AttemptId) -> _Writing | None:
        one = self._writing.get(attempt.request)
        while one is not None and one.number != attempt.number:
            one = one.following
        return one

    def _taken(self, attempt: AttemptId) -> _Writing | None:
        one = self._writing.get(attempt.request)
        before: _Writing | None = None
        while one is not None and one.number != attempt.number:
            before, one = one, one.following
        if one is None:
            return None
        if before is not None:
            before.following = one.following
        elif one.following is not None:
            self._writing[attempt.request] = one.following
        else:
            del self._writing[attempt.request]
        return one

    def _begin(self, attempt: AttemptId, at: float) -> None:
        if (one := self._find(attempt)) is not None and one.first_byte_at is None:
            one.first_byte_at = one.counted_until = at
            one.written = self._written_of(attempt)

    def _count(self, one: _Writing, at: float, most: float = math.inf) -> None:
        """Count what came of it since the last time, but no more than ``most`` in all."""
        if one.written is None:
            return
        tokens = min(float(one.written()), most)
        if tokens > one.counted_tokens:
            self._spread(one.node, tokens - one.counted_tokens, one.counted_until, at)
            one.counted_tokens = tokens
        one.counted_until = at

    def _end(self, attempt: AttemptId, at: float, usage: Usage) -> None:
        """Count it to its end, with what its engine said: that is right, records may hold several tokens."""
        one = self._taken(attempt)
        if one is None:
            return
        told = usage.output_tokens
        if told is None:
            self._count(one, at)
            return
        if one.first_byte_at is not None and (one.counted_tokens or _is_streamed(one, told)):
            self._count(one, at, told)
            since = one.first_byte_at
        else:
            since = max(at - usage.decode_s, one.dispatched_at) if usage.decode_s else one.dispatched_at
        self._spread(one.node, told - one.counted_tokens, since, at)

    def _forget(self, request: RequestId, at: float) -> None:
        """Its client left, or another attempt answered: what came of it was written all the same."""
        if (first := self._writing.pop(request, None)) is not None:
            self._count_all(first, at)

    def _count_all(self, first: _Writing, at: float) -> None:
        """Count what came of an attempt and of those that follow it."""
        one: _Writing | None = first
        while one is not None:
            self._count(one, at)
            one = one.following

    def _spread(self, node: NodeId, tokens: float, start: float, end: float) -> None:
        """Count tokens of a node evenly from ``start`` to ``end``; what is older than RECENT_S is let go."""
        last = math.floor(end)
        oldest, length = last - RECENT_S, end - start
        seconds = self._seconds.get(node)
        if seconds is None or last not in seconds:  # a second began: often enough to let go of older ones
            seconds = self._turn_to(node, oldest)
        if start >= last or length <= 0.0:
            seconds[last] = seconds.get(last, 0.0) + tokens
            return
        for second in range(max(math.floor(start), oldest), last + 1):
            part = (min(second + 1.0, end) - max(float(second), start)) / length
            seconds[second] = seconds.get(second, 0.0) + tokens * part

    def _turn_to(self, node: NodeId, oldest: int) -> dict[int, float]:
        """The seconds of who writes now, from ``oldest`` on."""
        seconds = {one: tokens for one, tokens in self._seconds.pop(node, {}).items() if one >= oldest}
        self._seconds[node] = seconds
        if len(self._seconds) > MOST_NODES:
            del self._seconds[next(iter(self._seconds))]
        return seconds


def _is_streamed(one: _Writing, told: int) -> bool:
    """Whether its tokens came as they were made, by how many records came (core.running)."""
    return one.written is not None and one.written() >= min(IN_LUMPS, max(told, 1))
