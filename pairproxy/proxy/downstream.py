"""The client's connection: reply bytes go to its transport as they came; a broken reply ends honestly.

aiohttp parses the request and keeps the connection; the reply is written past it, because a reply that is
taken apart and framed anew is no longer the engine's reply (and costs three times as much).
"""

from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from pairproxy.core.dialects.failures import error_body, final_line
from pairproxy.core.errors import NotAllowed, PairproxyError, RequestError
from pairproxy.core.models import Dialect
from pairproxy.proxy import headers
from pairproxy.upstreams import Reply


class Written(web.StreamResponse):
    """Tells aiohttp that the reply is on the wire already, and whether the connection may be used again."""

    def __init__(self, is_keep_alive: bool) -> None:
        super().__init__()
        self._is_kept = is_keep_alive

    @property
    def keep_alive(self) -> bool | None:
        """Whether another request may follow on this connection."""
        return self._is_kept

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Nothing is left to send."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""


class Downstream:
    """One request's way back to its client."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._is_begun = False
        self._is_kept = request.keep_alive and request.version >= (1, 1)

    def written(self) -> Written:
        """What the handler returns to aiohttp in the end."""
        return Written(self._is_kept and self._is_begun)

    def begin(self, reply: Reply, is_from_peer: bool, extra: Iterable[tuple[str, str]] = ()) -> None:
        """Send the reply's head, with ``extra`` headers of ours. Its body follows through write()."""
        self._is_begun = True
        self._is_kept = self._is_kept and reply.framing != "close"
        major, minor = min(reply.version, (1, 1))
        lines = [b"HTTP/%d.%d %d %s" % (major, minor, reply.status, reply.reason)]
        lines += [name + b": " + value for name, value in headers.to_client(reply.headers, is_from_peer)]
        lines += [f"{name}: {value}".encode("latin-1", "replace") for name, value in extra]
        if not self._is_kept:
            lines.append(b"Connection: close")
        self.write(b"\r\n".join(lines) + b"\r\n\r\n")

    def write(self, data: bytes) -> None:
        """Pass raw, framed bytes on at once."""
        transport = self._request.transport
        if transport is not None and not transport.is_closing():
            transport.write(data)

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written. Raises ConnectionError when it left."""
        await self._request.writer.drain()

    def buffered(self) -> int:
        """Bytes written that the client has not taken yet."""
        transport = self._request.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    def fail(self, dialect: Dialect, error: PairproxyError, extra: tuple[tuple[str, str], ...] = ()) -> None:
        """Answer with an error of ours, in the caller's words. After begin() the connection can only break."""
        if self._is_begun:
            self.break_off(dialect, error, at_chunk_boundary=False)
            return
        self._is_begun = True
        body = b"" if isinstance(error, NotAllowed) else error_body(dialect, error)
        if isinstance(error, RequestError) and error.status != 404:
            self._is_kept = False  # what else comes on this connection cannot be trusted to be framed
        lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
        if body:
            lines.append("Content-Type: application/json; charset=utf-8")
        lines += [f"Content-Length: {len(body)}", "Cache-Control: no-store"]
        if error.retry_after_s is not None:
            lines.append(f"Retry-After: {error.retry_after_s}")
        lines += [f"{name}: {value}" for name, value in extra]
        if not self._is_kept:
            lines.append("Connection: close")
        head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
        self.write(head if self._request.method == "HEAD" else head + body)

    def break_off(self, dialect: Dialect, error: PairproxyError, at_chunk_boundary: bool) -> None:
        """End a reply that lost its node: without its terminator, so that no client takes it for whole."""
        self._is_kept = False
        line = final_line(dialect, error)
        if at_chunk_boundary and line is not None:
            self.write(b"%x\r\n%s\r\n" % (len(line), line))
        transport = self._request.transport
        if transport is not None:
            transport.close()
