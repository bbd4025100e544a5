"""One reply as its caller sees it: the head, and three ways to take the body."""

import asyncio
from collections.abc import Callable

from pairproxy.core.errors import BrokenReply, ReplyTruncated
from pairproxy.upstreams.framing import FramingName
from pairproxy.upstreams.incoming import Incoming
from pairproxy.upstreams.lines import Lines
from pairproxy.upstreams.sink import Sink


class Reply(Incoming):
    """A reply whose head and first body byte (or empty body) are there.

    Whoever got it must finish it: ``relay``, ``read`` or ``lines`` to the end, ``abandon``, or for one that
    ``is_switched`` ``take_over``.
    """

    @property
    def status(self) -> int:
        """200 to 599."""
        return self.head.status

    @property
    def reason(self) -> bytes:
        """The reason phrase, possibly empty."""
        return self.head.reason

    @property
    def version(self) -> tuple[int, int]:
        """(1, 0) or (1, 1)."""
        return self.head.version

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Names and values as the upstream sent them, in order, hop-by-hop headers included."""
        return self.head.headers

    @property
    def framing(self) -> FramingName:
        """How the raw bytes that ``relay`` writes say where the body ends."""
        return self.head.framing.name

    @property
    def keep_alive(self) -> bool:
        """Whether the upstream would take another request on this connection."""
        return self.head.keep_alive

    @property
    def is_at_chunk_boundary(self) -> bool:
        """Whether one more chunk could be written after what was relayed; False unless chunked."""
        return not self._held and self._body is not None and self._body.is_at_boundary

    @property
    def has_end(self) -> bool:
        """Whether the end of the message came: already while its last bytes are handed on."""
        return self._body is not None and self._body.is_done

    async def relay(self, sink: Sink, begun: Callable[[], object] = bool) -> None:
        """Pass the body on until it is complete.

        What is there already is written at once, even if that is nothing, and before anything else is done;
        ``begun`` is called after it, once. Then every raw framed byte is written as it arrives, and then its
        decoded body bytes are shown. While more than ``relay_buffer_bytes`` wait for the client the
        upstream is paused until ``drain()`` returns. Raises ReplyTruncated when the upstream dies or breaks
        its framing, and whatever ``sink`` raises. Any error, and cancelling, aborts the upstream.
        """
        try:
            sink.write(self._take_raw())
            begun()
            if part := self._take_part():
                sink.see(part)
            if self.is_complete:
                return
            self._sink = sink
            while True:
                if not self._has_room(sink) and not self.is_complete:
                    self._pause()
                    await sink.drain()
                if self.is_over:
                    break
                self._resume()
                await self.wait()
            self.raise_failure()
        except BaseException:
            self.abandon()
            raise
        finally:  # who is written to holds this reply: all of it would wait for the garbage collector
            self._sink = None

    async def read(self, limit_bytes: int) -> bytes:
        """Return the decoded body. Raises BrokenReply beyond ``limit_bytes``, ReplyTruncated on death."""
        body = bytearray()
        try:
            while part := await self.more():
                body += part
                if len(body) > limit_bytes:
                    size = f"more than {limit_bytes} bytes"
                    raise BrokenReply(f"The reply of {self._who} holds {size}. Nothing of it is used.")
        except BaseException:
            self.abandon()
            raise
        return bytes(body)

    def lines(self, limit_bytes: int) -> Lines:
        """The decoded lines without their ends, each at most ``limit_bytes``.

        They raise BrokenReply beyond that, ReplyTruncated on death. Leaving early aborts the connection:
        use ``contextlib.aclosing``.
        """
        return Lines(self, limit_bytes)

    async def more(self) -> bytes:
        """The next decoded bytes, b"" at the end. Raises ReplyTruncated on death, after what came."""
        while True:
            self._take_raw()
            if part := self._take_part():
                return part
            if self.is_over:
                self.raise_failure()
                return b""
            self._resume()
            await self.wait()

    def take_over(self) -> tuple[asyncio.Transport | None, bytes]:
        """Give away the connection of a reply that is_switched, to be given a protocol at once.

        Returns its transport, None if the upstream ended it already, and the bytes that came after the head.
        That protocol has to pass connection_lost on to the former one. Raises ReplyTruncated if it broke.
        """
        self.raise_failure()
        link, self._link = self._link, None
        held = self._take_raw()
        self.is_complete = True
        if link is None:
            return None, held
        return link.hand_over(), held

    def abandon(self) -> None:
        """Abort the connection now, so that the engine sees its client leave; drop what waits unread.

        Harmless on a reply that is complete.
        """
        self._take_raw()
        self._take_part()
        self.fail(ReplyTruncated(f"The reply of {self._who} was given up here."))

    @property
    def who(self) -> str:
        """What the upstream is called in errors."""
        return self._who
