"""What a peer's engines list: asked once whenever its state document says that it changed.

Thousands of models are too much for a document that is sent every second, so that names their listing only.
"""

import asyncio
from collections.abc import Callable

from pairproxy.core.catalogue import CATALOGUE_BYTES, read_catalogue
from pairproxy.core.documents import NodeCatalogue
from pairproxy.core.errors import UpstreamError
from pairproxy.core.events import CatalogueReported
from pairproxy.core.models import NodeId
from pairproxy.interfaces import CATALOGUE_PATH, Tell
from pairproxy.upstreams import Upstream

TIMEOUT_S = 10.0  # for 4 MiB on a poor wireless link
PAUSE_S = 2.0  # between two questions: as often as an engine is probed, and it may change with each request
LONGEST_PAUSE_S = 60.0  # the same for one that never answers in order, doubled up to this
ASIDE_BYTES = 256 * 1024  # a larger one is taken apart in a thread: megabytes take tens of milliseconds


class CatalogueReader:
    """Keeps one peer's catalogue up to date; whoever hears the peer calls ``hear``."""

    def __init__(self, node: NodeId, upstream: Upstream, tell: Tell, now: Callable[[], float]) -> None:
        self._node = node
        self._upstream = upstream
        self._tell = tell
        self._now = now
        self._held = ""
        self._changed = asyncio.Event()

    def hear(self, content: str) -> None:
        """The peer's state document names its catalogue so."""
        if content and content != self._held:
            self._changed.set()

    async def run(self) -> None:
        """Ask when there is news, until cancelled. What fails is asked again when the next document comes."""
        pause_s = PAUSE_S
        while True:
            await self._changed.wait()
            catalogue = await self._ask()
            self._changed.clear()
            if catalogue is not None:
                self._held = catalogue.content
                self._tell(CatalogueReported(self._now(), catalogue))
            pause_s = PAUSE_S if catalogue is not None else min(pause_s * 2, LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)

    async def _ask(self) -> NodeCatalogue | None:
        """What the peer tells of itself; None if it does not answer, or with something else."""
        try:
            status, body = await self._upstream.fetch(
                "GET", CATALOGUE_PATH, limit_bytes=CATALOGUE_BYTES, timeout_s=TIMEOUT_S
            )
        except UpstreamError:
            return None
        if status != 200:
            return None
        is_small = len(body) <= ASIDE_BYTES
        catalogue = read_catalogue(body) if is_small else await asyncio.to_thread(read_catalogue, body)
        return catalogue if catalogue is not None and catalogue.node == self._node else None
