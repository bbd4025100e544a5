"""One connection to a port of ours: requests in, one after the other, each answered by a task of its own.

::

    no request -- a whole head --> request (body still coming?) -- answered --> no request, or closed
                                      `- answered before its body ended --> read away for a moment, so that
                                         the client sees the answer

What comes behind a request waits for its answer. A client may end its side of the connection and still get
the answer; one that leaves cancels its request. What is no HTTP and what is a fault are answered without a
word of the request.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from pairproxy.config import Limits
from pairproxy.proxy.faults import last_words, log_fault
from pairproxy.proxy.flow import Flow
from pairproxy.proxy.head import Malformed
from pairproxy.proxy.inflow import Inflow
from pairproxy.proxy.leaving import look_after
from pairproxy.proxy.request import HttpRequest, Written
from pairproxy.responses import StreamResponse

UNTAKEN_S = Limits().client_stall_s  # without a client's taking a byte of the last that was written to it


class Registry(Protocol):
    """Who knows the connections of a port."""

    def came(self, connection: "Connection", transport: asyncio.BaseTransport) -> None:
        """One is open."""

    def went(self, connection: "Connection") -> None:
        """It is lost."""

    def began(self, connection: "Connection") -> None:
        """It is at work on a request."""

    def ended(self, connection: "Connection") -> None:
        """Its request was answered, or will not be."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the connections of a port have in common."""

    answer: Callable[[HttpRequest], Awaitable[Written | StreamResponse]]
    head_bytes: int
    idle_s: float  # for a request to come, and for its head to be whole
    lingering_s: float  # for the rest of a body that is not wanted any more
    waits_for_half_closed: bool


class Connection(Flow):
    """A connection and the request that it has; to asyncio and uvloop one protocol like any other."""

    def __init__(self, terms: Terms, registry: Registry, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._terms = terms
        self._registry = registry
        self._inflow = Inflow(terms.head_bytes)
        self._request: HttpRequest | None = None
        self._request_count = 0
        self.task: asyncio.Task[None] | None = None
        """Answers the request under way."""
        self._timer: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._idle_since = 0.0  # loop time
        self._is_last = False  # no other request is taken
        self._has_ended = False
        self._reading_paused = False
        self.remote: str | None = None
        """The client's address."""
        self.is_answering = False
        """Whether bytes of a reply were written by its handler itself, and no other request came since."""
        self.has_answer = False
        """Whether bytes of an answer of ours were written to the request under way (pairproxy.responses)."""
        self.shown = ""
        """By which key its last request was let in (key_port); "": by none."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        caller = transport.get_extra_info("peername")
        self.remote = str(caller[0]) if caller else None
        self._idle_since = self._loop.time()
        self._timer = self._loop.call_later(self._terms.idle_s, self._end_if_idle)
        self._registry.came(self, transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """A client that leaves cancels its request."""
        self._registry.went(self)
        super().connection_lost(exc)
        self._is_last = True
        for timer in (self._timer, self._lingering):
            if timer is not None:
                timer.cancel()
        if self._request is not None:
            self._request.content.fail(ConnectionResetError("the client left"))
            self._request = None
        if self.task is not None:
            self.task.cancel()
            self.task = None  # one that had not begun ends without a word

    def data_received(self, data: bytes) -> None:
        """Take in bytes: of a body that is coming, or of a head."""
        inflow = self._inflow
        inflow.feed(data)
        if self._request is None:
            self._take_request()
        elif self.task is None and not inflow.is_in_body:  # it was answered before its body ended
            self._rest()
        if inflow.is_full:
            self._regulate()

    def resume_writing(self) -> None:
        """The client took answers: what it asked behind them is next."""
        super().resume_writing()
        if self._request is None:
            self._rest()

    def _take_request(self) -> None:
        if self._is_last or self._paused:  # who takes no answers gets no more of them
            return
        try:
            found = self._inflow.next(self.hold)
        except Malformed as error:
            self._is_last = True
            self._say(last_words(error.status))
            self.end()
            return
        if found is not None:
            self._request_count += 1
            self.is_answering = self.has_answer = False
            request = self._request = HttpRequest(found[0], found[1], self)
            self._outbox.expect()
            self.task = self._loop.create_task(self._answer(request), name="request")

    def _regulate(self) -> None:
        """Let the client keep what is not its turn yet, but for a part that is bounded."""
        has_to_wait = self._request is not None or self._paused
        self.hold(has_to_wait and self._inflow.is_full)

    def hold(self, is_held: bool) -> None:
        """Read no more, or go on with it."""
        wire = self._wire
        if wire is not None and not wire.is_closing() and is_held != self._reading_paused:
            self._reading_paused = is_held
            (wire.pause_reading if is_held else wire.resume_reading)()

    async def _answer(self, request: HttpRequest) -> None:
        is_kept = False
        self._registry.began(self)
        try:
            response = await self._terms.answer(request)
            if not isinstance(response, Written):  # it has to be sent
                await response.prepare(request)
                await response.write_eof()
            is_kept = bool(response.keep_alive)
        except ConnectionError:
            pass  # the client left, or was put out
        except Exception as error:  # noqa: BLE001 its client is told, and the log
            log_fault(error)
            if not self.is_answering and not self.has_answer:
                self._say(last_words(500))
        finally:
            self.task = None
            self._registry.ended(self)
            self._is_last = self._is_last or not is_kept
            self._end_request()

    def _end_request(self) -> None:
        """The request was answered; the rest of its body is read away, so that its client sees the answer."""
        is_open = self._wire is not None and not self._wire.is_closing()
        if self._inflow.is_broken:
            self._is_last = True
        elif self._inflow.is_in_body and is_open and self._request is not None:
            self._request.content.drop()
            self._lingering = self._loop.call_later(self._terms.lingering_s, self.end)
            return
        self._rest()

    def _rest(self) -> None:
        """Nothing is under way: close, or wait for another request."""
        self._request = None
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self._is_last:
            self.end()
            return
        self._idle_since = self._loop.time()
        self._take_request()
        if self._reading_paused or self._paused:
            self._regulate()

    def _end_if_idle(self) -> None:
        idle_s = self._terms.idle_s
        now = self._loop.time()
        due_at = idle_s + (self._idle_since if self._request is None else now)
        if due_at <= now:
            self.end()
        else:
            self._timer = self._loop.call_at(due_at, self._end_if_idle)

    def _say(self, words: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(words)

    def hand_over(self) -> tuple[asyncio.Transport | None, bytes, bool]:
        """Give the connection away to what it was upgraded to; connection_lost is to be passed back here.

        Returns (transport, None if the client left; what it sent after its request; whether that was all).
        """
        self.is_answering = True
        return self.transport, self._inflow.rest(), self._has_ended

    def part(self) -> None:
        """End after what is under way; one that brought no request yet may bring it: a client is waiting."""
        if self._request_count:
            self.close_after()

    def close_after(self) -> None:
        """End when the request under way is answered, now if there is none."""
        self._is_last = True
        if self._request is None:
            self.end()

    def end(self) -> None:
        """Close as soon as the client took what was written, or takes no more of it."""
        transport = self.transport
        if transport is not None:
            self._end_if_untaken(math.inf)
            if not transport.is_closing():  # asyncio's TLS takes a second close() for the last word
                transport.close()

    def _end_if_untaken(self, before: float) -> None:
        transport = self.transport
        untaken = 0 if transport is None else transport.get_write_buffer_size()
        if transport is None or untaken == 0:
            return
        if untaken >= before:
            transport.abort()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(UNTAKEN_S, self._end_if_untaken, untaken)

    def break_off(self) -> None:
        """End it whatever is under way."""
        if self.task is not None:
            self.task.cancel()
        self.end()

    def give_way(self) -> bool:
        """Close at once if nothing is under way; False: a request is, or a reply is not on the wire yet."""
        transport = self.transport
        if transport is None or self._request is not None or transport.get_write_buffer_size():
            return False
        transport.abort()  # TLS would keep the descriptor until the other side has said goodbye as well
        return True

    def eof_received(self) -> bool | None:
        """Keep the connection for the reply under way if a whole request came before its end."""
        if self.transport is None or not self._terms.waits_for_half_closed:
            return None
        if self._request is None or self.is_answering or self._inflow.is_in_body:
            return None
        if not self._has_ended:  # uvloop says it twice
            self._has_ended = True
            self._is_last = True  # after this reply
            look_after(self.transport, self._can_ask)
        return True

    def _can_ask(self) -> bool:
        request = self._request
        return request is not None and request.version >= (1, 1) and not self.is_answering
