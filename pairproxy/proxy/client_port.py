"""The engine's well-known port: every tool that points at localhost arrives here.

1. Host and Origin are checked (gate), and what pages are told is settled (cors). A page that only the engine
   of this port can judge gets to that engine alone, unread.
2. What is not inference goes to the engine of this port as it is.
3. Inference is read as far as routing needs, handed to the dispatcher, and each attempt is forwarded.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from random import Random

from pairproxy.aside import aside, is_read_at_once
from pairproxy.attempt import Attempt
from pairproxy.config import Limits
from pairproxy.core.dialects import reading, routes
from pairproxy.core.errors import PairproxyError, ReplyTruncated, Unreachable, UpstreamError
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, Request, RequestId
from pairproxy.descriptors import LAST
from pairproxy.dispatcher import Dispatcher
from pairproxy.proxy import cors, headers
from pairproxy.proxy.body import BodyStream, Kept, Once, read_body, say_continue
from pairproxy.proxy.catalogue import Catalogue
from pairproxy.proxy.continuing import Continuation, continuation_of
from pairproxy.proxy.downstream import Downstream
from pairproxy.proxy.form import check_form
from pairproxy.proxy.forward import SENT, Route, body_for, forward, hand_back
from pairproxy.proxy.gate import Gate, is_like_page
from pairproxy.proxy.request import HttpRequest, Written
from pairproxy.proxy.server import Port
from pairproxy.proxy.tunnel import is_websocket, tunnel, upgrading
from pairproxy.proxy.unloading import Unloading
from pairproxy.upstreams import Outgoing, Reply, Upstream

_NAME_BITS = 128  # of chance in the name of a request: none comes twice
_chance = Random()  # nobody gains by guessing a name, so the system need not be asked for each
_OLD_CLIENT = "its client cannot read what a peer sends"


class ClientPort(Port):
    """The port that stands for one engine of this node."""

    def __init__(
        self,
        own: NodeId,
        engine: EngineId,
        dispatcher: Dispatcher,
        route: Route,
        limits: Limits,
        gate: Gate,
        unloading: Unloading,
        kind: str = "ollama",
        catalogue: Catalogue | None = None,
        *,
        most: int | None = None,
        kept: int = LAST,
        waits_for_half_closed: bool = True,
    ) -> None:
        """``kind`` of the engine, whose rules for web pages hold here (cors); no ``catalogue``: its lists.

        ``most``, ``kept``, ``waits_for_half_closed``: see Port.
        """
        super().__init__(limits, most=most, kept=kept, waits_for_half_closed=waits_for_half_closed)
        self._own = own
        self._engine = engine
        self._dispatcher = dispatcher
        self._route = route
        self._limits = limits
        self._gate = gate
        self._unloading = unloading
        self._kind = kind
        self._rules = cors.rules_for(kind)
        self._catalogue = catalogue
        self.until_ready: Callable[[], Awaitable[None]] | None = None
        """Waited for, a bounded time, before a request is looked at: the engine is just moving."""
        self.lets_engine_judge = False
        """Whether a page of an Origin that is none of ours may ask the engine alone: it says that any may."""

    def stand_for(self, engine: EngineId, kind: str) -> None:
        """From now on this is the port of another engine of this node."""
        self._engine, self._kind, self._rules = engine, kind, cors.rules_for(kind)

    async def _handle(self, request: HttpRequest) -> Written:
        downstream = Downstream(request, self._limits.client_stall_s)
        try:
            is_for_engine = self._check(request, downstream)
            if self.until_ready is not None:
                await self.until_ready()
            if is_for_engine:
                await self._pass_through(request, downstream)
            elif routes.inference_dialect(request.method, request.raw_path) is not None:
                await self._infer(request, downstream)
            elif is_websocket(request):
                await self._upgrade(request, downstream)
            elif request.method == "OPTIONS" and self._rules is not cors.Rules.KEPT:
                await self._preflight(request, downstream)
            elif not (self._catalogue and await self._catalogue.answer(request, self._engine, downstream)):
                await self._pass_through(request, downstream)
        except PairproxyError as error:
            downstream.fail(routes.dialect_of(request.raw_path), error)
        except ConnectionError:
            raise  # the client left
        except Exception as error:  # noqa: BLE001 its client is told, and the log
            downstream.fail_unexpectedly(routes.dialect_of(request.raw_path), error)
        return downstream.written()

    def _check(self, request: HttpRequest, downstream: Downstream) -> bool:
        """Let a request in or raise; True: the engine of this port has to judge its page, nobody else."""
        self.refuse_a_crowd(request)
        said = request.said
        if not said.is_formed:
            check_form(request)
            said.is_formed = True
        hosts = said.hosts
        if not hosts and request.version < (1, 1):
            hosts = ["localhost"]  # HTTP/1.0 needs none, and no browser speaks it
        origins = said.origins
        asks_engine = self._rules is cors.Rules.RELAYED or self.lets_engine_judge
        if self._gate.check(
            hosts, origins, said.site, knows_containers=True,
            is_like_page=is_like_page(request.method, request.headers),
            can_engine_judge=bool(origins) and asks_engine and not is_websocket(request),
        ):  # fmt: skip
            return True  # and no word to the page from us
        page = _page(request) if origins else None
        if page is not None and self._rules is not cors.Rules.KEPT:
            downstream.tell_page(cors.on_reply(page), self._rules is cors.Rules.OURS)
        return False

    async def _infer(self, request: HttpRequest, downstream: Downstream) -> None:
        say_continue(request)
        kept = Kept(await read_body(request, self._limits))
        if is_read_at_once(kept.body, is_coded=request.said.is_coded):
            asked = self._asked(request, kept.body)
        else:
            asked = await asyncio.to_thread(self._asked, request, kept.body)
        if asked.unloads and not asked.local_only and asked.stays is None:
            await self._unload(request, kept.body, asked.model, downstream)
            return
        going = await self._going(asked, kept.body) if self._dispatcher.is_continuing() else None
        if going is None:
            downstream.kept = kept
        relayed = None if going is None else going.relay
        attempts = self._dispatcher.attempts(asked)
        try:
            while (attempt := await attempts.next()) is not None:
                async with attempt:
                    outgoing = self._outgoing(request, kept.body, attempt, going)
                    sending = forward(attempt, self._route, outgoing, downstream, relayed)
                    outgoing = SENT  # nothing here keeps its body when it was sent
                    await sending
        except ReplyTruncated:
            if going is None or not going.end_with_error(downstream):
                raise
        finally:
            attempts.close()

    async def _going(self, asked: Request, body: bytes) -> Continuation | None:
        read = partial(continuation_of, asked, body, self._dispatcher.now)
        return await aside(body, read, is_coded=False)

    def _asked(self, request: HttpRequest, body: bytes) -> Request:
        said = request.said
        return reading.read(
            RequestId(f"{_chance.getrandbits(_NAME_BITS):032x}"),
            request.raw_path,
            body,
            coding=said.coding,
            content_type=said.content_type,
            kind=self._kind,
            stays=_OLD_CLIENT if request.version < (1, 1) else None,
            client=request.remote or "",
            run=said.run or None,
            chain=said.chain,
            trace=said.trace,
            local_only=said.is_local or (bool(said.origins) and self._rules is cors.Rules.KEPT),
            engine=self._engine,
        )

    def _outgoing(
        self, request: HttpRequest, body: bytes, attempt: Attempt, going: Continuation | None
    ) -> Outgoing:
        raw, target, content = request.raw_headers, request.raw_path, body
        if going is not None:
            target, content = going.target(target), going.body(body)
        if self._route.is_peer(attempt.place):
            own = (
                ("Host", "pairproxy"),
                (headers.REQUEST, attempt.id.request),
                (headers.ATTEMPT, str(attempt.id.number)),
                (headers.ENGINE, attempt.place.engine),
                *headers.on_trace(attempt.request.trace),
            )
            return Outgoing("POST", target, headers.to_peer(raw, content, own), content)
        return self._to_engine(request, body, body_for(attempt, content), target)

    def _to_engine(
        self, request: HttpRequest, body: bytes, content: bytes | None = None, target: str | None = None
    ) -> Outgoing:
        """The request for an engine of this node, with another body or target if they are given."""
        fields = request.said.to_engine()
        if content is None or content is body:
            content = body
        else:
            fields = headers.with_length(fields, content)
        return Outgoing(
            request.method,
            target or request.raw_path,
            fields,
            Once(content) if request.said.is_chunked else content,
            version=request.version,
        )

    async def _unload(
        self, request: HttpRequest, body: bytes, model: ModelName, downstream: Downstream
    ) -> None:
        """Unload a model here and wherever we had it loaded: beside the slots, as engines do it."""
        told = request.raw_path, request.raw_headers, body
        places = self._unloading.tell_peers(model, *told)
        reply: Reply | None = None
        try:
            reply = await self._own_upstream().send(self._to_engine(request, body))
        except Unreachable:
            if not places:
                raise
        if (reply is None or reply.status == 404) and places:  # a model that only peers have
            with suppress(UpstreamError):
                answer = await self._unloading.ask(places[0], *told)
                if answer.status == 200 or reply is None:
                    if reply is not None:
                        reply.abandon()
                    await hand_back(answer, downstream, is_from_peer=True)
                    return
                answer.abandon()
        if reply is None:
            raise Unreachable(
                "The machine that has this model loaded does not answer. Try again in a moment."
            )
        await hand_back(reply, downstream)

    async def _pass_through(self, request: HttpRequest, downstream: Downstream) -> None:
        """Hand a request to the engine of this port unread, and its reply back."""
        has_body = request.content_length is not None or request.can_read_body
        if has_body:
            say_continue(request)
        outgoing = Outgoing(
            request.method,
            request.raw_path,
            headers.to_engine(request.raw_headers),
            BodyStream(request, self._limits) if has_body else None,
            version=request.version,
        )
        try:
            reply = await self._own_upstream().send(outgoing)
        except Unreachable:
            if self._catalogue is None or self._catalogue.absent.is_here(self._engine):
                raise
            return self._catalogue.absent.answer(request, self._kind, downstream)
        return await hand_back(reply, downstream)

    async def _preflight(self, request: HttpRequest, downstream: Downstream) -> None:
        """Let the engine say what a page may ask; say it where it cannot, or has other rules."""
        if self._rules is cors.Rules.RELAYED:
            try:
                return await self._pass_through(request, downstream)
            except Unreachable:
                pass  # what the page goes on to ask may be answered by a peer
        downstream.tell_page((), is_ours=False)  # the answer says it all
        return downstream.answer(204, cors.on_preflight(_page(request)))

    async def _upgrade(self, request: HttpRequest, downstream: Downstream) -> None:
        """Ask the engine of this port for a WebSocket; a reply that does not agree is one like any other."""
        reply = await self._own_upstream().send(upgrading(request))
        if reply.is_switched:
            await tunnel(request, reply, self._limits.relay_buffer_bytes)
        else:
            await hand_back(reply, downstream)

    def _own_upstream(self) -> Upstream:
        return self._route.upstream(Place(self._own, self._engine))


def _page(request: HttpRequest) -> str | None:
    """The origin of a page of another address, let in by the gate; None: no page asks, or the port's own."""
    origin = request.headers.get("Origin")
    return None if origin is None or cors.is_own(origin, request.headers.get("Host", "")) else origin
