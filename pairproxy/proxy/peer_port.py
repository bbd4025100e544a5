"""The peer port: mutual TLS, inference for this node's own engines, their models, and state documents.

Every request is checked against the trust store anew: who was forgotten a second ago gets nothing, also on
a connection that is open. A peer's request is served here or refused; it is never sent on. What it asks of
the memory here is bounded (core.dialects.guests).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from pairproxy.aside import aside
from pairproxy.config import Limits
from pairproxy.core.dialects import reading, routes
from pairproxy.core.dialects.excess import is_excessive
from pairproxy.core.dialects.guests import for_guest
from pairproxy.core.documents import PROTOCOL
from pairproxy.core.errors import (
    BadRequest,
    Draining,
    NotAllowed,
    PairproxyError,
    PeerNotTrusted,
    ProtocolDiffers,
    QueueFull,
    SlotsTaken,
)
from pairproxy.core.models import Dialect, EngineId, NodeId, Place, Request, RequestId
from pairproxy.core.residency import Residency
from pairproxy.descriptors import LOCAL
from pairproxy.dispatcher import Dispatcher
from pairproxy.interfaces import CATALOGUE_PATH, MODELS_PATH, STATE_PATH
from pairproxy.proxy import headers
from pairproxy.proxy.body import Kept, read_body
from pairproxy.proxy.catalogue import Catalogue
from pairproxy.proxy.downstream import Downstream
from pairproxy.proxy.form import check_form
from pairproxy.proxy.forward import SENT, Route, body_for, forward, hand_back
from pairproxy.proxy.request import HttpRequest, Written
from pairproxy.proxy.server import Port
from pairproxy.responses import Response, StreamResponse
from pairproxy.security.tls import peer_certificate, speaks_our_protocol
from pairproxy.upstreams import Outgoing

PeerOf = Callable[[bytes], NodeId | None]
"""The paired node that a certificate (DER) belongs to, now. Raises NotAllowed where it is known why not."""
SendState = Callable[[HttpRequest, NodeId], Awaitable[StreamResponse]]
"""Answers GET STATE_PATH with a stream of state documents (peers.exchange)."""
ServeModels = Callable[[HttpRequest, NodeId], Awaitable[StreamResponse]]
"""Answers what a peer asks of the models that lie here (replicating.node). Raises PairproxyError."""


HELD_BODIES = 4  # of the largest size that a peer's requests may hold in memory; honest ones are small
CONNECTIONS_A_SLOT = 1.25  # what asks beside those that run: state, listings, who comes too late for a slot
FORMER_S = 1.0  # for an attempt whose connection was ended to give its slot back, which takes milliseconds


@dataclass(eq=False, slots=True)
class _Serving:
    """An attempt of a peer that runs here."""

    number: int
    request: HttpRequest
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    is_given_up: bool = False  # its connection was ended and it did not end within FORMER_S


@dataclass(frozen=True, slots=True)
class _Given:
    """What an engine here gets of a peer's request."""

    target: str
    fields: headers.Headers
    kept: Kept


class PeerPort(Port):
    """What paired nodes may ask of this one."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        route: Route,
        limits: Limits,
        peer_of: PeerOf,
        send_state: SendState,
        authority_of: Callable[[EngineId], str],
        residency: Residency,
        catalogue: Catalogue,
        refusal: Callable[[NodeId], bytes],
        models: ServeModels | None = None,
        slots: Callable[[], int] = lambda: 0,
    ) -> None:
        """``slots``: of this node's engines, now."""
        super().__init__(limits, most=limits.peer_connections, kept=LOCAL)
        self._dispatcher = dispatcher
        self._route = route
        self._limits = limits
        most = min(limits.body_bytes, limits.peer_body_bytes)
        self._body_limits = msgspec.structs.replace(limits, body_bytes=most)
        self._peer_of = peer_of
        self._send_state = send_state
        self._authority_of = authority_of
        self._residency = residency
        self._catalogue = catalogue
        self._refusal = refusal
        self._models = models
        self._slots = slots
        self._open: dict[NodeId, int] = {}
        self._held: dict[NodeId, int] = {}  # bytes of bodies
        self._serving: dict[str, _Serving] = {}  # by request, whatever its attempt

    def cut(self, certificate: bytes) -> None:
        """Abort every connection on which this certificate (DER) was shown, whatever is under way there."""
        for connection in self._connections.open:
            transport = connection.transport
            if transport is not None and peer_certificate(transport) == certificate:
                transport.abort()

    def most_of_owner(self) -> int:
        """Connections that one peer may have now: for every slot one, and some beside them."""
        return max(super().most_of_owner(), int(self._slots() * CONNECTIONS_A_SLOT))

    async def _handle(self, request: HttpRequest) -> Written | StreamResponse:
        downstream = Downstream(request, self._limits.client_stall_s)
        peer: NodeId | None = None
        try:
            peer = self._authenticate(request)
            self._open[peer] = self._open.get(peer, 0) + 1
            if self._open[peer] > self.most_of_owner():
                raise QueueFull("Too many requests of this peer are open.", retry_after_s=1)
            return await self._answer(request, peer, downstream)
        except PairproxyError as error:
            is_taken = peer is not None and isinstance(error, SlotsTaken | Draining)
            state = self._refusal(peer) if peer is not None and is_taken else None
            why = ((headers.REFUSED, type(error).__name__), (headers.PROTOCOL, str(PROTOCOL)))
            downstream.fail(Dialect.OPENAI, error, why, state)
        except ConnectionError:
            raise  # the peer left
        except Exception as error:  # noqa: BLE001 its client is told, and the log
            downstream.fail_unexpectedly(Dialect.OPENAI, error)
        finally:
            if peer is not None:
                self._open[peer] -= 1
        return downstream.written()

    def _authenticate(self, request: HttpRequest) -> NodeId:
        certificate = peer_certificate(request.transport)
        peer = self._peer_of(certificate) if certificate is not None else None
        if peer is None:
            raise PeerNotTrusted("This machine is not paired with you.")
        if not speaks_our_protocol(request.transport):
            raise ProtocolDiffers("This machine speaks another version of the protocol between nodes.")
        return peer

    async def _answer(
        self, request: HttpRequest, peer: NodeId, downstream: Downstream
    ) -> Written | StreamResponse:
        check_form(request)
        if request.method == "GET" and request.raw_path == STATE_PATH:
            return await self._send_state(request, peer)
        self.refuse_a_crowd(request)
        if request.method == "GET" and request.raw_path == CATALOGUE_PATH:
            return Response(body=self._catalogue.own(peer), content_type="application/json")
        if request.raw_path.startswith(MODELS_PATH) and self._models is not None:
            return await self._models(request, peer)
        if request.method == "POST" and routes.path_of(request.raw_path) == "/api/show":
            await self._catalogue.show.to_peer(request, peer, self._authority_of, downstream)
            return downstream.written()
        if routes.inference_dialect(request.method, request.raw_path) is None:
            raise NotAllowed("Peers may ask for inference, and what models there are, and nothing else.")
        size = self._hold(request, peer)
        try:
            return await self._infer(request, peer, downstream)
        finally:
            self._held[peer] -= size

    def _hold(self, request: HttpRequest, peer: NodeId) -> int:
        """Count the body, which is in memory from now on. Bytes.

        Raises QueueFull where the peer's others take all it may have.
        """
        most = self._body_limits.body_bytes
        size = min(request.content_length if request.content_length is not None else most, most)
        if self._held.get(peer, 0) + size > HELD_BODIES * most:
            raise QueueFull("The requests of this peer are too large together.", retry_after_s=1)
        self._held[peer] = self._held.get(peer, 0) + size
        return size

    async def _infer(
        self, request: HttpRequest, peer: NodeId, downstream: Downstream
    ) -> Written | StreamResponse:
        body = await read_body(request, self._body_limits)
        is_coded = "Content-Encoding" in request.headers
        asked, given = await aside(body, partial(self._asked, request, peer, body), is_coded=is_coded)
        body = b""
        if asked.unloads:
            await self._unload(asked, given, downstream)
            return downstream.written()
        name, _, number = asked.id.rpartition("-")
        serving = await self._begin_alone(name, int(number), request)
        try:
            await self._serve(asked, given, downstream)
        finally:
            serving.is_over.set()
            if self._serving.get(name) is serving:
                del self._serving[name]
        return downstream.written()

    async def _begin_alone(self, name: str, number: int, request: HttpRequest) -> _Serving:
        """Serve this attempt from now on, and no other of the same request.

        The one before it is ended: its origin has given it up, though that was not heard here yet. Raises
        SlotsTaken for one that is served already, or for an old one that comes late.
        """
        while (former := self._serving.get(name)) is not None and not former.is_given_up:
            if former.number >= number:
                raise SlotsTaken("This attempt is being served already.")
            if former.request.transport is not None:
                former.request.transport.abort()
            try:
                async with asyncio.timeout(FORMER_S):
                    await former.is_over.wait()
            except TimeoutError:
                former.is_given_up = True
        serving = self._serving[name] = _Serving(number, request)
        return serving

    async def _serve(self, asked: Request, given: _Given, downstream: Downstream) -> None:
        downstream.kept = given.kept
        attempts = self._dispatcher.attempts(asked)
        try:
            while (attempt := await attempts.next()) is not None:
                async with attempt:
                    host = ("Host", self._authority_of(attempt.place.engine))
                    own = (host, *headers.on_trace(asked.trace))
                    content = body_for(attempt, given.kept.body)
                    fields = headers.to_peer(given.fields, content, own)
                    outgoing = Outgoing("POST", given.target, fields, content)
                    sending = forward(attempt, self._route, outgoing, downstream)
                    outgoing, content = SENT, b""  # nothing here keeps its body when it was sent
                    await sending
        finally:
            attempts.close()

    async def _unload(self, asked: Request, given: _Given, downstream: Downstream) -> None:
        """Unload a model that nobody but this peer has used lately."""
        residency, engine, peer = self._residency, asked.engine, asked.origin
        if not engine or not peer or not self._catalogue.may_use(peer, asked.model):
            raise NotAllowed("There is no such model to unload.")
        if not residency.may_unload(asked.model, peer, self._dispatcher.now()):
            raise NotAllowed("Others use this model.")
        body = given.kept.body
        fields = headers.to_peer(given.fields, body, (("Host", self._authority_of(engine)),))
        upstream = self._route.upstream(Place(residency.own, engine))
        await hand_back(await upstream.send(Outgoing("POST", given.target, fields, body)), downstream)

    def _asked(self, request: HttpRequest, peer: NodeId, body: bytes) -> tuple[Request, _Given]:
        """What a peer asks, and what the engine is given of that. Raises BadRequest."""
        fields = request.headers
        name, number = fields.get(headers.REQUEST, ""), fields.get(headers.ATTEMPT, "")
        is_plain = name.isascii() and number.isascii()  # to Python a superscript is a digit, but no number
        if not is_plain or not name.isalnum() or len(name) > 64 or not number.isdigit() or len(number) > 3:
            raise BadRequest("The request is not one that a node would send.")
        coding, raw = ", ".join(fields.getall("Content-Encoding", [])), request.raw_headers
        changed = for_guest(routes.path_of(request.raw_path), body, coding)
        if changed is not None:
            coding, raw, body = "", headers.decoded(raw), changed
        asked = reading.read(
            RequestId(f"{peer}-{name}-{number}"),  # a peer chooses its names, never those of others
            request.raw_path,
            body,
            coding=coding,
            content_type=fields.get("Content-Type", ""),
            client=peer,
            origin=peer,
            engine=EngineId(fields.get(headers.ENGINE, "")[:64]),
            trace=headers.trace_of(fields.getall(headers.TRACE, [])),
        )
        if asked.stays is not None:
            raise BadRequest("The request is one that stays on the node it came to.")
        if is_excessive(asked, body):
            raise BadRequest("The request asks for more than this node gives to others.")
        return asked, _Given(request.raw_path, raw, Kept(body))
