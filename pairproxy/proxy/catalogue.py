"""The catalogue: what this port's engine lists, followed by what only peers have.

1. The engine is asked as if nobody else was there; peers are not: what they list is in memory.
2. Its entries come first, as they are. A model that it has itself is listed once, by it.
3. A peer's model is listed where the peer's own engine has an entry for that very listing, while the peer
   is there, and in Ollama's listings only if it can be shown (proxy.show).
4. Where nothing is to add, the engine's reply goes to the client byte for byte.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from urllib.parse import unquote

import msgspec

from pairproxy.config import Limits
from pairproxy.core.catalogue import is_shown, listing_at, model_name, only_listing, read_listing
from pairproxy.core.dialects import routes
from pairproxy.core.documents import Listing
from pairproxy.core.errors import ReplyTruncated, UpstreamError
from pairproxy.core.models import EngineId, ModelName, NodeId, Place
from pairproxy.core.scheduler import Scheduler
from pairproxy.proxy import headers
from pairproxy.proxy.absent import Absent
from pairproxy.proxy.downstream import Downstream
from pairproxy.proxy.forward import Route
from pairproxy.proxy.request import HttpRequest
from pairproxy.proxy.show import Show, is_here_only, listed_by_peers
from pairproxy.upstreams import Outgoing, Reply, Sink

LISTING_BYTES = 4 * 1024 * 1024  # of the engine's own reply; a longer one is passed on as it comes, unmerged
NO_TIME = datetime.min.replace(tzinfo=UTC)
_TIMES = {Listing.TAGS: "modified_at", Listing.PS: "expires_at"}
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Catalogue:
    """Answers the read-only questions about models at the client ports, and at the peer port (``show``)."""

    def __init__(
        self,
        scheduler: Scheduler,
        route: Route,
        limits: Limits,
        now: Callable[[], float],
        *,
        is_merged: bool = True,
    ) -> None:
        self._scheduler = scheduler
        self._route = route
        self._now = now
        self.is_merged = is_merged
        self.show = Show(scheduler, route, limits, now)
        self.absent = Absent(scheduler, now)

    def own(self, reader: NodeId) -> bytes:
        """What this node's engines list, for one peer."""
        scheduler = self._scheduler
        return msgspec.json.encode(scheduler.rights.catalogue(scheduler.local.catalogue(), reader))

    def may_use(self, peer: NodeId, model: ModelName) -> bool:
        """Whether a peer may use a model of this node; others do not exist for it."""
        return self._scheduler.rights.may_use(peer, model)

    def remembered(self, listing: Listing, engine: EngineId, may_use: Callable[[ModelName], bool]) -> bytes:
        """A listing at the port of ``engine`` as it was last told, of the models that may be used."""
        report = self._scheduler.local.get(engine)
        own = {one.model: one.text(listing) for one in (report.catalogue if report is not None else ())}
        peers = self._of_peers(listing, engine) if self.is_merged else {}
        told = {**peers, **{model: text for model, text in own.items() if text is not None}}
        return only_listing(listing, (text for model, text in told.items() if may_use(model)))

    async def answer(self, request: HttpRequest, engine: EngineId, downstream: Downstream) -> bool:
        """Answer a request at the port of ``engine``.

        False: it is not answered and was not touched, and belongs to the engine alone. Raises UpstreamError.
        """
        if not self.is_merged or is_here_only(request):
            return False
        path = routes.path_of(request.raw_path)
        if (request.method, path) == ("POST", "/api/show"):
            return await self.show.to_client(request, engine, downstream)
        if request.method not in ("GET", "HEAD") or request.can_read_body:
            return False
        if (listing := listing_at(path)) is not None:
            return await self._list(request, engine, listing, downstream)
        parent, _, name = path.rpartition("/")
        listing = listing_at(parent)
        model = model_name(unquote(name))
        if listing not in (Listing.OPENAI, Listing.V0) or model is None:
            return False
        return await self._one(request, engine, listing, model, downstream)

    async def _list(
        self, request: HttpRequest, engine: EngineId, listing: Listing, downstream: Downstream
    ) -> bool:
        more = self._of_peers(listing, engine)
        if not more:
            return False
        try:
            reply = await self._ask(request, engine)
        except UpstreamError:
            downstream.remake(None, only_listing(listing, more.values()))
            return True
        taken = _Taken(reply, downstream)
        try:
            body = await taken.whole()
            listed = read_listing(listing, body) if body is not None else None
            added = [text for model, text in more.items() if listed and model not in listed.models]
            if listed is not None and added:
                downstream.remake(reply, listed.followed_by(added))
            elif request.method == "HEAD":
                return False
            else:
                taken.pass_on()
        finally:
            reply.abandon()
        return True

    async def _one(
        self,
        request: HttpRequest,
        engine: EngineId,
        listing: Listing,
        model: ModelName,
        downstream: Downstream,
    ) -> bool:
        """One entry by itself; the engine is asked first, for it may have got the model a moment ago."""
        text = self._of_peers(listing, engine).get(model)
        if text is None or self._is_listed_by(engine, listing, model):
            return False
        try:
            reply = await self._ask(request, engine)
        except UpstreamError:
            downstream.remake(None, text.encode())
            return True
        taken = _Taken(reply, downstream, statuses=(200, 404))
        try:
            body = await taken.whole()
            if body is not None and (reply.status == 404 or _is_error(body)):
                downstream.remake(reply, text.encode(), is_json=True)
            elif request.method == "HEAD":
                return False
            else:
                taken.pass_on()
        finally:
            reply.abandon()
        return True

    async def _ask(self, request: HttpRequest, engine: EngineId) -> Reply:
        """The engine's own reply; by GET also for HEAD, whose length is that of the merged body."""
        fields = headers.unconditional(headers.to_engine(request.raw_headers))
        version = request.version
        upstream = self._route.upstream(Place(self._scheduler.own, engine))
        return await upstream.send(Outgoing("GET", request.raw_path, fields, version=version))

    def _of_peers(self, listing: Listing, engine: EngineId) -> dict[ModelName, str]:
        """What peers have for a listing at the port of an engine, newest first if it says when.

        Of two for one model it is the first peer's; in /api/ps the one that stays loaded longest.
        """
        report = self._scheduler.local.get(engine)
        has_show = is_shown(listing, report.kind if report is not None else "")
        told = listed_by_peers(self._scheduler, listing, self._now(), has_show=has_show)
        found = [(entry.model, entry.text(listing) or "") for _, entry in told]
        if listing is Listing.PS:
            found = _newest_first(listing, found)
        texts: dict[ModelName, str] = {}
        for model, text in found:
            texts.setdefault(model, text)
        return dict(_newest_first(listing, texts.items()))

    def _is_listed_by(self, engine: EngineId, listing: Listing, model: ModelName) -> bool:
        report = self._scheduler.local.get(engine)
        return report is not None and any(
            entry.model == model and entry.text(listing) is not None for entry in report.catalogue
        )


class _Taken(Sink):
    """A reply of the engine held back, as it came on the wire, until it is known whether it is changed."""

    def __init__(self, reply: Reply, downstream: Downstream, statuses: tuple[int, ...] = (200,)) -> None:
        self._reply = reply
        self._downstream = downstream
        self._raw = bytearray()
        self._body = bytearray()
        is_coded = headers.first(reply.headers, "Content-Encoding") is not None
        self._is_passed = reply.status not in statuses or is_coded
        if self._is_passed:
            downstream.begin(reply, is_from_peer=False)

    async def whole(self) -> bytes | None:
        """The decoded body; None if the reply is none to change and was passed on. Raises UpstreamError."""
        try:
            await self._reply.relay(self)
        except ReplyTruncated:
            self.pass_on()
            raise
        return None if self._is_passed else bytes(self._body)

    def pass_on(self) -> None:
        """Let the client have it as it is."""
        if not self._is_passed:
            self._is_passed = True
            self._downstream.begin(self._reply, is_from_peer=False)
            self._downstream.write(bytes(self._raw))

    def write(self, data: bytes) -> None:
        """Hold it, or pass it on."""
        if self._is_passed:
            self._downstream.write(data)
            return
        self._raw += data
        if len(self._raw) > LISTING_BYTES:
            self.pass_on()

    def see(self, part: bytes) -> None:
        """Hold the body."""
        if not self._is_passed:
            self._body += part

    def buffered(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._downstream.buffered()

    async def drain(self) -> None:
        """Wait for the client. Raises ConnectionError."""
        await self._downstream.drain()


def _is_error(body: bytes) -> bool:
    """Whether a 200 holds an error, as LM Studio's does for what it does not know."""
    try:
        return "error" in _decode_object(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _newest_first(listing: Listing, found: Iterable[tuple[ModelName, str]]) -> list[tuple[ModelName, str]]:
    key = _TIMES.get(listing)
    if key is None:
        return list(found)
    return sorted(found, key=lambda one: _moment(one[1], key), reverse=True)


def _moment(text: str, key: str) -> datetime:
    """The time in an entry; long ago if there is none that can be read."""
    try:
        moment = datetime.fromisoformat(msgspec.json.decode(text).get(key))
    except (TypeError, ValueError):
        return NO_TIME
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
