"""The node that has the model, as the receiver sees it: read part by part over the pinned connection.

A part that does not come is asked for again for as long as GONE_S; what requests need goes first.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from urllib.parse import quote

import msgspec

from pairproxy.core.errors import CopyFailed, NotTrusted, Unreachable, UpstreamError
from pairproxy.proxy.headers import REFUSED, first
from pairproxy.replicating.holding import MANIFEST_PATH, PART_BYTES, PART_PATH
from pairproxy.replicating.manifest import MANIFEST_BYTES, Manifest, read_manifest
from pairproxy.upstreams import Outgoing, Reply, Upstream

TURNS = 4  # parts on their way at once: enough to fill a LAN, with 4 MiB of memory
LEAST_BYTES = 64 * 1024  # of a part under a limit: an eighth of a second's, so that it flows evenly
PART_S = 20.0  # for one part: 50 kB/s, slower than any link on which a model is copied
GONE_S = 60.0  # without one part: the other machine sleeps or left, and a person should know
AGAIN_S, LONGEST_S = 0.5, 5.0  # until a part is asked for again, doubled up to the second
RESTS = 1.0  # times as long as a part took nothing is asked for while requests run here
SENTENCE_BYTES = 4096  # of a refusal
SENTENCE_CHARACTERS = 500
BUSY = frozenset({"QueueFull", "Draining", "SlotsTaken"})  # refusals that pass


class Source:
    """One model at one node, for one copy."""

    def __init__(
        self,
        name: str,
        upstream: Upstream,
        model: str,
        is_busy: Callable[[], bool],
        limit_bytes_per_s: int = 0,
    ) -> None:
        """``name``: of the node. ``is_busy``: whether requests run here. A limit of 0 is none."""
        self.name = name
        self.problem = ""
        """What goes wrong at present and is tried again; empty: nothing."""
        self.came_bytes = 0
        self._upstream = upstream
        self._model = quote(model, safe="")
        self._is_busy = is_busy
        self._limit = limit_bytes_per_s
        self._step = (
            min(PART_BYTES, max(limit_bytes_per_s // 8, LEAST_BYTES)) if limit_bytes_per_s else PART_BYTES
        )
        self._turns = asyncio.Semaphore(TURNS)
        self._alone = asyncio.Lock()
        self._next_at = 0.0  # of the loop's clock, by the limit
        self._failing_since: float | None = None

    async def manifest(self) -> Manifest:
        """What the model consists of. Raises CopyFailed, UpstreamError."""
        try:
            async with asyncio.timeout(PART_S):
                return read_manifest(await self._get(f"{MANIFEST_PATH}?model={self._model}", MANIFEST_BYTES))
        except Unreachable:
            raise CopyFailed(unreachable(self.name)) from None
        except TimeoutError:
            raise CopyFailed(
                f"{self.name} does not answer in {PART_S:.0f} s. See whether it is well."
            ) from None

    async def read(self, digest: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """The bytes [start, stop) of a blob, in order. Raises CopyFailed."""
        while start < stop:
            count = min(self._step, stop - start)
            part = await self._part(digest, start, count)
            yield part
            start += count

    async def _part(self, digest: str, start: int, count: int) -> bytes:
        path = f"{PART_PATH}?model={self._model}&digest={digest}&start={start}&bytes={count}"
        async with self._turns:
            if self._is_busy():
                async with self._alone:
                    began_at = self._now()
                    part = await self._insist(path, count)
                    await asyncio.sleep(RESTS * (self._now() - began_at))
                    return part
            return await self._insist(path, count)

    async def _insist(self, path: str, count: int) -> bytes:
        """Ask until it is there. Raises CopyFailed after GONE_S, or where asking again helps nothing."""
        pause_s = AGAIN_S
        while True:
            await self._pace(count)
            try:
                async with asyncio.timeout(PART_S):
                    part = await self._get(path, count)
                break
            except (_Again, UpstreamError, TimeoutError) as error:
                if isinstance(error, NotTrusted):
                    raise
                self._failing_since = self._failing_since or self._now()
                self.problem = f"{self.name} does not answer; trying again"
                if self._now() - self._failing_since > GONE_S:
                    raise CopyFailed(_gone(self.name)) from None
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_S)
        if len(part) != count:
            raise CopyFailed(f"{self.name} sent something else than was asked for. Nothing was installed.")
        self._failing_since, self.problem = None, ""
        self.came_bytes += count
        return part

    async def _pace(self, count: int) -> None:
        if self._limit:
            at = max(self._next_at, self._now())
            self._next_at = at + count / self._limit
            await asyncio.sleep(at - self._now())

    async def _get(self, path: str, limit_bytes: int) -> bytes:
        reply = await self._upstream.send(Outgoing("GET", path, ((b"Host", b"pairproxy"),)))
        if reply.status == 200:
            return await reply.read(limit_bytes)
        raise await refusal(reply, self.name)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


_AGAIN = "{0} is not paired with this machine any more. Pair again."
_WITHOUT_WORDS = {
    "UseNotAllowed": "{0} does not let this machine use it. On {0}, `pairproxy rights` gives that right.",
    "PeerRevoked": _AGAIN,
    "PeerNotTrusted": _AGAIN,
    "ProtocolDiffers": "{0} speaks another version of the protocol between nodes: update the older one.",
}
"""Refusals of the peer port that come without a body."""


class _Again(CopyFailed):
    """It is too busy now."""


async def refusal(reply: Reply, name: str) -> CopyFailed:
    """What a peer's refusal means for a person; finishes the reply. Raises UpstreamError."""
    kind = first(reply.headers, REFUSED) or ""
    body = b""
    with contextlib.suppress(UpstreamError):
        body = await reply.read(SENTENCE_BYTES)
    if kind in BUSY:
        return _Again(f"{name} has no time for it now. Run this again in a minute.")
    if kind in ("", "NotAllowed"):
        return CopyFailed(f"{name} cannot copy models: its pairproxy is older. Update it there.")
    if kind in _WITHOUT_WORDS:
        return CopyFailed(_WITHOUT_WORDS[kind].format(name))
    return CopyFailed(of(name, _sentence(body)))


def of(name: str, sentence: str) -> str:
    """A sentence of another node, marked as its own: what is "this machine" there is another one here."""
    words = "".join(one for one in sentence if one.isprintable())[:SENTENCE_CHARACTERS]
    return f"{name}: {words.replace('this machine', name).replace('This machine', name)}"


def _sentence(body: bytes) -> str:
    """The words of a refusal as our errors stand in it."""
    try:
        text = msgspec.json.decode(body, type=dict[str, dict[str, str | int | None]])["error"]["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        text = None
    return str(text) if text else "it refuses, and does not say why. See its log."


def unreachable(name: str) -> str:
    """The sentence for a node that is not there."""
    return f"{name} cannot be reached. See whether it is on and runs pairproxy."


def _gone(name: str) -> str:
    return (
        f"{name} has not answered for {GONE_S:.0f} s. When it is there again, run this again: it goes on"
        " where it stopped."
    )
