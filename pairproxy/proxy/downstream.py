"""The client's connection: reply bytes go to its transport as they came; a broken reply ends honestly.

A reply is not taken apart and framed anew, for then it is no longer the engine's reply (and costs three times
as much).
"""

import asyncio
import socket
import struct
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus

from pairproxy.config import Limits
from pairproxy.core.dialects.failures import error_body, final_line
from pairproxy.core.dialects.meter import Meter
from pairproxy.core.errors import NotAllowed, PairproxyError, QueueFull, RequestError
from pairproxy.core.models import Dialect
from pairproxy.proxy import cors, headers
from pairproxy.proxy.body import Kept
from pairproxy.proxy.faults import log_fault
from pairproxy.proxy.request import HttpRequest, Written
from pairproxy.responses import http_date
from pairproxy.upstreams import Head, Reply, Sink

OPENINGS = 64  # heads as clients got them that are remembered, as many as heads themselves (upstreams.head)

NDJSON = "application/x-ndjson"
JSON = ("Content-Type", "application/json; charset=utf-8")


class Downstream(Sink):
    """One request's way back to its client; ``meter`` follows what it passes on."""

    def __init__(self, request: HttpRequest, stall_s: float = Limits().client_stall_s) -> None:
        """``stall_s``: after so long without taking a byte a client is put out."""
        self._request = request
        self._connection = request.connection
        self._stall_s = stall_s
        self._reply: Reply | None = None
        self._is_begun = False
        self._opening = b""  # a head that waits for the first byte of its body
        self._last = b""  # the end of what was written
        self.is_framed_here = False
        """Whether each chunk is made here and holds whole records (proxy.continuing)."""
        self.meter: Meter | None = None
        self.kept: Kept | None = None
        """What has to be kept until the reply begins, and no longer."""
        self._page_lines: cors.Lines = ()
        self._is_page_ours = False
        self._is_kept = request.keep_alive and request.version >= (1, 1)

    def written(self) -> Written:
        """What the handler returns in the end."""
        return Written(self._is_kept and self._is_begun)

    def tell_page(self, lines: cors.Lines, is_ours: bool) -> None:
        """Add ``lines`` to every reply that is not the local engine's own.

        ``is_ours``: to those too, in place of what that engine says to pages.
        """
        self._page_lines = lines
        self._is_page_ours = is_ours

    def answer(self, status: int, lines: cors.Lines, body: bytes = b"") -> None:
        """Send a whole reply of ours, with its Date and what pages are told."""
        self._send_whole(status, (*lines, *self._page_lines), body)

    def remake(self, reply: Reply | None, body: bytes, *, is_json: bool = False) -> None:
        """Send a whole 200 with this JSON and else the headers of the engine's ``reply``, if it gave one.

        ``is_json``: the engine's own body was something else.
        """
        if reply is None:
            return self.answer(200, (JSON,), body)
        fields = headers.without_body(self._fields(reply, is_from_peer=False))
        lines = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
        if is_json:
            lines = [JSON, *(line for line in lines if line[0].lower() != "content-type")]
        return self._send_whole(200, lines, body)

    def _send_whole(self, status: int, lines: Iterable[tuple[str, str]], body: bytes) -> None:
        self._begin()
        head = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            *(f"{name}: {text}" for name, text in lines),
        ]
        head.append(f"Date: {http_date()}")
        if status != HTTPStatus.NO_CONTENT:
            head.append(f"Content-Length: {len(body)}")
        if not self._is_kept:
            head.append("Connection: close")
        text = "\r\n".join(head).encode("latin-1", "replace") + b"\r\n\r\n"
        self.write(text if self._request.method == "HEAD" else text + body)

    def begin(
        self, reply: Reply, is_from_peer: bool, extra: cors.Lines = (), *, waits_for_body: bool = False
    ) -> None:
        """Send the reply's head, with ``extra`` headers of ours. Its body follows through write().

        ``waits_for_body``: the head goes with the first write, which comes at once (one system call less).
        """
        self._begin()
        self._reply = reply
        self._is_kept = self._is_kept and reply.framing != "close"
        if extra or self._page_lines or not reply.head.is_remembered:
            self._opening = _opening(reply.head, self._fields(reply, is_from_peer), self._is_kept, extra)
        else:
            self._opening = _opening_again(reply.head, is_from_peer, self._is_kept)
        if not waits_for_body:
            self.write(b"")

    def _fields(self, reply: Reply, is_from_peer: bool) -> headers.Headers:
        """A reply's headers as this client gets them."""
        fields = headers.to_client(reply.headers, is_from_peer)
        if not self._page_lines or not (is_from_peer or self._is_page_ours):
            return fields
        kept = (pair for pair in fields if not pair[0].lower().startswith(cors.PREFIX))
        told = ((name.encode(), text.encode("latin-1", "replace")) for name, text in self._page_lines)
        return (*kept, *told)

    def write(self, data: bytes) -> None:
        """Pass raw, framed bytes on in this turn of the loop."""
        if self._opening:
            data, self._opening = self._opening + data, b""
            if self.kept is not None:
                self.kept.let_go()
        self._last = data if len(data) > 2 else (self._last + data)[-3:]
        self._connection.send(data)

    def see(self, part: bytes) -> None:
        """Show decoded bytes to the meter."""
        if self.meter is not None:
            self.meter.feed(part)

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written.

        Raises ConnectionError when it left, or took nothing for too long and was put out.
        """
        while True:
            before = self.buffered()
            try:
                async with asyncio.timeout(self._stall_s):
                    await self._connection.drain()
                return
            except TimeoutError:
                if self.buffered() >= before:
                    self._abort()
                    raise ConnectionResetError("the client takes nothing") from None

    def buffered(self) -> int:
        """Bytes written that the client has not taken yet."""
        return self._connection.unsent_bytes()

    def fail(
        self,
        dialect: Dialect,
        error: PairproxyError,
        extra: tuple[tuple[str, str], ...] = (),
        body: bytes | None = None,
    ) -> None:
        """End with an error of ours: as the answer, or, once a reply began, by breaking that off.

        ``body``: JSON to send with it, in place of the error in words.
        """
        if self._is_begun:
            self._break_off(dialect, error)
            return
        self._begin()
        if body is None:
            body = b"" if isinstance(error, NotAllowed) else error_body(dialect, error)
        if isinstance(error, RequestError | QueueFull) and error.status != 404:
            self._is_kept = False  # what else comes on this connection cannot be trusted to be framed
        lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
        if body:
            lines.append("Content-Type: application/json; charset=utf-8")
        lines += [f"Content-Length: {len(body)}", "Cache-Control: no-store"]
        if error.retry_after_s is not None:
            lines.append(f"Retry-After: {error.retry_after_s}")
        lines += [f"{name}: {value}" for name, value in (*self._page_lines, *extra)]
        if not self._is_kept:
            lines.append("Connection: close")
        head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
        self.write(head if self._request.method == "HEAD" else head + body)

    def fail_unexpectedly(self, dialect: Dialect, error: Exception) -> None:
        """End after a fault of pairproxy itself."""
        log_fault(error)
        self.fail(dialect, PairproxyError("pairproxy failed; its log says where."))

    def _begin(self) -> None:
        self._is_begun = True
        self._connection.is_answering = True

    def _break_off(self, dialect: Dialect, error: PairproxyError) -> None:
        """End a reply that lost its node: without its terminator, so that no client takes it for whole."""
        self._is_kept = False
        reply = self._reply
        if reply is None:  # an answer of ours; it is whole
            return
        self.write(b"")
        line = final_line(dialect, error)
        if line is not None and self._is_between_lines(reply):
            self.write(line if reply.framing == "close" else b"%x\r\n%s\r\n" % (len(line), line))
        if reply.framing == "close":
            self._abort()  # an orderly end would say that this was all
        else:
            self._connection.end()

    def _is_between_lines(self, reply: Reply) -> bool:
        """Whether the client would read what is written now as one more line."""
        kind = headers.first(reply.headers, "Content-Type") or ""
        if not kind.startswith(NDJSON):
            return False
        if reply.framing == "close":
            return self._last.endswith(b"\n")
        is_at_boundary = self.is_framed_here or reply.is_at_chunk_boundary
        return is_at_boundary and self._last.endswith(b"\n\r\n")

    def _abort(self) -> None:
        """End the connection with RST, after what the system already has of it."""
        transport = self._connection.transport
        if transport is not None:
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()


def _opening(head: Head, fields: headers.Headers, is_kept: bool, extra: cors.Lines) -> bytes:
    """A head as the client gets it."""
    major, minor = min(head.version, (1, 1))
    lines = [b"HTTP/%d.%d %d %s" % (major, minor, head.status, head.reason)]
    lines += [b"%b: %b" % pair for pair in fields]
    lines += [f"{name}: {value}".encode("latin-1", "replace") for name, value in extra]
    if not is_kept:
        lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


@lru_cache(OPENINGS)
def _opening_again(head: Head, is_from_peer: bool, is_kept: bool) -> bytes:
    """What is written for one of the heads that come again and again, where nothing is added for a page."""
    return _opening(head, headers.to_client(head.headers, is_from_peer), is_kept, ())
