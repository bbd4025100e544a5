"""One connection to a port of ours: aiohttp's, with what it would say and quote itself taken over.

A client may end its side of it and still get the answer; what is no HTTP and what is a fault are answered
without a word of the request.
"""

import asyncio
import logging
import socket
import traceback
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

LEFT_S = 0.2  # between looks at a client that ended its side: an engine has to stop within 1 s
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_HTTP = b'{"error":"This is not a request as HTTP/1.1 wants it. Correct what sends it."}'
_FAULT = b'{"error":"pairproxy failed; its log says where."}'

_log = logging.getLogger(__name__)


def log_fault(error: Exception) -> None:
    """Say where pairproxy failed; never the error's text, which may hold a prompt."""
    steps = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{step.name}:{step.lineno}" for step in reversed(steps))
    _log.error("a fault of pairproxy: %s in %s. Please report it.", type(error).__name__, where)


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


class Connection(web.RequestHandler):
    """A connection whose client may end its side of it and still get the answer, as ``nc -N`` does.

    A client that left ends its side too. If no reply begins within a moment, an interim one is sent, which
    clients of HTTP/1.1 have to skip: what is gone answers it with a reset.
    """

    __slots__ = ("_has_ended", "_waits_for_half_closed", "is_answering", "shown")

    def __init__(self, manager: web.Server, waits_for_half_closed: bool, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._waits_for_half_closed = waits_for_half_closed
        self._has_ended = False
        self.is_answering = False
        """Whether bytes of a reply were written past aiohttp, and no other request came since."""
        self.shown = ""
        """By which key its last request was let in (key_port); "": by none."""

    def data_received(self, data: bytes) -> None:
        """Take in bytes; aiohttp itself would let the reader of a body whose framing broke wait for ever."""
        super().data_received(data)
        self.fail_broken_body()

    def hand_over(self) -> tuple[asyncio.Transport | None, bytes, bool]:
        """Give the connection away to what it was upgraded to; connection_lost is to be passed back here.

        Returns (transport, None if the client left; what it sent after its request; whether that was all).
        """
        self.is_answering = True
        early, self._message_tail = self._message_tail, b""
        return self.transport, early, self._has_ended

    def part(self) -> None:
        """End after what is under way; one that brought no request yet may bring it, for a client is waiting.

        aiohttp's own close() leaves an idle connection open and reads no more from it.
        """
        if self._request_count and not self._has_request and not self.is_answering:
            self.force_close()
        elif self._request_count:
            self.close()

    def give_way(self) -> bool:
        """Close at once if nothing is under way; False: a request is, or a reply is not on the wire yet."""
        transport = self.transport
        if transport is None or self._has_request or transport.get_write_buffer_size():
            return False
        self.force_close()
        transport.abort()  # TLS would keep the descriptor until the other side has said goodbye as well
        return True

    def fail_broken_body(self) -> None:
        """Tell the reader of a body that it will never be whole."""
        request = self._current_request
        # Behind a body that is under way there can be no other request: it is aiohttp's note of an error.
        if request is not None and self._messages and not request.content.is_eof():
            request.content.set_exception(web.RequestPayloadError("broken framing"))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP, and a fault, without quoting anything."""
        if self.is_answering or request.writer.output_size > 0:
            raise ConnectionError("a reply is under way")
        body = _NO_HTTP if status < 500 else _FAULT
        head = [
            # Of a head that cannot be read aiohttp thinks that it is HTTP/1.0, and it would name itself.
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            "Content-Type: application/json; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        return Written(is_keep_alive=False)

    def eof_received(self) -> bool | None:  # type: ignore[override]  # what asyncio.Protocol says
        """Keep the connection for the reply under way if a whole request came before its end."""
        if self.transport is None or not self._waits_for_half_closed:
            return None
        if not self._has_request or self.is_answering or self._is_cut():
            return None
        if not self._has_ended:  # uvloop says it twice
            self._has_ended = True
            self.close()  # after this reply
            self._loop.call_later(LEFT_S, self._look, True)
        return True

    @property
    def _has_request(self) -> bool:
        """Whether a request came whose answer has not ended.

        Between reading one and beginning with it aiohttp knows of none for a turn of the loop (Python 3.11),
        neither in its messages nor as the current one; but then it does not wait for one either.
        """
        return self._request_count > 0 and (self._waiter is None or self._waiter.done())

    def _is_cut(self) -> bool:
        """Whether the request is known to be shorter than it said."""
        return self._current_request is not None and not self._current_request.content.is_eof()

    def _look(self, may_ask: bool) -> None:
        """See whether the client left; once, if there is no other way, by asking."""
        transport, request = self.transport, self._current_request
        if transport is None or transport.is_closing():
            return
        sock = transport.get_extra_info("socket")
        if self._is_cut() or sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            transport.abort()
            return
        is_asking = may_ask and not self.is_answering and request is not None and request.version >= (1, 1)
        if is_asking:
            transport.write(CONTINUE)
        self._loop.call_later(LEFT_S, self._look, may_ask and not is_asking)
