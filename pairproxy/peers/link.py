"""One paired node: its addresses, the connection on which it is heard, and whether it is there.

Addresses are hints from mDNS, from the settings and from memory; only the pinned certificate is believed.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pairproxy.config import Limits
from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import UpstreamError
from pairproxy.core.events import NodeLost, NodeReported
from pairproxy.core.models import NodeId
from pairproxy.interfaces import Tell
from pairproxy.peers.catalogue import CatalogueReader
from pairproxy.peers.exchange import BadDocument, read_document, subscribe
from pairproxy.upstreams import Upstream

_log = logging.getLogger(__name__)

RETRY_FIRST_S = 0.25  # a daemon that restarts is back within a second or two
RETRY_LONGEST_S = 5.0  # a machine that is off is asked this often
HINTED_S = 2.0  # between two rounds at least, however many hints come
AGAIN_S = 0.05  # before a lost connection is tried again: "back at once", without spinning
MAX_ADDRESSES = 16  # a peer with more interfaces than this does not exist; forged hints are bounded so


@dataclass(frozen=True, slots=True)
class Address:
    """Where a peer may be, and who said so (mdns, static, remembered)."""

    host: str
    port: int
    source: str


class PeerAddresses:
    """The addresses of one peer, the last one that worked first. The endpoint of its Upstream."""

    def __init__(self) -> None:
        self._known: list[Address] = []
        self.news = asyncio.Event()

    def address(self, path: str) -> tuple[str, int]:
        """The best address; ``path`` does not matter."""
        best = self._known[0] if self._known else Address("", 0, "")
        return best.host, best.port

    def add(self, hint: Address) -> None:
        """Take in a hint; one that is known already only wakes the link."""
        if all((known.host, known.port) != (hint.host, hint.port) for known in self._known):
            self._known.insert(1, hint)  # newest first, after the one in use; what failed longest ago goes
            del self._known[MAX_ADDRESSES:]
        self.news.set()

    def __len__(self) -> int:
        return len(self._known)

    @property
    def best(self) -> Address | None:
        """The address in use."""
        return self._known[0] if self._known else None

    def rotate(self) -> None:
        """The best address did not work: the next one's turn."""
        if self._known:
            self._known.append(self._known.pop(0))


class PeerLink:
    """Follows one peer's state documents for as long as it is paired."""

    def __init__(
        self,
        node: NodeId,
        name: str,
        addresses: PeerAddresses,
        upstream: Upstream,
        tell: Tell,
        now: Callable[[], float],
        limits: Limits,
    ) -> None:
        self.node = node
        self.name = name
        self.addresses = addresses
        self.upstream = upstream
        self.is_up = False
        self.problem: str | None = None
        self.found_by: str | None = None
        self._tell = tell
        self._now = now
        self._limits = limits
        self._catalogue = CatalogueReader(node, upstream, tell, now)

    async def run(self) -> None:
        """Connect, listen, and try again, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._catalogue.run(), name=f"catalogue of {self.name}")
                await self._listen()
        except Exception:  # a fault of ours: nobody listens to the peer until run() is called again
            self.problem = "pairproxy failed; its log says where"
            self._lose()
            raise

    async def _listen(self) -> None:
        pause_s = RETRY_FIRST_S
        while True:
            self.addresses.news.clear()
            for _ in range(max(1, len(self.addresses))):
                if await self._follow():
                    pause_s = RETRY_FIRST_S
                    await asyncio.sleep(AGAIN_S)
                    break
                self._lose()  # other addresses may each take seconds to fail
                self.addresses.rotate()
            else:
                await self._pause(pause_s)
                pause_s = min(pause_s * 2, RETRY_LONGEST_S)

    async def _follow(self) -> bool:
        """Listen on the best address until it ends; whether anything was heard."""
        if self.addresses.best is None:
            self.problem = "no address is known yet"
            return False
        heard = False
        try:
            documents = subscribe(
                self.upstream, self.node, self._limits.node_lost_s, self._limits.state_document_bytes
            )
            async for document in documents:
                self._hear(document)
                heard = True
        except UpstreamError as error:
            self.problem = error.sentence
        except BadDocument as error:
            self.problem = str(error)
            self._lose()
            await asyncio.sleep(RETRY_LONGEST_S)
        except TimeoutError:
            self.problem = f"it was silent for {self._limits.node_lost_s:g} s"
            self._lose()
        return heard

    def hear_refusal(self, body: bytes) -> None:
        """Take in the document that came with a refusal; one that cannot be read says nothing."""
        with suppress(BadDocument):
            document = read_document(body, self.node)
            if self.is_up:
                self._tell(NodeReported(self._now(), document))

    def _hear(self, document: StateDocument) -> None:
        if not self.is_up:
            best = self.addresses.best
            self.found_by = best.source if best else None
            self.is_up, self.problem = True, None
            _log.info("peer %s is there (%s)", self.name, self.found_by)
        self._tell(NodeReported(self._now(), document))
        self._catalogue.hear(document.catalogue)

    def _lose(self) -> None:
        if self.is_up:
            self.is_up = False
            _log.warning("peer %s is gone: %s", self.name, self.problem)
            self._tell(NodeLost(self._now(), self.node))

    async def _pause(self, seconds: float) -> None:
        """Wait before the next round. A hint shortens that, but no flood of them makes us dial for ever."""
        seconds *= random.uniform(0.8, 1.2)
        least_s = min(seconds, HINTED_S)
        await asyncio.sleep(least_s)
        try:
            async with asyncio.timeout(seconds - least_s):
                await self.addresses.news.wait()
        except TimeoutError:
            pass
