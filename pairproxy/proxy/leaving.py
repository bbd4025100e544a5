"""Whether a client that ended its side waits for its answer, or left: one that left ends its side, too."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

LEFT_S = 0.2  # between looks: an engine has to stop within 1 s
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def look_after(transport: asyncio.Transport, can_ask: Callable[[], bool], has_asked: bool = False) -> None:
    """Abort the connection once its client is seen to have left; by asking, once, if there is no other way.

    If no reply begins within a moment, an interim one is sent, which clients of HTTP/1.1 have to skip: what
    is gone answers it with a reset. ``can_ask``: whether it may come now.
    """

    def look() -> None:
        if transport.is_closing():
            return
        sock = cast(socket.socket, transport.get_extra_info("socket"))
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            transport.abort()
            return
        is_asking = not has_asked and can_ask()
        if is_asking:
            transport.write(CONTINUE)
        look_after(transport, can_ask, has_asked or is_asking)

    asyncio.get_running_loop().call_later(LEFT_S, look)
