"""A reply on its way: whether it still goes on, and whether its end is one.

A stream is broken off when nothing of it came for so long that its engine cannot be at work any more:

- ``gone_s``, where its engine does not answer the questions of its node either;
- ``node_stale_s``, where its node's heartbeat stopped: what is silent for so long is given up at once, until
  the node is heard again;
- ``quiet_s`` of the attempt, at a peer: two minutes; where tools are offered, what it takes to write the
  longest call of one, which engines keep to themselves until it is whole (core.silence).

The engine of this machine is waited for as a client of its own would wait for it.

HTTP says where a message ends, not whether all was said: a reply whose engine was lost may end like a whole
one. So the end of a peer's chunked message is held back until its last record was seen, and a stream that
closing ends is reset where that record is missing.
"""

import asyncio
import re
from collections.abc import Callable
from types import TracebackType

from pairproxy.config import Limits
from pairproxy.core.errors import ReplyTruncated
from pairproxy.core.models import Outcome
from pairproxy.proxy import headers
from pairproxy.proxy.downstream import NDJSON, Downstream
from pairproxy.upstreams import Reply, Sink

_END = re.compile(rb"(?:\A|(?<=\r\n))0++(?:;[^\r\n]*+)?+\r\n(?:[^\r\n:]++:[^\r\n]*+\r\n)*+\r\n\Z")
"""The last chunk and its trailers, at the end of what was read (RFC 9112, 7.1)."""
_STREAMS = (NDJSON, "text/event-stream")
_END_BYTES = 16 * 1024  # in which it is looked for: its size line and its trailers have 8 KiB each at most
_LEAST_S = 0.01  # between two looks: rounding must not make the loop spin


class Silence:
    """Breaks a reply off, while its block runs, when it has been silent for too long."""

    def __init__(
        self,
        reply: Reply,
        buffered: Callable[[], int],
        limits: Limits,
        quiet_s: float,
        is_up: Callable[[], bool],
        is_lost: Callable[[], bool],
    ) -> None:
        """``buffered``: bytes written that the client has not taken yet.

        ``quiet_s``: the longest silence of an engine that answers its node, as ``is_up`` says.

        ``is_lost``: whether its node is not heard now.
        """
        self._reply = reply
        self._buffered = buffered
        self._gone_s = limits.gone_s
        self._quiet_s = quiet_s
        self._is_up, self._is_lost = is_up, is_lost
        self._flows_s = limits.node_stale_s
        self._is_node_lost = False
        self._heard_at = asyncio.get_running_loop().time()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> "Silence":
        least_s = min(self._quiet_s, self._gone_s)
        self._timer = asyncio.get_running_loop().call_later(max(least_s, _LEAST_S), self._look)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def goes_on(self) -> bool:
        """Whether it flows although its node is said to be lost; it is broken off when it stops to flow.

        A heartbeat may be late where a stream is not, and is another connection.
        """
        is_flowing = self._silent_s() < self._flows_s
        self._is_node_lost = is_flowing
        if is_flowing and self._timer is not None:
            self._timer.cancel()
            self._look()
        return is_flowing

    def _silent_s(self) -> float:
        return asyncio.get_running_loop().time() - max(self._heard_at, self._reply.heard_at)

    def _look(self) -> None:
        """See whether it still goes on; again when it could have been silent for too long."""
        loop = asyncio.get_running_loop()
        if self._buffered() > 0:
            self._heard_at = loop.time()  # the client is slow; meanwhile nothing may be read for it
        silent_s = self._silent_s()
        self._is_node_lost = self._is_node_lost and self._is_lost()
        limits_s = [self._quiet_s, self._flows_s if self._is_node_lost else self._gone_s]
        if silent_s >= limits_s[0] or (silent_s >= limits_s[1] and (self._is_node_lost or not self._is_up())):
            late = f"Nothing of the reply came for {silent_s:.0f} s. Send the request again."
            self._reply.fail(ReplyTruncated(late))
            return
        due = [limit_s - silent_s for limit_s in limits_s if limit_s > silent_s]
        self._timer = loop.call_later(max(min([*due, limits_s[1]]), _LEAST_S), self._look)


class End(Sink):
    """Holds back the end of a chunked reply, if asked to, until it is known that all was said."""

    def __init__(self, reply: Reply, downstream: Downstream, *, is_peer: bool) -> None:
        self._reply = reply
        self._downstream = downstream
        self.is_held = is_peer and reply.framing == "chunked"
        """Whether its bytes have to come here first."""
        self._is_checked = self.is_held or (reply.framing == "close" and _is_stream(reply))
        self._bytes = b""

    def write(self, data: bytes) -> None:
        """Pass raw bytes on, all but the end if that is held."""
        if self.is_held and self._reply.has_end:
            found = _END.search(data, max(len(data) - _END_BYTES, 0))
            start = 0 if found is None else found.start()  # None: it began with what was read before
            data, self._bytes = data[:start], self._bytes + data[start:]
            self._downstream.is_framed_here = found is not None
        if data:
            self._downstream.write(data)

    def see(self, part: bytes) -> None:
        """Nothing of that is held."""
        self._downstream.see(part)

    def buffered(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._downstream.buffered()

    async def drain(self) -> None:
        """Wait for the client. Raises ConnectionError."""
        await self._downstream.drain()

    def judge(self, outcome: Outcome) -> None:
        """Let it end as it came, or raise ReplyTruncated: the message is whole, the answer is not."""
        if outcome is Outcome.TRUNCATED and self._is_checked:
            raise ReplyTruncated("The reply ended before it was complete. Send the request again.")
        if self._bytes:
            self._downstream.write(self._bytes)


def _is_stream(reply: Reply) -> bool:
    return (headers.first(reply.headers, "Content-Type") or "").startswith(_STREAMS)
