"""aiohttp's server with the settings that a port of ours needs; both ports are made here."""

import asyncio
import logging
import socket
import ssl
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from pairproxy.config import Limits

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

HANDSHAKE_S = 5.0  # LAN handshakes take milliseconds; asyncio's 60 s would let strangers hold sockets
IDLE_S = 75.0  # a client's idle connection; also the deadline for the head of its next request
SHUTDOWN_S = 0.1  # for cancelled handlers to end; to aiohttp 0 means for ever
LINGERING_S = 2.0  # reading away the rest of a refused body, so that the client sees the answer
LEFT_S = 0.2  # between looks at a client that ended its side: an engine has to stop within 1 s
AT_ONCE_S = 0.001  # aiohttp takes 0 for "wait for ever"
HANDLERS_END_S = 1.0  # a cancelled handler has nothing to wait for
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_log = logging.getLogger(__name__)
_silent = logging.getLogger("pairproxy.http")
_silent.disabled = True  # aiohttp quotes request bytes in its messages, and those may hold a prompt
_NO_HTTP = b'{"error":"This is not a request as HTTP/1.1 wants it. Correct what sends it."}'
_FAULT = b'{"error":"pairproxy failed; its log says where."}'


def log_fault(error: Exception) -> None:
    """Say where pairproxy failed; never the error's text, which may hold a prompt."""
    steps = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{step.name}:{step.lineno}" for step in reversed(steps))
    _log.error("a fault of pairproxy: %s in %s. Please report it.", type(error).__name__, where)


class Connection(web.RequestHandler):
    """A connection whose client may end its side of it and still get the answer, as ``nc -N`` does.

    A client that left ends its side too. If no reply begins within a moment, an interim one is sent, which
    clients of HTTP/1.1 have to skip: what is gone answers it with a reset.
    """

    __slots__ = ("_has_ended", "_waits_for_half_closed", "is_answering")

    def __init__(self, manager: web.Server, waits_for_half_closed: bool, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._waits_for_half_closed = waits_for_half_closed
        self._has_ended = False
        self.is_answering = False
        """Whether bytes of a reply were written past aiohttp, and no other request came since."""

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
        response = web.Response(
            status=status, body=_NO_HTTP if status < 500 else _FAULT, content_type="application/json"
        )
        response.force_close()
        return response

    def eof_received(self) -> bool | None:  # type: ignore[override]  # what asyncio.Protocol says
        """Keep the connection for the reply under way if a whole request came before its end."""
        if self.transport is None or not self._waits_for_half_closed:
            return None
        is_idle = self._request_count == 0 or (self._waiter is not None and not self._waiter.done())
        if is_idle or self.is_answering or self._is_cut():
            return None
        if not self._has_ended:  # uvloop says it twice
            self._has_ended = True
            self.close()  # after this reply
            self._loop.call_later(LEFT_S, self._look, True)
        return True

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


class _Server(web.Server):
    """Makes our kind of connection."""

    def __init__(self, handler: Handler, **settings: Any) -> None:
        super().__init__(handler, handler_cancellation=True)  # a client that leaves cancels its handler
        self._settings = settings

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=self._loop, **self._settings)


class Port:
    """One listening port and its connections."""

    def __init__(self, handler: Handler, limits: Limits, *, waits_for_half_closed: bool = False) -> None:
        """``waits_for_half_closed``: not with TLS, where a client cannot end its side alone."""
        self._handler = handler
        self._handling = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._server = _Server(
            self._handle_one,
            waits_for_half_closed=waits_for_half_closed,
            access_log=None,
            logger=_silent,
            auto_decompress=False,
            keepalive_timeout=IDLE_S,
            lingering_time=LINGERING_S,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=128,
        )
        self._listening: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        """Open connections, idle ones included."""
        return len(self._server.connections)

    async def start(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Answer on a bound socket from now on."""
        self._listening = await asyncio.get_running_loop().create_server(
            self._server,
            sock=sock,
            ssl=tls,
            backlog=1024,
            ssl_handshake_timeout=HANDSHAKE_S if tls is not None else None,
        )

    def close(self) -> None:
        """Take no new connections; those that are open go on."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def stop(self, grace_s: float = 0.0) -> None:
        """Close the port and, after ``grace_s``, what is open on it; its handlers have ended then."""
        self.close()
        await self._server.shutdown(max(grace_s, AT_ONCE_S))
        with suppress(TimeoutError):  # aiohttp cancels its handlers and does not look back
            async with asyncio.timeout(HANDLERS_END_S):
                await self._idle.wait()

    async def _handle_one(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        self._handling += 1
        self._idle.clear()
        try:
            if isinstance(connection, Connection):
                connection.fail_broken_body()
            return await self._handler(request)
        except ConnectionError:
            raise  # the client left
        except Exception as error:
            log_fault(error)
            raise
        finally:
            if isinstance(connection, Connection):
                connection.is_answering = False
            self._handling -= 1
            if not self._handling:
                self._idle.set()
