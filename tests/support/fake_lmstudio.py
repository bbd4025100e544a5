"""A fake LM Studio: its port's HTTP routes and the WebSocket protocol that its official SDKs speak.

The protocol is told in the reference's section 1.2: a handshake, then calls (one answer each) and channels
(many). The one channel that computes is `predict`; text is made from what was asked.
"""

import asyncio
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from tests.support.fake_engine import DEADLINE_S
from tests.support.fake_ollama_reply import Reply

MODEL = "fake-1b"
NAMESPACES = ("llm", "embedding", "system", "files", "repository", "diagnostics", "plugins", "runtime")
WORDS = ("river", "stone", "tree", "cloud", "road", "bridge", "field", "hill")
LONG_WORDS = 500
LONG_GAP_S = 0.02  # ten seconds in all: nobody leaves after its end
INFO = {
    "type": "llm",
    "modelKey": MODEL,
    "format": "gguf",
    "displayName": "Fake 1B",
    "path": "fake/fake-1b.gguf",
    "sizeBytes": 1234567,
    "paramsString": "1B",
    "architecture": "fake",
    "vision": False,
    "trainedForToolUse": True,
    "maxContextLength": 32768,
}
INSTANCE = INFO | {"identifier": MODEL, "instanceReference": "instance-1", "contextLength": 4096}
V0_MODEL = {
    "id": MODEL,
    "object": "model",
    "type": "llm",
    "publisher": "fake",
    "arch": "fake",
    "compatibility_type": "gguf",
    "quantization": "Q4_K_M",
    "state": "loaded",
    "max_context_length": 32768,
    "loaded_context_length": 4096,
}
V1_MODEL = {
    "type": "llm",
    "publisher": "fake",
    "key": MODEL,
    "display_name": "Fake 1B",
    "architecture": "fake",
    "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
    "size_bytes": 1234567,
    "params_string": "1B",
    "loaded_instances": [{"id": MODEL, "config": {"context_length": 4096, "parallel": 4}}],
    "max_context_length": 32768,
    "format": "gguf",
    "capabilities": {"vision": False, "trained_for_tool_use": True},
}
CATALOGUE: dict[str, Any] = {
    "/lmstudio-greeting": {"lmstudio": True},
    "/v1/models": {
        "object": "list",
        "data": [{"id": MODEL, "object": "model", "owned_by": "organization_owner"}],
    },
    "/api/v0/models": {"object": "list", "data": [V0_MODEL]},
    f"/api/v0/models/{MODEL}": V0_MODEL,
    "/api/v1/models": {"models": [V1_MODEL]},
}
INFERENCE = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages")


@dataclass
class FakeLmStudio:
    """The server; ``cancelled`` counts predictions that were told to stop or whose client left.

    ``has_cors``: any page may ask it, as after `lms server start --cors`.
    """

    port: int = 0
    host: str = "127.0.0.1"
    has_cors: bool = False
    cancelled: int = 0
    sockets: int = 0
    _runner: web.AppRunner | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        app.on_response_prepare.append(_hide_server_header)
        if self.has_cors:
            app.on_response_prepare.append(_let_pages_ask)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.lstrip("/") in NAMESPACES and "Upgrade" in request.headers:
            return await self._talk(request)
        if request.method == "GET" and request.path in CATALOGUE:
            return web.json_response(CATALOGUE[request.path])
        if request.method == "POST" and request.path in INFERENCE:
            return await self._infer(request)
        # Real ones answer every unknown path so, with 200.
        return web.json_response(
            {"error": f"Unexpected endpoint or method. ({request.method} {request.path})"}
        )

    async def _infer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw)
        if body.get("model") != MODEL:
            error = {"message": f'Model "{body.get("model")}" not found', "type": "invalid_request_error"}
            return web.json_response(
                {"error": error | {"param": "model", "code": "model_not_found"}}, status=404
            )
        reply = Reply(request.path, body, raw, MODEL)
        if not reply.is_streaming:
            return web.json_response(reply.whole())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for part in reply.parts():
            await response.write(part)
            await asyncio.sleep(LONG_GAP_S if reply.is_long else 0.002)
        await response.write_eof()
        return response

    async def _talk(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets += 1
        hello = json.loads(await socket.receive_str())
        is_known = hello.get("authVersion") == 1 and {"clientIdentifier", "clientPasskey"} <= hello.keys()
        await socket.send_json({"success": True} if is_known else {"success": False, "error": "no"})
        predictions: dict[int, asyncio.Task[None]] = {}
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await self._take(json.loads(message.data), socket, predictions)
        finally:
            self.cancelled += sum(not task.done() for task in predictions.values())
            for task in predictions.values():
                task.cancel()
        return socket

    async def _take(
        self, message: Any, socket: web.WebSocketResponse, predictions: dict[int, asyncio.Task[None]]
    ) -> None:
        match message:
            case {"type": "keepAlive"}:
                await socket.send_json({"type": "keepAliveAck"})
            case {"type": "rpcCall", "endpoint": endpoint, "callId": call}:
                await socket.send_json({"type": "rpcResult", "callId": call, "result": _result(endpoint)})
            case {"type": "channelCreate", "channelId": number, "endpoint": "getOrLoad"}:
                await _get_or_load(socket, number, message["creationParameter"])
            case {"type": "channelCreate", "channelId": number, "endpoint": "predict"}:
                work = _predict(socket, number, message["creationParameter"])
                predictions[number] = asyncio.create_task(work, name="prediction")
            case {"type": "channelSend", "channelId": number, "message": {"type": "cancel"}}:
                if number in predictions and not predictions[number].done():
                    predictions[number].cancel()
                    self.cancelled += 1
                    await _finish(socket, number, "userStopped", 0)


async def _hide_server_header(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)  # Express sends none


async def _let_pages_ask(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Access-Control-Allow-Origin"] = "*"


def _result(endpoint: str) -> Any:
    match endpoint:
        case "listLoaded":
            return [INSTANCE]
        case "listDownloadedModels":
            return [INFO]
        case "getModelInfo":
            return INSTANCE
        case "countTokens":
            return {"tokenCount": 7}
    return None


async def _get_or_load(socket: web.WebSocketResponse, number: int, asked: Any) -> None:
    if asked["identifier"] != MODEL:
        query = {"identifier": asked["identifier"]}
        sample = {"query": query, "loadedModelsSample": [MODEL], "totalLoadedModels": 1}
        shown = {"code": "generic.noModelMatchingQuery", **sample}
        error = {"title": f'No model found that fits "{asked["identifier"]}".', "displayData": shown}
        await socket.send_json({"type": "channelError", "channelId": number, "error": error})
        return
    await _tell(socket, number, {"type": "alreadyLoaded", "info": INSTANCE})
    await socket.send_json({"type": "channelClose", "channelId": number})


async def _predict(socket: web.WebSocketResponse, number: int, asked: Any) -> None:
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()
    is_long = "Count from" in json.dumps(asked["history"])
    words = [f" {index}" for index in range(LONG_WORDS)] if is_long else [
        f" {WORDS[byte % len(WORDS)]}" for byte in digest[:8]
    ]  # fmt: skip
    await _tell(socket, number, {"type": "promptProcessingProgress", "progress": 1})
    for word in words:
        plain = {"tokensCount": 1, "containsDrafted": False, "reasoningType": "none", "isStructural": False}
        await _tell(socket, number, {"type": "fragment", "fragment": {"content": word, **plain}})
        await asyncio.sleep(LONG_GAP_S if is_long else 0.002)
    await _finish(socket, number, "eosFound", len(words))


async def _finish(socket: web.WebSocketResponse, number: int, reason: str, count: int) -> None:
    stats = {
        "stopReason": reason,
        "tokensPerSecond": 50.0,
        "promptTokensCount": 7,
        "predictedTokensCount": count,
    }
    nothing: dict[str, Any] = {"fields": []}
    ending = {"type": "success", "stats": stats, "modelInfo": INSTANCE}
    await _tell(socket, number, ending | {"loadModelConfig": nothing, "predictionConfig": nothing})
    await socket.send_json({"type": "channelClose", "channelId": number})


async def _tell(socket: web.WebSocketResponse, number: int, message: Any) -> None:
    await socket.send_json({"type": "channelSend", "channelId": number, "message": message})


@contextlib.contextmanager
def lmstudio_in_thread() -> Iterator[FakeLmStudio]:
    """Run one in a thread of its own."""
    studio, loop = FakeLmStudio(), asyncio.new_event_loop()
    is_ready, stop = threading.Event(), asyncio.Event()

    async def live() -> None:
        await studio.start()
        is_ready.set()
        await stop.wait()
        await studio.stop()

    def run() -> None:
        try:
            loop.run_until_complete(live())
        finally:
            is_ready.set()
            loop.close()

    thread = threading.Thread(target=run, name="fake LM Studio", daemon=True)
    thread.start()
    is_ready.wait(DEADLINE_S)
    assert studio.port, "the fake LM Studio did not start"
    try:
        yield studio
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(DEADLINE_S)
