"""POST /api/show: what a model is, told by whoever has it.

The engine of the port is asked first and its answer counts, unless it is that it has no such model. Then the
peers that list it are asked in turn; if none of them answers, the engine's own 404 is the answer.
"""

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from pairproxy.config import Limits
from pairproxy.core import replicas
from pairproxy.core.catalogue import can_show, shown_model
from pairproxy.core.documents import CatalogueEntry, Listing
from pairproxy.core.errors import ModelNotFound, UpstreamError
from pairproxy.core.models import EngineId, ModelName, NodeId, Place
from pairproxy.core.scheduler import Scheduler
from pairproxy.proxy import headers
from pairproxy.proxy.absent import nobody_has_it
from pairproxy.proxy.body import Once, read_body, say_continue
from pairproxy.proxy.downstream import Downstream
from pairproxy.proxy.forward import Route, hand_back
from pairproxy.proxy.request import HttpRequest
from pairproxy.upstreams import Outgoing, Reply

PEER_S = 2.0  # for one peer's whole answer; Copilot and Home Assistant wait 5 s for all of it
SHOWN_BYTES = 16 * 1024 * 1024  # with "verbose" an answer holds the model's vocabulary, about 8 MB
ASKED_BYTES = 64 * 1024  # of a question that may leave this machine; they have about 100
NOT_FOUND = 404
ALSO_TO_PEER = frozenset({b"user-agent"})
"""Ollama answers GitHub Copilot in another way, and knows it by this."""


class Show:
    """Both ends of it: for the clients of this node, and for its peers."""

    def __init__(self, scheduler: Scheduler, route: Route, limits: Limits, now: Callable[[], float]) -> None:
        self._scheduler = scheduler
        self._route = route
        self._limits = limits
        self._limits_of_peers = msgspec.structs.replace(
            limits, body_bytes=min(limits.body_bytes, ASKED_BYTES)
        )
        self._now = now

    async def to_client(self, request: HttpRequest, engine: EngineId, downstream: Downstream) -> bool:
        """Answer at the port of ``engine``; False: untouched, for no peer has anything to show.

        Raises UpstreamError, and what read_body() raises.
        """
        if not any(True for _ in self._shown_by_peers()):
            return False
        say_continue(request)
        body = await read_body(request, self._limits)
        reply: Reply | None = None
        try:
            reply, failure = await self._ask_engine(request, engine, body)
            shown = None
            if (reply is None or reply.status == NOT_FOUND) and len(body) <= ASKED_BYTES:
                shown = await self._ask_peers(request, body)
            if shown is not None:
                downstream.remake(reply, shown, is_json=True)
            elif reply is not None:
                await hand_back(reply, downstream)
            elif failure is not None and self._scheduler.local.get(engine) is None:
                raise nobody_has_it()
            elif failure is not None:
                raise failure
        finally:
            if reply is not None:
                reply.abandon()
        return True

    async def to_peer(
        self,
        request: HttpRequest,
        peer: NodeId,
        authority_of: Callable[[EngineId], str],
        downstream: Downstream,
    ) -> None:
        """Answer a peer for an engine of this node. Raises ModelNotFound, BodyTooLarge, UpstreamError."""
        body = await read_body(request, self._limits_of_peers)
        engine, model = EngineId(request.headers.get(headers.ENGINE, "")), shown_model(body)
        report = self._scheduler.local.get(engine)
        listed = report.catalogue if report is not None else ()
        is_allowed = model is not None and self._scheduler.rights.may_use(peer, model)
        can_be_shown = any(one.model == model and report and can_show(report.kind, one) for one in listed)
        if not is_allowed or not can_be_shown:
            raise ModelNotFound("No such model can be shown here.")
        own = (("Host", authority_of(engine)),)
        fields = headers.to_peer(request.raw_headers, body, own, ALSO_TO_PEER)
        upstream = self._route.upstream(Place(self._scheduler.own, engine))
        reply = await upstream.send(Outgoing("POST", request.raw_path, fields, body))
        await hand_back(reply, downstream)

    async def _ask_engine(
        self, request: HttpRequest, engine: EngineId, body: bytes
    ) -> tuple[Reply | None, UpstreamError | None]:
        is_chunked = "Transfer-Encoding" in request.headers
        outgoing = Outgoing(
            request.method,
            request.raw_path,
            headers.to_engine(request.raw_headers),
            Once(body) if is_chunked else body,
            version=request.version,
        )
        try:
            return await self._route.upstream(Place(self._scheduler.own, engine)).send(outgoing), None
        except UpstreamError as error:
            return None, error

    async def _ask_peers(self, request: HttpRequest, body: bytes) -> bytes | None:
        """The first good answer of those that list the model."""
        model = shown_model(body)
        for place, listed in self._shown_by_peers():
            if listed == model and (shown := await self._ask_peer(request, body, place)) is not None:
                return shown
        return None

    async def _ask_peer(self, request: HttpRequest, body: bytes, place: Place) -> bytes | None:
        own = (("Host", "pairproxy"), (headers.ENGINE, place.engine))
        fields = headers.to_peer(request.raw_headers, body, own, ALSO_TO_PEER)
        reply: Reply | None = None
        try:
            async with asyncio.timeout(PEER_S):
                outgoing = Outgoing("POST", request.raw_path, fields, body)
                reply = await self._route.upstream(place).send(outgoing)
                return await reply.read(SHOWN_BYTES) if _is_shown(reply) else None
        except (UpstreamError, TimeoutError):
            return None
        finally:
            if reply is not None:
                reply.abandon()

    def _shown_by_peers(self) -> Iterator[tuple[Place, ModelName]]:
        told = listed_by_peers(self._scheduler, Listing.TAGS, self._now(), has_show=True)
        return ((place, entry.model) for place, entry in told)


def listed_by_peers(
    scheduler: Scheduler, listing: Listing, at: float, *, has_show: bool
) -> Iterator[tuple[Place, CatalogueEntry]]:
    """What peers list and a request from here may be sent to them for."""
    rules = scheduler.rules
    if rules.policy == "local-only":
        return
    there = scheduler.nodes.healthy(at)
    for place, entry in scheduler.nodes.catalogues.entries(listing, there, has_show=has_show):
        if not replicas.matches(entry.model, rules.local_only):
            yield place, entry


def is_here_only(request: HttpRequest) -> bool:
    """Whether a request may not leave this machine: its client said so, or its body cannot be read here."""
    says_so = request.headers.get(headers.LOCAL, "").lower() == "true"
    return says_so or "Content-Encoding" in request.headers


def _is_shown(reply: Reply) -> bool:
    kind = headers.first(reply.headers, "Content-Type") or ""
    is_odd = headers.first(reply.headers, headers.REFUSED) or headers.first(reply.headers, "Content-Encoding")
    return reply.status == 200 and kind.lower().startswith("application/json") and not is_odd
