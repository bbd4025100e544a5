"""The holder's daemon asks another node to take a model, and passes on what that node tells."""

import asyncio
import contextlib

import msgspec

from pairproxy.api.replication import CopyProgress, CopyWish, PeerCopyWish
from pairproxy.core.errors import BrokenReply, CopyFailed, PairproxyError, Unreachable, UpstreamError
from pairproxy.core.replicas import canonical_name
from pairproxy.proxy.lines import Tell
from pairproxy.replicating.source import of, refusal, unreachable
from pairproxy.upstreams import Outgoing, Upstream

WISH_PATH = "/pairproxy/models/wish"
LINE_BYTES = 8 * 1024  # of what the other node tells; a line has 500
SILENCE_S = 30.0  # it tells something twice a second
TRIES = 5  # to reach it again, also through a restart of its daemon
PAUSE_S = 1.0  # before the second try, doubled: 15 s in all


class Relaying:
    """One wish of this node (``own``) to the node called ``name``."""

    def __init__(self, own: str, name: str, upstream: Upstream, wish: CopyWish) -> None:
        self._own = own
        self._name = name
        self._upstream = upstream
        self._wish = wish
        self._last: CopyProgress | None = None

    async def run(self, tell: Tell) -> None:
        """Ask, and tell how it goes. Raises CopyFailed, UpstreamError before the first line only."""
        pause_s = PAUSE_S
        for number in range(1, TRIES + 1):
            try:
                await self._once(tell)
                return
            except PairproxyError as error:
                is_lost = isinstance(error, UpstreamError)
                if self._last is None:
                    raise
                if not is_lost or number == TRIES:
                    sentence = _lost(self._name) if is_lost else error.sentence
                    await tell(
                        msgspec.structs.replace(self._last, state="failed", problem="", error=sentence)
                    )
                    return
            problem = f"the connection to {self._name} was lost; trying again"
            await tell(msgspec.structs.replace(self._last, problem=problem, bytes_per_s=None, left_s=None))
            await asyncio.sleep(pause_s)
            pause_s *= 2

    async def _once(self, tell: Tell) -> None:
        content = msgspec.json.encode(PeerCopyWish(self._wish.model, self._wish.limit_bytes_per_s))
        fields = (
            (b"Host", b"pairproxy"),
            (b"Content-Type", b"application/json"),
            (b"Content-Length", str(len(content)).encode()),
        )
        try:
            async with asyncio.timeout(SILENCE_S):
                reply = await self._upstream.send(Outgoing("POST", WISH_PATH, fields, content))
        except TimeoutError:
            raise BrokenReply(f"{self._name} does not answer. See whether it is well.") from None
        except Unreachable:
            raise Unreachable(unreachable(self._name)) from None
        if reply.status != 200:
            raise await refusal(reply, self._name)
        async with contextlib.aclosing(reply.lines(LINE_BYTES)) as lines:
            while True:
                try:
                    async with asyncio.timeout(SILENCE_S):
                        line = await anext(lines)
                except (TimeoutError, StopAsyncIteration):
                    raise BrokenReply(f"{self._name} says nothing more.") from None
                self._last = self._told(line)
                await tell(self._last)
                if self._last.state in ("done", "failed"):
                    return

    def _told(self, line: bytes) -> CopyProgress:
        """A line of the other node as this one tells it. Raises CopyFailed for what is none."""
        try:
            told = msgspec.json.decode(line, type=CopyProgress)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise CopyFailed(
                f"{self._name} speaks in another way than this machine: update the older one."
            ) from None
        return msgspec.structs.replace(
            told,
            node=self._own,
            model=canonical_name(self._wish.model),
            peer=self._name,
            is_to_here=False,
            problem=of(self._name, told.problem) if told.problem else "",
            error=of(self._name, told.error) if told.error else "",
        )


def _lost(name: str) -> str:
    return f"The connection to {name} was lost. Run this again: it goes on where it stopped."
