"""One paired node: its addresses, the connection on which it is heard, and whether it is there.

Only its state documents say that it is there. When none came for a while, a request to it failed, it said
goodbye, or this machine woke up, its addresses are dialled at once: a path that died is then left for
another before anybody calls the node lost. A dial that fails says nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from pairproxy.config import Limits
from pairproxy.core.documents import StateDocument
from pairproxy.core.errors import NotTrusted, Unreachable, UpstreamError
from pairproxy.core.events import NodeLost, NodeReported
from pairproxy.core.models import NodeId
from pairproxy.interfaces import Tell
from pairproxy.peers import rounds
from pairproxy.peers.addresses import STATIC, Address, PeerAddresses
from pairproxy.peers.catalogue import CatalogueReader
from pairproxy.peers.dialling import race
from pairproxy.peers.exchange import BadDocument, Publishing, Unwelcome, read_document, subscribe
from pairproxy.peers.rounds import Rounds
from pairproxy.security.identity import short_id
from pairproxy.upstreams import Upstream

_log = logging.getLogger(__name__)

AGAIN_S = 0.05  # before a lost connection is tried again: "back at once", without spinning
DOUBTFUL_PART = 0.3  # of node_lost_s without a document: 1.5 of 5 s, a heartbeat is half a second late


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
        proved: Callable[[], None] = lambda: None,
    ) -> None:
        """``proved`` is told when the addresses at which the peer proved its key changed."""
        self.node = node
        self.name = name
        self.addresses = addresses
        self.upstream = upstream
        self.is_up = False
        self.problem: str | None = None
        self.found_by: str | None = None
        self.publishing = Publishing("", None)  # of the last time that it could be listened to
        self._tell = tell
        self._now = now
        self._limits = limits
        self._proved = proved
        self._catalogue = CatalogueReader(node, upstream, tell, now)
        self._heard_at = 0.0  # loop time of the last document
        self._raced_at = 0.0  # loop time at which the addresses were last dialled
        self._patience: asyncio.Timeout | None = None  # with the connection that is followed now
        self._is_renewing = False
        self._is_leaving = False
        self._doubt = asyncio.Event()
        self._rounds = Rounds(addresses.news)

    # --- what others tell -------------------------------------------------------------------------------

    def doubt(self) -> None:
        """Something speaks against the peer or its path: see at once. Harmless however often it is said."""
        self._doubt.set()
        self.retry()

    def wake(self) -> None:
        """This machine slept, or its network changed: what is open may be dead, and is not used again."""
        self.upstream.drop_idle()
        self.doubt()

    def retry(self) -> None:
        """A person changed something, or the peer itself called: also one that refused us is asked again."""
        self._rounds.retry()

    def hear_refusal(self, body: bytes) -> None:
        """Take in the document that came with a refusal; one that cannot be read says nothing."""
        with suppress(BadDocument):
            document = read_document(body, self.node)
            if self.is_up:
                self._tell(NodeReported(self._now(), document))

    # --- the life of a link -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, listen, and try again, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._catalogue.run(), name=f"catalogue of {self.name}")
                group.create_task(self._look_when_in_doubt(), name=f"path to {self.name}")
                await self._listen()
        except Exception:  # a fault of ours: nobody listens to the peer until run() is called again
            self.problem = "pairproxy failed; its log says where"
            self._lose()
            raise

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._rounds.heard()
        while True:
            self._rounds.begin()
            has_path = self._is_renewing or await self._reach()
            if has_path and await self._follow():
                self._rounds.heard()
                was_just_heard = loop.time() - self._heard_at < rounds.RETRY_FIRST_S
                await asyncio.sleep(AGAIN_S if was_just_heard else rounds.RETRY_FIRST_S)
                continue
            self._lose()
            await self._rounds.pause()

    async def _reach(self) -> bool:
        """Find an address at which the peer proves its key; while it counts as there, before it is lost."""
        try:
            async with asyncio.timeout_at(self._lost_at() if self.is_up else None):
                winner = await self._race(self._failed)
        except TimeoutError:
            self.problem = self._silence()
            return False
        if winner is None:
            return False
        self._use(winner)
        return True

    async def _race(self, failed: Callable[[Address, UpstreamError], None]) -> Address | None:
        if not len(self.addresses):
            self.problem = "no address is known yet"
            return None
        self._raced_at = asyncio.get_running_loop().time()
        return await race(self.addresses.dialled, self._dial, failed)

    async def _dial(self, address: Address) -> None:
        await self.upstream.dial(address.place)

    def _failed(self, address: Address, error: UpstreamError) -> None:
        """The peer is not heard now, and cannot be reached there."""
        self._noted(address, error)
        proved = self.addresses.proved
        is_used = not proved or address.place == proved[0].place
        if is_used or self.problem is None:
            is_other = isinstance(error, NotTrusted)
            self.problem = "it was stopped" if self._is_leaving and not is_other else error.sentence
        took_s = asyncio.get_running_loop().time() - self._raced_at
        is_refusal = isinstance(error, Unreachable) and took_s < self._limits.connect_timeout_s / 2
        if is_used and is_refusal:
            self._lose()  # its machine says that nobody is there: other addresses lead to the same machine

    def _noted(self, address: Address, error: UpstreamError) -> None:
        """Remember and tell, once, where somebody else answered."""
        is_wrong = isinstance(error, NotTrusted) and self.addresses.deny(address)
        if is_wrong and address.source != STATIC:  # those may be any peer's
            text = "%s (%s) answered with another key at %s: nothing was sent there"
            _log.warning(text, self.name, short_id(self.node), address)

    def _use(self, address: Address) -> None:
        if self.addresses.prove(address):
            self._proved()
        if self.is_up:
            self.found_by = address.source

    # --- hearing ----------------------------------------------------------------------------------------

    async def _follow(self) -> bool:
        """Listen at the best address until that ends; whether it is to be taken up again at once."""
        loop = asyncio.get_running_loop()
        has_heard, was_up, lost_s = False, self.is_up, self._limits.node_lost_s
        self._is_renewing = False
        try:
            async with asyncio.timeout_at(self._lost_at() if was_up else loop.time() + lost_s) as patience:
                self._patience = patience
                limit = self._limits.state_document_bytes
                documents = subscribe(self.upstream, self.node, lost_s, limit, self._hear_publishing)
                async for document in documents:
                    self._hear(document)
                    has_heard = True
                    if not self._is_renewing:
                        patience.reschedule(self._lost_at())
        except UpstreamError as error:
            self.problem = error.sentence
            if self.is_up and loop.time() < self._lost_at():
                return True  # it was reached, and may be too busy for us
        except BadDocument as error:
            is_unwelcome = isinstance(error, Unwelcome)
            if is_unwelcome and not self.is_up and self.problem != str(error):
                _log.warning("peer %s cannot be used: %s", self.name, error)
            self.problem = str(error)
            if is_unwelcome:
                self._rounds.refused()
            else:
                self._rounds.misunderstood()
            return False
        except TimeoutError:
            if self._is_renewing:
                return True
            self.problem = self._silence()
            self._lose()
        finally:
            self._patience = None
        return has_heard

    def _hear_publishing(self, publishing: Publishing) -> None:
        self.publishing = publishing

    def _hear(self, document: StateDocument) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self._is_leaving = document.is_draining and not document.withheld
        if not self.is_up:
            best = self.addresses.best
            self.found_by = best.source if best else None
            self.is_up = True
            _log.info("peer %s is there at %s (%s)", self.name, best, self.found_by)
        self.problem = None
        self._tell(NodeReported(self._now(), document))
        self._catalogue.hear(document.catalogue)

    def _lose(self) -> None:
        if self.is_up:
            self.is_up = False
            _log.warning("peer %s is gone: %s", self.name, self.problem)
            self._tell(NodeLost(self._now(), self.node))

    # --- doubt ------------------------------------------------------------------------------------------

    async def _look_when_in_doubt(self) -> None:
        """While the peer counts as there: dial when it is silent, or somebody doubts; leave a dead path."""
        loop = asyncio.get_running_loop()
        while True:
            await self._doubted()
            self._doubt.clear()
            if not self.is_up:
                await asyncio.sleep(AGAIN_S)  # _listen() dials by itself
                continue
            began_at, old = loop.time(), self.addresses.best
            winner = await self._race(self._noted)
            if winner is not None and self.is_up and self._heard_at < began_at:
                self._use(winner)
                self._renew()
                if old is not None and old.place != winner.place:
                    await self._leave(old)
            await asyncio.sleep(max(0.0, began_at + rounds.HINTED_S - loop.time()))

    async def _doubted(self) -> None:
        """Return when somebody doubts, or when the peer has been silent for too long."""
        loop = asyncio.get_running_loop()
        silence_s = DOUBTFUL_PART * self._limits.node_lost_s
        while True:
            due_at = self._heard_at + silence_s if self.is_up else loop.time() + silence_s
            if self.is_up and loop.time() >= due_at:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due_at):
                    await self._doubt.wait()
                    return

    def _renew(self) -> None:
        """Listen over the path that was just found, instead of one that is silent."""
        if self._patience is not None:
            self._is_renewing = True
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def _leave(self, old: Address) -> None:
        """What is under way at an address that is dead breaks off; one that answers after all is kept."""
        try:
            await self._dial(old)
        except UpstreamError:
            self.upstream.drop(lambda connection: connection.address == old.place)

    def _lost_at(self) -> float:
        """The loop time at which the peer is gone, unless it is heard before."""
        return self._heard_at + self._limits.node_lost_s

    def _silence(self) -> str:
        return f"it was silent for {self._limits.node_lost_s:g} s"
