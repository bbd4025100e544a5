"""The arriving side of a reply: what its connection tells it, and what is kept until somebody asks.

::

    HEAD --final head--> HELD --first body byte or end--> open: send() returns it
    HELD --relay()--> PASSED ON --end--> complete: the connection goes back to the pool
    HELD --take_over()--> complete: a connection that left HTTP (101) belongs to whoever took it
    any  --death, broken framing, given up--> failed: the connection is aborted

Passed on means that :meth:`Incoming.feed`, called from the transport, writes to the client in the same turn
of the loop: no task wakes per chunk. What waits unread is at most ``relay_buffer_bytes`` and one read more.
"""

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from pairproxy.config import Limits
from pairproxy.core.errors import BrokenReply, NotTrusted, ReplyTruncated, UpstreamError
from pairproxy.upstreams.framing import Framing
from pairproxy.upstreams.head import SWITCHING, Head, HeadReader, Malformed
from pairproxy.upstreams.sink import Sink

if TYPE_CHECKING:  # it holds the reply that arrives on it
    from pairproxy.upstreams.connection import Connection

LENGTHENED: Final = 4  # times what came, at most, is what is written of it: a chunk of a token in new framing


class Incoming:
    """The state of one reply; the connection calls ``feed`` and ``ended``, the caller waits."""

    head: Head
    """The head; only once the reply is open."""

    def __init__(
        self, link: "Connection", method: str, limits: Limits, who: str, *, may_switch: bool = False
    ) -> None:
        self._link: Connection | None = link
        self._who = who
        self._buffer_bytes: int = limits.relay_buffer_bytes
        self._loop = link.loop
        self._now = link.now
        self._method = method
        self._header_bytes: int = limits.reply_header_bytes
        self._may_switch = may_switch
        self._head_reader: HeadReader | None = None
        self._body: Framing | None = None
        self._held: list[bytes] = []  # raw, until somebody asks
        self._held_parts: list[bytes] = []  # what that decodes to
        self._held_bytes = 0
        self._sink: Sink | None = None  # set while the body is passed on
        self._room_bytes = 0  # to be written before it is asked again how much waits
        self._is_paused = False
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._size_bytes = 0
        self.is_switched = False
        """Whether the connection left HTTP: to be taken over, with what came after the head."""
        self.has_bytes = False
        """Whether the upstream answered with a byte at all."""
        self.has_body = False
        """Whether a body byte came: from then on a failure is a truncation."""
        self.is_complete = False
        self.heard_at = 0.0
        """Loop time at which the latest bytes came."""
        self.most_bytes: int = sys.maxsize
        """Of the message, framing included: a reply that never ends is given up after these."""

    @property
    def is_open(self) -> bool:
        """Whether head and first body byte, or the end, are there; or it failed."""
        return self.has_body or self.is_over or self.is_switched

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.is_complete or self._error is not None

    # ---- what the connection tells

    def feed(self, data: bytes) -> None:
        """Bytes arrived."""
        self.heard_at = self._now()
        self._size_bytes += len(data)
        if self._size_bytes > self.most_bytes:
            self.fail(ReplyTruncated(f"The reply of {self._who} has no end. Ask for a shorter one."))
            return
        body = self._body
        if body is None:
            self.has_bytes = True
            body, data = self._read_head(data)
            if body is None:
                return
        good, part = body.feed(data)
        raw = data if good == len(data) else data[:good]
        if raw:
            self._pass_on(raw, part)
        elif self.is_switched:
            self.wake()
        if body.is_done:
            self._complete(is_clean=good == len(data))
        elif body.is_broken:
            self._break("its chunks are broken")

    def ended(self, is_clean: bool, is_refusal: bool = False) -> None:
        """The upstream ended the connection; ``is_refusal``: it ended TLS with an alert."""
        who = self._who
        if is_clean and self._body is not None and self.head.framing.name == "close":
            self._complete(is_clean=True)
        elif is_refusal and not self.has_bytes:
            self.fail(NotTrusted(f"{who} does not accept this machine's key. Pair the two machines again."))
        elif self.has_body:
            self.fail(ReplyTruncated(f"{who} ended its reply in the middle. Send the request again."))
        else:
            self.fail(BrokenReply(f"{who} closed the connection without a reply. Send the request again."))

    def fail(self, error: BaseException) -> None:
        """End it with ``error`` and abort the connection, unless it is over already."""
        if not self.is_over:
            self._error = error
            self._sink = None
            link, self._link = self._link, None
            if link is not None:
                link.abort()
            self.wake()

    # ---- waiting

    def wait(self) -> asyncio.Future[None]:
        """Done at the next thing worth looking at: opened, more held, paused, over, woken."""
        self._waiter = self._loop.create_future()
        return self._waiter

    def wake(self) -> None:
        """End a wait."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
            if self._sink is None and self._link is not None:
                self._link.expect()

    def raise_failure(self) -> None:
        """Raise what ended it, if anything did."""
        if self._error is not None:
            raise self._error

    # ---- inside

    def _read_head(self, data: bytes) -> tuple[Framing | None, bytes]:
        try:
            head, rest = self._next_head(data)
        except Malformed as fault:
            self._break(str(fault))
            return None, b""
        if head is None:
            return None, b""
        if head.status in (204, 304) and rest:
            self._break("it has a body where none may be")
            return None, b""
        self.head, self._body = head, head.framing.begin()
        self.is_switched = head.status == SWITCHING
        return self._body, rest

    def _next_head(self, data: bytes) -> tuple[Head | None, bytes]:
        """The head, once it is there, and what came behind it. Raises Malformed.

        Most replies begin with the same bytes as the one before on their connection: no need to look for the
        end of those.
        """
        link = None if self._method == "HEAD" else self._link  # to HEAD the same head has no body
        reader = self._head_reader
        if reader is None:
            usual = None if link is None else link.usual
            if usual is not None and data.startswith(usual.raw):
                return usual, data[len(usual.raw) :]
            reader = HeadReader(self._method, self._header_bytes, self._may_switch)
            self._head_reader = reader
        head = reader.feed(data)
        if head is None:
            return None, b""
        self._head_reader = None
        if link is not None and head.is_remembered:
            link.usual = head
        return head, reader.rest

    def _pass_on(self, raw: bytes, part: bytes) -> None:
        sink = self._sink
        if sink is None:
            self._hold(raw, part)
            return
        try:
            sink.write(raw)
            if part:
                sink.see(part)
            self._room_bytes -= len(raw)
            if self._room_bytes < 0 and not self._has_room(sink):
                self._pause()
                self.wake()
        except Exception as error:  # noqa: BLE001 the client's side failed: relay() raises it, not the transport
            self.fail(error)

    def _has_room(self, sink: Sink) -> bool:
        """Whether no more than allowed waits for the client, and how much may be written unasked then.

        To ask took as long as to write. What is written may be longer than what came: another framing.
        """
        left = self._buffer_bytes - sink.buffered()
        self._room_bytes = left // LENGTHENED
        return left >= 0

    def _hold(self, raw: bytes, part: bytes) -> None:
        self._held.append(raw)
        self._held_bytes += len(raw)
        if self._held_bytes > self._buffer_bytes:
            self._pause()
        if part:
            self._held_parts.append(part)
            self.has_body = True
            self.wake()

    def _take_raw(self) -> bytes:
        """What was held, as it came; to be taken before its parts."""
        raw = _joined(self._held)
        self._held_bytes = 0
        return raw

    def _take_part(self) -> bytes:
        """What was held, decoded."""
        return _joined(self._held_parts)

    def _complete(self, is_clean: bool) -> None:
        if self.is_over:
            return
        self.is_complete = True
        self._resume()
        link, self._link = self._link, None
        if link is not None:
            link.release(is_clean and self.head.keep_alive)
        self.wake()

    def _break(self, fault: str) -> None:
        kind: type[UpstreamError] = ReplyTruncated if self.has_body else BrokenReply
        self.fail(kind(f"The reply of {self._who} breaks HTTP/1.1: {fault}. Look into that engine's log."))

    def _pause(self) -> None:
        if self._link is not None and not self._is_paused:
            self._is_paused = True
            self._link.pause()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._link is not None:
                self._link.resume()


def _joined(parts: list[bytes]) -> bytes:
    joined = parts[0] if len(parts) == 1 else b"".join(parts)
    parts.clear()
    return joined
