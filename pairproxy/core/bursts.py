"""Bursts: requests of one client at once, over when the last of them is. An agent's fan-out is one."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pairproxy.core.models import ModelName, Place, Request
from pairproxy.core.queue import Waiting
from pairproxy.core.running import Listener, Running

BURST: Final = 3  # requests at once; fewer can hold each other up but little
TOGETHER_S: Final = 2.0  # a program that fans out has done so by then
SETTLES_S: Final = 0.02  # without another request: all of it is here, and its size says what is to be gained
ALIKE: Final = 0.02  # prompts whose sizes differ by no more are instances of one task

_Key = tuple[str, str | None, ModelName]


@dataclass(slots=True)
class Burst:
    """Requests of one client (and run) for one model, from the first on until all are over."""

    key: _Key
    size: int = 0  # that wait or run now
    most: int = 0  # that ever did
    together: int = 0  # of these, the most that came within TOGETHER_S of the first
    began_at: float = math.inf
    grew_at: float = -math.inf
    _running: int = 0
    _running_at_once: int = 0
    _at_once: int = 0  # of those that wait or run now
    shortest: int = 0  # prompt, in tokens
    longest: int = 0
    done: dict[Place, tuple[int, int]] = field(default_factory=dict)  # tokens of prompts, of replies
    idle_s: dict[Place, float] = field(default_factory=dict)  # while nothing waited and others were at it
    wasted_tokens: float = 0.0  # of replies that were begun, and taken back (core.rescue)

    @property
    def is_fan_out(self) -> bool:
        """Whether most of it came at once, and was more than a request or two; so until the last has ended.

        A steady stream of one client is none: there each reply is waited for by itself.
        """
        return self.together >= max(BURST, self.most / 2)

    @property
    def is_alike(self) -> bool:
        """Whether its requests look like instances of one task."""
        return self.longest - self.shortest <= ALIKE * self.longest

    def settles_at(self) -> float:
        """When all of it is taken to be here."""
        return self.grew_at + SETTLES_S

    def sent(self, running: Running) -> None:
        """A request of it takes a slot."""
        self._meet(running.request, running.dispatched_at)
        self._running += 1
        self._running_at_once += self._is_at_once(running.dispatched_at)

    def ended(self, running: Running) -> None:
        """It does no longer."""
        self._running -= 1
        self._running_at_once -= self._is_at_once(running.dispatched_at)

    def count(self) -> None:
        """Begin to count what waits and runs now; what runs is counted already."""
        self.size, self._at_once = self._running, self._running_at_once
        self.most, self.together = max(self.most, self.size), max(self.together, self._at_once)

    def add(self, waiting: Waiting) -> None:
        """Count one that waits."""
        at = waiting.arrived_at
        self._meet(waiting.request, at)
        self.grew_at = max(self.grew_at, at)
        self.size += 1
        self.most = max(self.most, self.size)
        self._at_once += self._is_at_once(at)
        self.together = max(self.together, self._at_once)

    def _meet(self, request: Request, at: float) -> None:
        tokens = request.prompt_tokens
        self.shortest = min(self.shortest or tokens, tokens)
        self.longest = max(self.longest, tokens)
        self.began_at = min(self.began_at, at)

    def _is_at_once(self, at: float) -> bool:
        return at <= self.began_at + TOGETHER_S


class Bursts(Listener):
    """Those of one origin. Holds no more of them than there are requests waiting and running."""

    def __init__(self) -> None:
        self._known: dict[_Key, Burst] = {}
        self._asked: Request | None = None  # for which a burst was looked up last, mostly to ask for it again
        self._found: Burst | None = None
        self._moved: dict[
            _Key, Burst
        ] = {}  # of which any waited at the last look, or was sent or ended since

    def of(self, request: Request) -> Burst:
        """What a request is part of; it waits or runs."""
        burst = self.find(request)
        if burst is None:
            raise KeyError(request.id)
        return burst

    def find(self, request: Request) -> Burst | None:
        """What a request is part of; None: that was not looked at yet, or is over."""
        if request is not self._asked:
            self._asked, self._found = request, self._known.get(_key(request))
        return self._found

    def held_up_by(self, request: Request) -> Burst | None:
        """The burst that a long reply to a request may hold up; None: there is none."""
        burst = self.find(request)
        # A reply without a token (an embedding) is never long.
        is_one = burst is not None and burst.is_fan_out and request.max_output_tokens != 0
        return burst if is_one else None

    def sent(self, running: Running) -> None:
        """A request takes a slot."""
        if running.request.origin is None:
            burst = self.find(running.request)
            if burst is None:
                burst = self._begin(running.request)
            burst.sent(running)
            self._moved[burst.key] = burst

    def ended(self, running: Running) -> None:
        """It gives it back."""
        if running.request.origin is None:
            burst = self.of(running.request)
            burst.ended(running)
            self._moved[burst.key] = burst

    def _begin(self, request: Request) -> Burst:
        key = _key(request)
        self._asked, self._found = request, Burst(key)
        self._known[key] = self._found
        return self._found

    def update(self, queue: Iterable[Waiting]) -> None:
        """Look at all that waits now. What runs is counted as it begins and ends."""
        known, moved = self._known, self._moved
        self._moved = {}
        for burst in moved.values():
            burst.count()
        for waiting in queue:
            found = self.find(waiting.request)
            if found is None or (found.size == 0 and waiting.arrived_at > found.grew_at + TOGETHER_S):
                found = self._begin(waiting.request)
            found.add(waiting)
            self._moved[found.key] = found
        for key, burst in moved.items():
            if burst.size == 0 and known.get(key) is burst:
                del known[key]
                self._asked = None


def _key(request: Request) -> _Key:
    return request.client, request.run, request.model
