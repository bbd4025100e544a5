"""One TCP or TLS connection to an upstream: it carries one exchange after another, never two at once."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, cast

from pairproxy.security import tls
from pairproxy.upstreams.head import Head
from pairproxy.upstreams.incoming import Incoming
from pairproxy.upstreams.outbox import Sender, outbox_of

Address = tuple[str, int]

JOINED_BYTES: Final = 8 * 1024  # a body up to this is copied behind its head: over TLS both are one record


def host_header(address: Address) -> bytes:
    """The Host header for an address: brackets around IPv6, no zone."""
    host, port = address
    host = host.partition("%")[0]
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()


class Connection(Sender):
    """The near end of a connection; ``released`` and ``lost`` are told what becomes of it.

    It has all that asyncio.Protocol has, but is none: a class that is compiled has no base that is not.
    """

    _transport: asyncio.Transport

    def __init__(
        self,
        address: Address,
        released: Callable[["Connection", bool], None],
        lost: Callable[["Connection"], None],
    ) -> None:
        self.loop = loop = asyncio.get_running_loop()
        self.now = loop.time
        """Loop time: to ask for the running loop is a system call each time."""
        super().__init__(outbox_of(loop))
        self.address = address
        self.who = host_header(address).decode()
        """What the other end is called in errors."""
        self.requests = 0
        self.idle_since = 0.0  # loop time
        self.is_sent = True
        """Whether the current request was written whole."""
        self.usual: Head | None = None
        """The head of its last reply, if its next one may well have the same."""
        self._has_body = False
        self._released = released
        self._lost = lost
        self._reply: Incoming | None = None
        self._is_write_paused = False
        self._writable: asyncio.Future[None] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether a request could be written now."""
        return not self._transport.is_closing()

    @property
    def local_host(self) -> str:
        """The address of this machine that it goes out from, without a zone; "" when it is closed."""
        name = self._transport.get_extra_info("sockname")
        return str(name[0]).partition("%")[0] if name else ""

    def peer_certificate(self) -> bytes | None:
        """The certificate (DER) that the other end proved, None without TLS."""
        return tls.peer_certificate(self._transport)

    def begin(self, reply: Incoming, head: bytes, body: bytes | None) -> None:
        """Write a request, only its head if ``body`` is None; the answer goes to ``reply``."""
        self._reply = reply
        self._has_body = body != b""
        self.requests += 1
        self.is_sent = body is not None
        if body and len(body) > JOINED_BYTES:
            self._outbox.count()  # or whoever writes next would wait for this request
            self._transport.writelines((head, body))
        else:
            self.send(head + body if body else head)

    def expect(self) -> None:
        """Hear that its reply begins: whoever waits for that will write to a client."""
        self._outbox.expect()

    def write(self, data: bytes | memoryview) -> None:
        """Write more of the request's body."""
        self.flush()
        self._transport.write(data)

    async def writable(self) -> None:
        """Return when the upstream has taken enough for more to be written."""
        while self._is_write_paused:
            self._writable = self.loop.create_future()
            try:
                await self._writable
            finally:
                self._writable = None
        await asyncio.sleep(0)  # an early answer is noticed between two slices

    def pause(self) -> None:
        """Read no more until ``resume``; the upstream's writes will block."""
        if self.is_usable:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self.is_usable:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Drop it at once, unsent bytes included; its reply knows already."""
        self._reply, self._unsent = None, b""
        self._transport.abort()

    def end(self) -> None:
        """Drop it at once; a reply under way fails."""
        self._transport.abort()

    def release(self, is_clean: bool) -> None:
        """The exchange is over; ``is_clean`` says whether the reply allows another one."""
        is_idle = self.is_sent and self.unsent_bytes() == 0
        is_reusable = is_clean and is_idle and self.is_usable and self._is_read_up()
        self._reply = None
        self._released(self, is_reusable)

    def _is_read_up(self) -> bool:
        """Whether no part of a body is left there, which would be taken for the next request.

        Who refuses need not have read it (llama-server while it loads). Peers are pairproxies: those do.
        """
        reply = self._reply
        if not self._has_body or reply is None or reply.head.status < 400:
            return True
        return self._transport.get_extra_info("sslcontext") is not None

    def hand_over(self) -> asyncio.Transport:
        """Give the connection away, for good; whoever has it calls this one's connection_lost in the end."""
        self._reply = None
        self.flush()
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start: TCP, and TLS if any, are established."""
        self._wire = self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        """Hand bytes to the reply under way; nobody else may ever get them."""
        reply = self._reply
        if reply is None:
            self.abort()
        else:
            reply.feed(data)

    def eof_received(self) -> None:
        """The upstream ended its side; what we still had to send has no reader."""
        self._end(is_clean=True)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing moves any more."""
        self._end(is_clean=False, is_refusal=isinstance(exc, ssl.SSLError))
        self.resume_writing()
        self._lost(self)

    def pause_writing(self) -> None:
        """Let ``writable`` wait."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """End its wait."""
        self._is_write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def _end(self, is_clean: bool, is_refusal: bool = False) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.ended(is_clean, is_refusal)
