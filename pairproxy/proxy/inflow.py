"""What comes on a connection, cut into heads and bodies; what comes behind a request is kept."""

from collections.abc import Callable

from pairproxy.proxy.content import NOTHING, BrokenFraming, Content, whole
from pairproxy.proxy.head import Head, read_head
from pairproxy.upstreams.framing import Chunked, Counted, Framing

BEHIND_BYTES = 64 * 1024  # of what comes behind a request before its answer; one read more may come on top


class Inflow:
    """The bytes of one connection: head, body, head, body."""

    __slots__ = ("_behind", "_content", "_framing", "_most_head")

    def __init__(self, most_head: int) -> None:
        """``most_head``: bytes of a head."""
        self._most_head = most_head
        self._behind = b""
        self._content = NOTHING
        self._framing: Framing | None = None  # of a body that is still coming

    @property
    def is_in_body(self) -> bool:
        """Whether the end of the last body has not come; it never does if its framing is broken."""
        return self._framing is not None

    @property
    def is_broken(self) -> bool:
        """Whether the framing of a body broke: what comes is nothing any more."""
        return self._framing is not None and self._framing.is_broken

    @property
    def is_full(self) -> bool:
        """Whether too much waits: behind a request, or of a body that is still coming."""
        return len(self._behind) > BEHIND_BYTES or self._content.is_held

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        if self._framing is None:
            self._behind = self._behind + data if self._behind else data
        elif not self._framing.is_broken:
            self._take_part(self._framing, data)

    def next(self, hold: Callable[[bool], None]) -> tuple[Head, Content] | None:
        """The request that is next, its body perhaps still coming; None: not even its head is whole.

        Only when the body before it has ended. ``hold`` stops the connection's reading, or lets it go on.
        Raises Malformed.
        """
        data = self._behind
        if data[:1] in (b"\r", b"\n"):  # some clients send a line end after a body
            data = self._behind = data.lstrip(b"\r\n")
        found = read_head(data, self._most_head) if data else None
        if found is None:
            return None
        head, start = found
        length = head.length
        if length == 0:
            self._behind = data[start:]
            return head, NOTHING
        if length is not None and len(data) - start >= length:
            self._behind = data[start + length :]
            return head, whole(data[start : start + length])
        self._behind = b""
        content = self._content = Content(hold)
        framing = self._framing = Chunked() if length is None else Counted(length)
        self._take_part(framing, data[start:])
        return head, content

    def rest(self) -> bytes:
        """What came behind the last request, given away."""
        behind, self._behind = self._behind, b""
        return behind

    def _take_part(self, framing: Framing, data: bytes) -> None:
        size, part = framing.feed(data)
        content = self._content
        if part:
            content.feed(part)
        if framing.is_broken:
            content.fail(BrokenFraming())
        elif framing.is_done:
            self._framing, self._content = None, NOTHING
            self._behind = data[size:]
            content.end()
