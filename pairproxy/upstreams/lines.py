"""The body of a reply as lines: for what is read here, and not passed on."""

from collections import deque
from typing import TYPE_CHECKING

from pairproxy.core.errors import BrokenReply

if TYPE_CHECKING:  # it makes them
    from pairproxy.upstreams.reply import Reply


class Lines:
    """The lines of a reply, one after the other; made by Reply.lines.

    Not an async generator: those are not compiled.
    """

    def __init__(self, reply: "Reply", limit_bytes: int) -> None:
        self._reply = reply
        self._limit_bytes = limit_bytes
        self._whole: deque[bytes] = deque()
        self._rest = bytearray()
        self._has_ended = False
        self._is_too_long = False  # what comes next

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> bytes:
        try:
            while not self._whole and not self._has_ended:
                if self._is_too_long:
                    too_long = f"a line of more than {self._limit_bytes} bytes"
                    raise BrokenReply(f"{self._reply.who} sent {too_long}. Unused.")
                self._take(await self._reply.more())
        except BaseException:
            self._end()
            raise
        if not self._whole:
            raise StopAsyncIteration
        return self._whole.popleft()

    async def aclose(self) -> None:
        """Leave: the connection is aborted, unless the reply is complete."""
        self._end()

    def _take(self, part: bytes) -> None:
        """Add what came to the lines; nothing is the end."""
        if not part:
            last = [bytes(self._rest)] if self._rest else []
            self._end()
            self._whole.extend(last)
            return
        self._rest += part
        whole: list[bytearray] = []
        if b"\n" in part:
            *whole, self._rest = self._rest.split(b"\n")
        for line in whole:
            if len(line) > self._limit_bytes:
                self._is_too_long = True
                return
            self._whole.append(bytes(line))
        self._is_too_long = len(self._rest) > self._limit_bytes

    def _end(self) -> None:
        self._has_ended = True
        self._whole.clear()
        self._rest.clear()
        self._reply.abandon()
