"""A machine that sleeps as a GPU computes: slots, a load time, prefill and decode at set rates.

Requests that run at once share it. Progress is kept as work done, not as sleeps added up, so a rate that
changes under a running request is accounted for to the moment, and late timers do not make it slower.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pairproxy.clock import Clock
from pairproxy.config import PacedSettings
from pairproxy.core.errors import QueueFull
from pairproxy.core.models import Rates
from pairproxy.engines.paced_cache import PrefixCache, count_tokens

WAITING_LIMIT = 512  # requests in the engine's own queue, as Ollama's default has it


class SharedWork:
    """Work that all members do at the same pace, ``rate(members)`` units/s each."""

    def __init__(self, clock: Clock, rate: Callable[[int], float]) -> None:
        self._clock = clock
        self._rate = rate
        self._members = 0
        self._done = 0.0
        self._at = clock.now()
        self._changed = asyncio.Event()

    def done(self) -> float:
        """Units that a member from the beginning would have done by now."""
        now = self._clock.now()
        self._done += (now - self._at) * self._rate(self._members)
        self._at = now
        return self._done

    def join(self) -> None:
        """One more shares from now on."""
        self._change(1)

    def leave(self) -> None:
        """One fewer shares from now on."""
        self._change(-1)

    async def reach(self, target: float) -> float:
        """Return when done() is ``target`` units; lets others run even when it already is.

        Returns by how many seconds the timer came late, at the present pace: the work was done before.
        """
        await asyncio.sleep(0)
        while (missing := target - self.done()) > 0:
            changed = self._changed
            try:
                async with asyncio.timeout(missing / self._rate(self._members)):
                    await changed.wait()
            except TimeoutError:
                continue
        return -missing / self._rate(self._members)

    def _change(self, by: int) -> None:
        self.done()
        self._members += by
        self._changed.set()  # whoever waits must plan anew
        self._changed = asyncio.Event()


class Slots:
    """At most ``count`` run at once; the others wait in the order they came."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.running = 0
        self.max_in_flight = 0  # most that were ever here at once, running or waiting
        self.ever_waited = 0  # requests that found no free slot
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._changed = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """Requests here now, running or waiting."""
        return self.running + len(self._waiting)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Hold a slot. Raises QueueFull when WAITING_LIMIT others wait."""
        await self._acquire()
        try:
            yield
        finally:
            self._release()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when ``condition`` holds; it is looked at whenever a request comes, starts or leaves."""
        while not condition():
            await self._changed.wait()

    async def _acquire(self) -> None:
        if self.running < self.count and not self._waiting:
            self.running += 1
            self._tell_change()
            return
        if len(self._waiting) >= WAITING_LIMIT:
            raise QueueFull("server busy, too many requests wait for a slot; try again later")
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self.ever_waited += 1
        self._tell_change()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # the slot was given in the same moment
            else:
                self._waiting.remove(turn)
                self._tell_change()
            raise

    def _release(self) -> None:
        if self._waiting:
            self._waiting.popleft().set_result(None)  # the slot changes hands: running stays
        else:
            self.running -= 1
        self._tell_change()

    def _tell_change(self) -> None:
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self._changed.set()
        self._changed = asyncio.Event()


@dataclass(frozen=True, slots=True)
class Prefill:
    """What reading a prompt took."""

    cached_tokens: int
    new_tokens: int
    seconds: float


class PacedGpu:
    """The machine, in tokens/s: ``c`` running requests decode at ``decode / (1 + beta * (c - 1))`` each;
    those that read their prompts share ``prefill`` equally. All of it ``fast_forward`` times as fast.
    """

    def __init__(self, settings: PacedSettings, slots: int, clock: Clock) -> None:
        self.slots = Slots(slots)
        self._clock = clock
        self._cache = PrefixCache(settings.cached_tokens)
        pace = settings.fast_forward
        rates = Rates(settings.prefill * pace, settings.decode * pace, settings.beta, settings.load_s / pace)
        self._prefill = SharedWork(clock, lambda members: rates.prefill / max(members, 1))
        self._decode = SharedWork(clock, lambda members: rates.decode * rates.share(members))
        self._load_s = rates.load_s
        self._loaded_at: float | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._loaded_at is not None and self._clock.now() >= self._loaded_at

    @asynccontextmanager
    async def seat(self) -> AsyncIterator["Seat"]:
        """Wait for a slot and hold it. Raises QueueFull."""
        async with self.slots.take():
            self._decode.join()
            try:
                yield Seat(self._decode)
            finally:
                self._decode.leave()

    async def load(self) -> float:
        """Wait until the model is loaded, which begins with the first call. Returns the seconds waited."""
        began = self._clock.now()
        if self._loaded_at is None:
            self._loaded_at = began + self._load_s
        await asyncio.sleep(self._loaded_at - began)  # a negative time is none
        return self._clock.now() - began if self._loaded_at > began else 0.0

    async def prefill(self, prompt: str, *, use_cache: bool = True) -> Prefill:
        """Read ``prompt``, but for the start of it that is cached."""
        began = self._clock.now()
        cached = self._cache.match(prompt) if use_cache else 0
        new = count_tokens(prompt) - cached
        self._prefill.join()
        try:
            late_s = await self._prefill.reach(self._prefill.done() + new)
        finally:
            self._prefill.leave()
        self._cache.add(prompt)
        return Prefill(cached, new, max(self._clock.now() - began - late_s, 0.0))

    def remember(self, text: str) -> None:
        """Keep a prompt with its reply: the next request of its chain begins with both."""
        self._cache.add(text)


class Seat:
    """One request's place on the machine."""

    def __init__(self, decode: SharedWork) -> None:
        self._decode = decode
        self._due: float | None = None

    async def tokens(self, count: int = 1) -> float:
        """Return when the next ``count`` tokens are due; the first call begins decoding.

        Returns how late that is, in seconds, as SharedWork.reach() does.
        """
        self._due = (self._decode.done() if self._due is None else self._due) + count
        return await self._decode.reach(self._due)
