"""The port for clients that cannot reach loopback: TLS, and a key with every request.

It answers as the client port of one engine does, but never what changes this machine: inference, and what
models there are. No web page may use it, for none could keep a key from who reads it. The Host header is not
checked: a name that was made to point here brings no key along.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from urllib.parse import unquote

import msgspec

from pairproxy.config import Limits
from pairproxy.core.catalogue import listing_at, model_name, shown_model
from pairproxy.core.dialects import reading, routes
from pairproxy.core.errors import (
    BadRequest,
    BeyondItsKey,
    ModelNotFound,
    NotAuthenticated,
    PairproxyError,
    QueueTimeout,
)
from pairproxy.core.models import Dialect, EngineId, ModelName, NodeId, Request
from pairproxy.core.replicas import matches
from pairproxy.descriptors import LOCAL
from pairproxy.dispatcher import Dispatcher
from pairproxy.proxy.body import read_body, say_continue
from pairproxy.proxy.catalogue import Catalogue
from pairproxy.proxy.client_port import ClientPort
from pairproxy.proxy.downstream import JSON, Downstream
from pairproxy.proxy.form import check_form
from pairproxy.proxy.forward import Route
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.key_gate import KeyGate, shown_in, without_keys
from pairproxy.proxy.request import HttpRequest, Written
from pairproxy.proxy.tunnel import is_websocket
from pairproxy.proxy.unloading import Unloading
from pairproxy.security.client_keys import ClientKey

CONNECTIONS = 128  # open at once; more than a machine's containers have, and idle ones give way
QUESTION_BYTES = 64 * 1024  # of a POST /api/show; they have about 100
_PLAIN = frozenset({"/", "/health"})
"""GET and HEAD: whether anybody is there."""


class KeyPort(ClientPort):
    """The client port of one engine, for who shows a key."""

    def __init__(
        self,
        own: NodeId,
        stands_for: Callable[[], tuple[EngineId, str]],
        dispatcher: Dispatcher,
        route: Route,
        limits: Limits,
        unloading: Unloading,
        catalogue: Catalogue,
        gate: KeyGate,
        queue_timeout_s: Callable[[], float],
        authority_of: Callable[[EngineId], str],
    ) -> None:
        """``stands_for``: the engine of this node that it speaks as now, and its kind.

        ``queue_timeout_s``: how long a request may wait for a slot of its key.

        ``authority_of``: an engine's host and port, which it is called by; raises Unreachable.
        """
        engine, kind = stands_for()
        super().__init__(
            own, engine, dispatcher, route, limits, Gate(), unloading, kind, catalogue,
            most=min(limits.connections, CONNECTIONS), kept=LOCAL, waits_for_half_closed=False,
        )  # fmt: skip
        self._limits_of_questions = msgspec.structs.replace(limits, body_bytes=QUESTION_BYTES)
        self._stands_for = stands_for
        self._keys = gate
        self._lists = catalogue
        self._queue_timeout_s = queue_timeout_s
        self._authority_of = authority_of
        self._slots: dict[str, asyncio.Semaphore] = {}  # of keys by their hash, as far as they have a limit

    def cut(self, gone: Iterable[ClientKey]) -> None:
        """Abort what is open for these keys, whatever is under way there."""
        hashes = {key.hash for key in gone}
        for connection in self._connections.open:
            if connection.shown in hashes and connection.transport:
                connection.transport.abort()
        for one in hashes:
            self._slots.pop(one, None)

    async def _handle(self, request: HttpRequest) -> Written:
        downstream = Downstream(request, self._limits.client_stall_s)
        words = routes.dialect_of(request.raw_path)
        self.stand_for(*self._stands_for())
        try:
            self.refuse_a_crowd(request)
            check_form(request)
            key = self._admit(request)
            await self._answer(key, self._without_keys(request, key), downstream)
        except NotAuthenticated as error:
            downstream.fail(words, error, (("WWW-Authenticate", "Bearer"),))
        except PairproxyError as error:
            downstream.fail(words, error)
        except ConnectionError:
            raise  # the client left
        except Exception as error:  # noqa: BLE001 its client is told, and the log
            downstream.fail_unexpectedly(words, error)
        return downstream.written()

    def _admit(self, request: HttpRequest) -> ClientKey:
        """Whose request it is, or raise."""
        fields = request.headers
        if "Origin" in fields or fields.get("Sec-Fetch-Site", "none") != "none":
            raise BeyondItsKey("Web pages may not use this port: they could not keep the key to themselves.")
        connection = request.connection
        connection.shown = ""
        key = self._keys.admit(shown_in(fields.items()), request.remote or "")
        connection.shown = key.hash
        return key

    def _without_keys(self, request: HttpRequest, key: ClientKey) -> HttpRequest:
        """The request as everybody behind this line sees it."""
        try:
            host = self._authority_of(self._engine)
        except PairproxyError:  # there is none; peers are told another Host anyway
            host = "localhost"
        try:
            asked = request.with_headers(without_keys(request.headers, host))
        except UnicodeError:
            raise BadRequest("A header is not UTF-8.") from None
        asked.key = key
        return asked

    async def _answer(self, key: ClientKey, request: HttpRequest, downstream: Downstream) -> None:
        method = "GET" if request.method == "HEAD" else request.method
        path = routes.path_of(request.raw_path)
        kind = routes.classify(method, request.raw_path)
        if kind is routes.Class.INFERENCE and not is_websocket(request):
            slots = await self._slot(key)
            try:
                await self._infer(request, downstream)
            finally:
                if slots is not None:
                    slots.release()
            return
        is_asking = method == "POST" and path in routes.SLOTLESS and not key.models
        is_looking = kind is routes.Class.CATALOGUE or (method == "GET" and path in _PLAIN)
        if is_websocket(request) or not (is_asking or is_looking):
            raise BeyondItsKey(
                "A key is for inference and for asking what models there are. Do this on the machine itself."
            )
        if method == "GET" and request.can_read_body:  # an engine may take it for a request of its own
            raise BadRequest("This question has no body. Send it without one.")
        if key.models:
            if await self._answer_in_part(key, request, downstream):
                return
            if path == "/api/show":
                request = await self._checked(key, request)
        if not await self._lists.answer(request, self._engine, downstream):
            await self._pass_through(request, downstream)

    async def _answer_in_part(self, key: ClientKey, request: HttpRequest, downstream: Downstream) -> bool:
        """List what a key may use; False: it is no list. Raises ModelNotFound for an entry that is hidden."""
        path = routes.path_of(request.raw_path)
        if (listing := listing_at(path)) is not None:
            downstream.answer(
                200, (JSON,), self._lists.remembered(listing, self._engine, lambda one: _may_use(key, one))
            )
            return True
        parent, _, name = path.rpartition("/")
        if listing_at(parent) is not None and not _may_use(key, model_name(unquote(name))):
            raise ModelNotFound(_NO_MODEL)
        return False

    async def _checked(self, key: ClientKey, request: HttpRequest) -> HttpRequest:
        """A question about a model that the key may use, its body to be read again. Raises ModelNotFound."""
        say_continue(request)
        body = await read_body(request, self._limits_of_questions)
        if not _may_use(key, shown_model(body)):
            raise ModelNotFound(_NO_MODEL)
        return request.with_body(body)

    def _asked(self, request: HttpRequest, body: bytes) -> Request:
        asked, key = super()._asked(request, body), request.key
        if key is None or not _may_use(key, asked.model):
            raise ModelNotFound(_NO_MODEL)
        if asked.dialect is Dialect.OLLAMA and asked.stays in _UNCLEAR:  # it may say that a model is unloaded
            raise BadRequest(
                "This can be read in two ways, or not at all. Send one JSON object with each key once."
            )
        if asked.unloads:
            raise BeyondItsKey("A key is not for unloading models: others of this machine may use them.")
        return replace(asked, client=f"key:{key.name}")

    async def _slot(self, key: ClientKey) -> asyncio.Semaphore | None:
        """Take one of the slots that a key may hold; where from, None: it has no limit.

        Raises QueueTimeout if none was free for too long.
        """
        if key.slots is None:
            return None
        slots = self._slots.setdefault(key.hash, asyncio.Semaphore(key.slots))
        try:
            async with asyncio.timeout(self._queue_timeout_s()):
                await slots.acquire()
        except TimeoutError:
            raise QueueTimeout(
                f"The {key.slots} requests that this key may run at once took too long. Try again later.",
                retry_after_s=1,
            ) from None
        return slots


def _may_use(key: ClientKey, model: ModelName | None) -> bool:
    return not key.models or (model is not None and matches(model, key.models))


_UNCLEAR = frozenset({reading.AMBIGUOUS, reading.UNREADABLE, reading.CODING_UNKNOWN})
_NO_MODEL = "There is no such model here. Ask /v1/models or /api/tags for those there are."
