"""Copying models, as a daemon has it: what its commands ask for, and what its peers may."""

import functools
from collections.abc import Callable, Iterator

import msgspec

from pairproxy.api.replication import CopyWish, PeerCopyWish
from pairproxy.config import Limits
from pairproxy.core.errors import BadRequest, CopyFailed, NotAllowed
from pairproxy.core.models import NodeId
from pairproxy.core.replicas import canonical_name
from pairproxy.core.scheduler import Scheduler
from pairproxy.engines.own import OwnEngines
from pairproxy.peers.book import PeerBook
from pairproxy.peers.link import PeerLink
from pairproxy.proxy.body import read_body
from pairproxy.proxy.lines import Tell, Telling, tell_lines
from pairproxy.proxy.request import HttpRequest
from pairproxy.replicating.copying import Copying, tidy
from pairproxy.replicating.holding import MANIFEST_PATH, PART_PATH, Holding
from pairproxy.replicating.names import full_name
from pairproxy.replicating.ollama import Ollama
from pairproxy.replicating.relaying import WISH_PATH, Relaying
from pairproxy.replicating.source import Source
from pairproxy.responses import StreamResponse

WISH_BYTES = 4096  # a name and a number


class Replicating:
    """One for each daemon. One copy at a time comes to it; how many others take is theirs to say."""

    def __init__(
        self,
        engines: OwnEngines,
        book: PeerBook,
        scheduler: Scheduler,
        may_add: Callable[[NodeId], bool],
        now: Callable[[], float],
    ) -> None:
        """``may_add``: whether a peer may have models copied here."""
        self._own = scheduler.own
        self._engines = engines
        self._book = book
        self._scheduler = scheduler
        self._may_add = may_add
        self._holding = Holding(self._ollamas, scheduler.rights.may_use, self._is_busy, now)
        self._limits = Limits(body_bytes=WISH_BYTES)
        self._is_copying = False

    async def tidy(self) -> None:
        """Take away what a daemon that was killed left in its Ollama."""
        for ollama in self._ollamas():
            await tidy(ollama)

    def _ollamas(self) -> Iterator[Ollama]:
        return (
            Ollama(self._engines.upstream(one.id)) for one in self._engines.engines if one.kind == "ollama"
        )

    def _is_busy(self) -> bool:
        return len(self._scheduler.running) > 0

    async def begin(self, body: bytes) -> Telling:
        """POST /replicate: what does it, and tells how it goes.

        Raises BadRequest, CopyFailed, ModelNotFound, UpstreamError.
        """
        try:
            wish = msgspec.json.decode(body, type=CopyWish)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadRequest(
                "That is no wish to copy a model. The command may be of another version."
            ) from None
        if bool(wish.to) == bool(wish.source):
            raise BadRequest("A model is copied to a node or from one: name one of both.")
        full_name(wish.model)
        link = self._book.link(NodeId(wish.to or wish.source))
        if link is None:
            raise CopyFailed(
                "This machine does not use that one. `pairproxy rights NAME --i-may-use` changes it."
            )
        if wish.source:
            return functools.partial(self._copy_here, link, wish.model, wish.limit_bytes_per_s, lambda: True)
        await self._holding.held(canonical_name(wish.model), is_new=True)
        return Relaying(self._own, link.name, link.upstream, wish).run

    async def to_peer(self, request: HttpRequest, peer: NodeId) -> StreamResponse:
        """Answer what a peer asks of models. Raises NotAllowed for what there is not, and what it refuses."""
        path = request.raw_path.partition("?")[0]
        if request.method == "GET" and path in (MANIFEST_PATH, PART_PATH):
            return await self._holding.answer(request, peer)
        if request.method != "POST" or request.raw_path != WISH_PATH:
            raise NotAllowed("Peers may read models, or wish to copy one, and nothing else there.")
        link = self._book.link(peer)
        if not self._may_add(peer):
            name = link.name if link is not None else "NAME"
            raise CopyFailed(
                "The owner of this machine has not allowed you to add models. On this machine,"
                f" `pairproxy rights {name} --may-add-models` allows it."
            )
        if link is None:
            raise CopyFailed(
                "This machine does not use yours. There, `pairproxy rights NAME --i-may-use` changes that."
            )
        try:
            wish = msgspec.json.decode(await read_body(request, self._limits), type=PeerCopyWish)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadRequest("That is no wish to copy a model.") from None
        full_name(wish.model)
        may_go_on = functools.partial(self._may_add, peer)
        limit = wish.limit_bytes_per_s
        return await tell_lines(
            request, functools.partial(self._copy_here, link, wish.model, limit, may_go_on)
        )

    async def _copy_here(
        self, link: PeerLink, model: str, limit_bytes_per_s: int, may_go_on: Callable[[], bool], tell: Tell
    ) -> None:
        ollama = next(iter(self._ollamas()), None)
        if ollama is None:
            raise CopyFailed(
                "There is no Ollama on this machine to take a model. Install one, or restart pairproxy."
            )
        if self._is_copying:
            raise CopyFailed("Another model is being copied to this machine. Run this again when it is done.")
        source = Source(link.name, link.upstream, model, self._is_busy, limit_bytes_per_s)

        async def tell_while_allowed(line: object) -> None:
            if not may_go_on():
                raise ConnectionResetError("the right to it was taken away")
            await tell(line)

        self._is_copying = True
        try:
            await Copying(self._own, ollama, model, source).run(tell_while_allowed)
        finally:
            self._is_copying = False
