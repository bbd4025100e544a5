"""Ollama's API for an engine that speaks only OpenAI's: a small server on a loopback port of its own.

It translates (core/dialects/translate.py) and otherwise stays out of the way: lines are written as they
come, and a client that leaves closes the engine's connection at once.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import partial

import aiohttp
from aiohttp import web

from pairproxy.aside import aside
from pairproxy.clock import Clock, MonotonicClock
from pairproxy.config import Limits
from pairproxy.core.dialects.ollama_catalogue import (
    ModelCard,
    ps_reply,
    show_reply,
    tags_reply,
    version_reply,
)
from pairproxy.core.dialects.translate import (
    Call,
    ReplyStream,
    Route,
    immediate_reply,
    model_missing,
    read_object,
    requested_model,
    translate_error,
    translate_reply,
    translate_request,
    write_json,
)
from pairproxy.core.errors import BodyTooLarge, BodyTooSlow, BrokenReply, ModelNotFound, PairproxyError
from pairproxy.core.replicas import canonical_name
from pairproxy.engines import serving
from pairproxy.engines.catalogue import NEVER
from pairproxy.engines.openai_client import Address, OpenAiClient, read_whole

_CATALOGUE = ("/", "/api/version", "/api/tags", "/api/ps")
_INFERENCE = frozenset(Route)
_MANAGEMENT = ("/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete")
_NOT_SUPPORTED = 501


class OllamaFace:
    """Serves ``card`` by asking the OpenAI server at ``upstream()``."""

    def __init__(
        self,
        card: ModelCard,
        upstream: Address,
        *,
        is_loaded: Callable[[], bool] = lambda: True,
        body_bytes: int = serving.BODY_BYTES,
        clock: Clock | None = None,
    ) -> None:
        self._card = card
        self._upstream = upstream
        self._is_loaded = is_loaded
        self._body_bytes = body_bytes
        self._clock = clock or MonotonicClock()
        self._client: OpenAiClient | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Listen on a free port of 127.0.0.1 and return it."""
        app = web.Application(client_max_size=self._body_bytes)
        app.router.add_route("*", "/{path:.*}", self._answer)
        app.on_response_prepare.append(_hide_server_header)
        self._client = OpenAiClient(self._upstream)
        # handler_cancellation: a client's leaving must reach the engine, and aiohttp does not do so by itself
        self._runner = serving.runner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Stop listening and break off what is under way. Safe to call twice."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        try:
            if path in _CATALOGUE:
                return self._catalogue(path) if request.method in ("GET", "HEAD") else _wrong_method()
            if path in _MANAGEMENT or path.startswith("/api/blobs/"):
                return _json(write_json({"error": self._fixed_model()}), _NOT_SUPPORTED)
            if path != "/api/show" and path not in _INFERENCE:
                return web.Response(status=404, text="404 page not found")
            if request.method != "POST":
                return _wrong_method()
            began = self._clock.now()
            body = await self._read(request)
            call = await aside(body, partial(self._understood, path, body))
            if call is None:
                return _json(write_json(show_reply(self._card)))
            return await self._infer(request, call, began)
        except PairproxyError as error:
            return _json(write_json({"error": error.sentence}), error.status)

    def _catalogue(self, path: str) -> web.Response:
        if path == "/":
            return web.Response(text="Ollama is running")
        if path == "/api/version":
            return _json(write_json(version_reply()))
        if path == "/api/tags":
            return _json(write_json(tags_reply(self._card)))
        return _json(write_json(ps_reply(self._card, NEVER) if self._is_loaded() else {"models": []}))

    def _fixed_model(self) -> str:
        return f"this engine has one fixed model, {self._card.name}; install Ollama to add or remove models"

    async def _read(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(Limits().body_deadline_s):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise BodyTooLarge(f"the request is larger than {self._body_bytes} bytes; send less") from None
        except TimeoutError:
            raise BodyTooSlow("the request's body did not arrive in time; send it again") from None

    def _understood(self, path: str, body: bytes) -> Call | None:
        """What is asked of the model that is here; None: what it is."""
        asked = read_object(body)
        model = requested_model(asked)
        if canonical_name(model) != canonical_name(self._card.name):
            raise ModelNotFound(model_missing(path, model))
        return None if path == "/api/show" else translate_request(Route(path), asked, self._card)

    async def _infer(self, request: web.Request, call: Call, began: float) -> web.StreamResponse:
        if call.done_reason is not None:
            return _json(immediate_reply(call, _now(), self._clock.now() - began))
        assert self._client is not None  # noqa: S101 - the server that calls us runs only while it is there
        async with self._client.post(call.path, call.body) as reply:
            if reply.status != 200:
                return _json(translate_error(call, await read_whole(reply), reply.status), reply.status)
            if call.is_streaming:
                return await self._stream(request, call, reply, began)
            whole = await read_whole(reply)
            return _json(translate_reply(call, whole, _now(), self._clock.now() - began))

    async def _stream(
        self, request: web.Request, call: Call, reply: aiohttp.ClientResponse, began: float
    ) -> web.StreamResponse:
        """Write each line as it comes. The head waits for the first: a failure may still need its status."""
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        stream = ReplyStream(call)
        async for line in self._lines(stream, reply, began):
            if not response.prepared:
                if stream.failure is not None:
                    raise BrokenReply(stream.failure)
                await response.prepare(request)
            await response.write(line)
        await response.write_eof()
        return response

    async def _lines(
        self, stream: ReplyStream, reply: aiohttp.ClientResponse, began: float
    ) -> AsyncIterator[bytes]:
        try:
            async for piece in reply.content.iter_any():
                for line in stream.feed(piece, _now(), self._clock.now() - began):
                    yield line
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            pass  # close() says that the reply broke off
        for line in stream.close(_now(), self._clock.now() - began):
            yield line


async def _hide_server_header(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)  # Ollama sends none


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json", charset="utf-8")


def _wrong_method() -> web.Response:
    return web.Response(status=405, text="405 method not allowed")


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
