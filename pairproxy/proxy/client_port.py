"""The engine's well-known port: every tool that points at localhost arrives here.

1. Host and Origin are checked (gate). 2. What is not inference goes to the engine of this port as it is.
3. Inference is read as far as routing needs, handed to the dispatcher, and each attempt is forwarded.
"""

import uuid

from aiohttp import web

from pairproxy.config import Limits
from pairproxy.core.dialects import reading, routes
from pairproxy.core.errors import BadRequest, NotAllowed, PairproxyError, QueueFull, ReplyTruncated
from pairproxy.core.models import Dialect, EngineId, ModelName, NodeId, Place, Request, RequestId
from pairproxy.dispatcher import Attempt, Dispatcher
from pairproxy.proxy import headers
from pairproxy.proxy.body import once, read_body, stream_body
from pairproxy.proxy.downstream import Downstream
from pairproxy.proxy.forward import Route, forward
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.server import Port
from pairproxy.upstreams import Outgoing

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_RUN_NAME_LENGTH = 64


class ClientPort(Port):
    """The port that stands for one engine of this node."""

    def __init__(
        self, own: NodeId, engine: EngineId, dispatcher: Dispatcher, route: Route, limits: Limits, gate: Gate
    ) -> None:
        super().__init__(self._handle, limits)
        self._own = own
        self._engine = engine
        self._dispatcher = dispatcher
        self._route = route
        self._limits = limits
        self._gate = gate

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        downstream = Downstream(request)
        try:
            self._check(request)
            dialect = routes.inference_dialect(request.method, request.raw_path)
            if dialect is None:
                await self._pass_through(request, downstream)
            else:
                await self._infer(request, dialect, downstream)
        except ReplyTruncated:
            pass  # its client was told by the attempt
        except PairproxyError as error:
            downstream.fail(routes.dialect_of(request.raw_path), error)
        return downstream.written()

    def _check(self, request: web.BaseRequest) -> None:
        if self.connections > self._limits.connections:
            raise QueueFull("Too many connections are open; try again in a moment.", retry_after_s=1)
        if request.version not in ((1, 0), (1, 1)):
            raise BadRequest("Only HTTP/1.0 and HTTP/1.1 are spoken here.")
        if request.method not in _METHODS:
            raise BadRequest(f"The method {request.method[:16]!r} is not known here.")
        if not request.raw_path.startswith("/"):
            raise BadRequest("The request target has to be a path.")
        fields = request.headers
        self._gate.check(fields.getall("Host", []), fields.getall("Origin", []), fields.get("Sec-Fetch-Site"))

    async def _infer(self, request: web.BaseRequest, dialect: Dialect, downstream: Downstream) -> None:
        await _say_continue(request)
        body = await read_body(request, self._limits)
        asked = self._asked(request, dialect, body)
        async for attempt in self._dispatcher.attempts(asked):
            async with attempt:
                await forward(attempt, self._route, self._outgoing(request, body, attempt), downstream)

    def _asked(self, request: web.BaseRequest, dialect: Dialect, body: bytes) -> Request:
        read = None if "Content-Encoding" in request.headers else reading.read(request.raw_path, body)
        run = request.headers.get(headers.RUN, "")[:_RUN_NAME_LENGTH]
        return Request(
            id=RequestId(uuid.uuid4().hex),
            model=read.model if read else ModelName(""),
            dialect=dialect,
            path=routes.path_of(request.raw_path),
            is_streaming=read.is_streaming if read else False,
            prompt_tokens=read.prompt_tokens if read else len(body) // reading.CHARACTERS_PER_TOKEN,
            max_output_tokens=read.max_output_tokens if read else None,
            client=request.remote or "",
            run=run if run.isprintable() and run else None,
            local_only=read is None or request.headers.get(headers.LOCAL, "").lower() == "true",
            engine=self._engine,
        )

    def _outgoing(self, request: web.BaseRequest, body: bytes, attempt: Attempt) -> Outgoing:
        raw = request.raw_headers
        if self._route.is_peer(attempt.place):
            own = (
                ("Host", "pairproxy"),
                (headers.REQUEST, attempt.id.request),
                (headers.ATTEMPT, str(attempt.id.number)),
                (headers.ENGINE, attempt.place.engine),
            )
            return Outgoing("POST", request.raw_path, headers.to_peer(raw, own), body)
        is_chunked = request.content_length is None and request.can_read_body
        return Outgoing(
            request.method,
            request.raw_path,
            headers.to_engine(raw),
            once(body) if is_chunked else body,
            version=(request.version.major, request.version.minor),
        )

    async def _pass_through(self, request: web.BaseRequest, downstream: Downstream) -> None:
        """Hand a request to the engine of this port unread, and its reply back."""
        declared = request.content_length
        if declared is None and not request.can_read_body:
            body = None
        else:
            await _say_continue(request)
            body = stream_body(request, self._limits)
        outgoing = Outgoing(
            request.method,
            request.raw_path,
            headers.to_engine(request.raw_headers),
            body,
            version=(request.version.major, request.version.minor),
        )
        place = Place(self._own, self._engine)
        reply = await self._route.upstream(place).send(outgoing)
        try:
            downstream.begin(reply, is_from_peer=False)
            await reply.relay(downstream.write, _unseen, downstream.drain, downstream.buffered)
        except ReplyTruncated as error:
            is_stream = reply.is_at_chunk_boundary
            downstream.break_off(routes.dialect_of(request.raw_path), error, is_stream)
            raise
        finally:
            reply.abandon()


async def _say_continue(request: web.BaseRequest) -> None:
    """Answer ``Expect: 100-continue`` when the body is about to be read, as the engines do."""
    expectation = request.headers.get("Expect")
    if expectation is None or request.version < (1, 1):
        return
    if expectation.lower() != "100-continue":
        raise NotAllowed("The expectation is not known here.")
    if request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _unseen(data: bytes) -> None:
    """What passes through is metered by nobody."""
