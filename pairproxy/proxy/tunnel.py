"""A WebSocket on a client port: raw bytes both ways between a client and the engine of this port.

    is_websocket(request)  -> the engine is asked, with the client's own Upgrade
    reply.is_switched      -> tunnel(): the engine's 101 goes out as it came, then nothing is parsed any more
    any other reply        -> is relayed like every reply; the connection stays HTTP

No frame is read, so extensions, compression and close codes are between the two. There is no idle timeout:
silence is normal here. Each end holds at most what the other end's socket does not take.
"""

import asyncio

from pairproxy.config import Limits
from pairproxy.proxy import headers
from pairproxy.proxy.request import HttpRequest
from pairproxy.upstreams import Outgoing, Reply

STALLED_S = Limits().client_stall_s  # for one side to take what is on its way to it when the other has ended

_KEPT = frozenset({b"connection", b"upgrade"})


def is_websocket(request: HttpRequest) -> bool:
    """Whether a client really asks for a WebSocket (RFC 6455, 4.1); any other Upgrade ends at this hop."""
    if request.method != "GET" or request.version < (1, 1):
        return False
    fields = request.headers
    tokens = {token.strip().lower() for token in ",".join(fields.getall("Connection", [])).split(",")}
    return (
        "upgrade" in tokens
        and [value.strip().lower() for value in fields.getall("Upgrade", [])] == ["websocket"]
        and bool(fields.get("Sec-WebSocket-Key"))
        and not request.can_read_body
    )


def upgrading(request: HttpRequest) -> Outgoing:
    """The request for the engine: as every other one, but for the headers that ask for the upgrade."""
    pairs = request.raw_headers
    others = frozenset(name.lower() for name, _ in headers.to_engine(pairs))
    fields = tuple((name, value) for name, value in pairs if name.lower() in others | _KEPT)
    return Outgoing("GET", request.raw_path, fields, may_switch=True)


async def tunnel(request: HttpRequest, reply: Reply, buffer_bytes: int) -> None:
    """Carry bytes both ways until both sides have ended, or one is lost; then neither is open any more.

    ``buffer_bytes``: what may wait for one side before the other is read no more. Raises ReplyTruncated,
    nothing written, if the engine broke off.
    """
    engine, late = reply.take_over()
    client, early, has_ended = request.connection.hand_over()
    near, far = _End(buffer_bytes, is_client=True), _End(buffer_bytes, is_client=False)
    near.other, far.other = far, near
    try:
        if engine is not None:
            far.join(engine)
        if client is None:
            return
        near.join(client)
        near.write(reply.head.raw + late)
        far.write(early)
        if engine is None:
            far.connection_lost(None)
        if has_ended:
            near.eof_received()
        await near.is_lost.wait()
    finally:
        if not near.is_lost.is_set():
            near.abort()
            far.abort()


class _End(asyncio.Protocol):
    """One side of a tunnel: what comes in is written to the other side."""

    other: "_End"

    def __init__(self, buffer_bytes: int, *, is_client: bool) -> None:
        self._is_client = is_client
        self.is_lost = asyncio.Event()
        self._buffer_bytes = buffer_bytes
        self._transport: asyncio.Transport | None = None
        self._former: asyncio.BaseProtocol | None = None
        self._has_ended = False
        self._deadline: asyncio.TimerHandle | None = None

    def join(self, transport: asyncio.Transport) -> None:
        """Take over a connection from the protocol that it had."""
        self._transport = transport
        self._former = transport.get_protocol()
        transport.set_protocol(self)
        transport.set_write_buffer_limits(high=self._buffer_bytes)
        self._read(True)

    def write(self, data: bytes) -> None:
        """Send bytes to this side."""
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def abort(self) -> None:
        """Drop this side now."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Pass on what came."""
        self.other.write(data)

    def eof_received(self) -> bool:
        """Pass on that this side sends no more; it may still be sent to."""
        if not self._has_ended:  # uvloop says it twice
            self._has_ended = True
            if self.other._has_ended:
                self._close()
                self.other._close()
            else:
                self.other._end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other side: with what is on its way to it, but for an engine whose client broke off."""
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        self.is_lost.set()
        if exc is not None and self._is_client:
            self.other.abort()
        else:
            self.other._close()
        if self._former is not None:
            self._former.connection_lost(exc)

    def pause_writing(self) -> None:
        """This side takes nothing: read no more from the other."""
        self.other._read(False)

    def resume_writing(self) -> None:
        """It does again."""
        self.other._read(True)

    def _read(self, is_on: bool) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing() and not self._has_ended:
            (transport.resume_reading if is_on else transport.pause_reading)()

    def _end(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()

    def _close(self) -> None:
        if self._transport is not None and self._deadline is None:
            self._transport.close()
            self._deadline = asyncio.get_running_loop().call_later(STALLED_S, self.abort)
