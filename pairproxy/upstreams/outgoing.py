"""A request as it leaves: its bytes, and how a body too large for one write follows them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from pairproxy.core.errors import BadRequest

INLINE_BODY_BYTES: Final = 256 * 1024  # a body up to this goes to the transport at once, with the head
SLICE_BYTES: Final = 256 * 1024  # of a larger one; waits for the upstream between two


class Outgoing:
    """One request for an upstream; never changed.

    ``target`` is the raw path and query as the client sent it (bytes beyond ASCII as surrogates).
    ``headers`` are in order and already filtered, Host included. A ``bytes`` body is sent as it is, with
    the caller's Content-Length; an iterator is sent in chunks unless the caller gave a Content-Length.
    ``version`` (1, 0) makes the engine frame its reply for a client that speaks HTTP/1.0. ``may_switch``: its
    headers ask for another protocol, and 101 is an answer.
    """

    __slots__ = ("body", "headers", "may_switch", "method", "target", "version")

    def __init__(
        self,
        method: str,
        target: str,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        body: bytes | AsyncIterator[bytes] | None = None,
        version: tuple[int, int] = (1, 1),
        may_switch: bool = False,
    ) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.version = version
        self.may_switch = may_switch

    @property
    def is_repeatable(self) -> bool:
        """Whether it can be sent a second time."""
        return self.body is None or isinstance(self.body, bytes)

    @property
    def is_chunked(self) -> bool:
        """Whether we put the body into chunks ourselves."""
        return not self.is_repeatable and all(name.lower() != b"content-length" for name, _ in self.headers)


def request_head(outgoing: Outgoing) -> bytes:
    """Return the request line and headers. Raises BadRequest if they would read as more than one request."""
    method, target = outgoing.method, outgoing.target
    line = f"{method} {target}"
    # Piece by piece, joined once: a third of the time in which the lines were made one after the other.
    parts = [line.encode() if line.isascii() else line.encode("utf-8", "surrogateescape")]
    parts.append(b" HTTP/1.1\r\n" if outgoing.version == (1, 1) else b" HTTP/%d.%d\r\n" % outgoing.version)
    for name, value in outgoing.headers:
        parts.append(name)
        parts.append(b": ")
        parts.append(value)
        parts.append(b"\r\n")
    is_chunked = outgoing.is_chunked
    if is_chunked:
        parts.append(b"Transfer-Encoding: chunked\r\n")
    parts.append(b"\r\n")
    head = b"".join(parts)
    line_ends = len(outgoing.headers) + (3 if is_chunked else 2)
    if len(head) - len(head.translate(None, b"\r\n\0")) != 2 * line_ends or " " in method or " " in target:
        raise BadRequest("The request's path or headers hold a line break or a space. Send them encoded.")
    if is_chunked and outgoing.version < (1, 1):
        raise BadRequest("A request of HTTP/1.0 with a body needs a Content-Length. Add one.")
    return head


async def upload(
    outgoing: Outgoing, write: Callable[[bytes | memoryview], None], writable: Callable[[], Awaitable[None]]
) -> None:
    """Write the body that did not go with the head, never faster than the upstream reads."""
    if isinstance(outgoing.body, bytes):
        view = memoryview(outgoing.body)
        for start in range(0, len(view), SLICE_BYTES):
            await writable()
            write(view[start : start + SLICE_BYTES])
    elif outgoing.body is not None:
        is_chunked = outgoing.is_chunked
        async for part in outgoing.body:
            if part:
                await writable()
                write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
        if is_chunked:
            write(b"0\r\n\r\n")
