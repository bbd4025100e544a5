"""The HTTP side of the paced engine: OpenAI's API as llama.cpp's server speaks it, with its timings."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from pairproxy.aside import aside
from pairproxy.clock import Clock
from pairproxy.core.dialects.translate_json import field, read_object, write_json
from pairproxy.core.errors import BodyTooLarge, PairproxyError
from pairproxy.engines import serving
from pairproxy.engines.paced_cache import count_tokens
from pairproxy.engines.paced_gpu import PacedGpu, Prefill, Seat
from pairproxy.engines.paced_reply import (
    CONTEXT_TOKENS,
    EMBEDDING_LENGTH,
    Question,
    chat_text,
    choice,
    embedding,
    embedding_texts,
    read_question,
    timings,
    usage,
    whole_choice,
)

_STREAM_HEADERS = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PacedServer:
    """Answers for ``model`` at the pace of ``gpu``; a record of a stream holds ``piece_tokens``."""

    def __init__(self, model: str, gpu: PacedGpu, clock: Clock, piece_tokens: int = 1) -> None:
        self._model = model
        self._piece_tokens = piece_tokens
        self._gpu = gpu
        self._clock = clock
        self._replies = 0

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=serving.BODY_BYTES)
        for path in ("/v1/chat/completions", "/chat/completions"):
            app.router.add_post(path, _told(self._chat))
        for path in ("/v1/completions", "/completions"):
            app.router.add_post(path, _told(self._complete))
        app.router.add_post("/v1/embeddings", _told(self._embed))
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/slots", self._slots)
        app.router.add_get("/props", self._props)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._infer(request, await _question(request, is_chat=True))

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        return await self._infer(request, await _question(request, is_chat=False))

    async def _infer(self, request: web.Request, question: Question) -> web.StreamResponse:
        async with self._gpu.seat() as seat:
            load_s = await self._gpu.load()
            read = await self._gpu.prefill(question.prompt, use_cache=question.use_cache)
            answer = self._stream if question.is_streaming else self._whole
            return await answer(request, question, seat, read, load_s)

    async def _whole(
        self, request: web.Request, question: Question, seat: Seat, read: Prefill, load_s: float
    ) -> web.StreamResponse:
        began = self._clock.now()
        text = "".join(question.words())
        late_s = await seat.tokens(question.output_tokens)
        self._remember(question, text)
        decode_s = max(self._clock.now() - began - late_s, 0.0)
        return _json(
            {
                "choices": [whole_choice(question, text)],
                **self._about("chat.completion" if question.is_chat else "text_completion"),
                "usage": usage(read, question.output_tokens),
                "timings": timings(read, question.output_tokens, decode_s, load_s),
            }
        )

    async def _stream(
        self, request: web.Request, question: Question, seat: Seat, read: Prefill, load_s: float
    ) -> web.StreamResponse:
        began = self._clock.now()
        about = self._about("chat.completion.chunk" if question.is_chat else "text_completion")
        response = web.StreamResponse(headers=_STREAM_HEADERS)

        async def send(choices: list[dict[str, Any]], **more: object) -> None:
            await response.write(b"data: " + write_json({"choices": choices, **about, **more}) + b"\n\n")

        text, late_s = "", 0.0
        for piece, count in question.pieces(self._piece_tokens):
            late_s = await seat.tokens(count)
            if not response.prepared:  # like llama.cpp, which says nothing before its first token
                await response.prepare(request)
                if question.is_chat:
                    await send([choice(question, None, None)])
            await send([choice(question, piece, None)])
            text += piece
        self._remember(question, text)
        decode_s = max(self._clock.now() - began - late_s, 0.0)
        measured = {"timings": timings(read, question.output_tokens, decode_s, load_s)}
        counted = {"usage": usage(read, question.output_tokens)} if question.has_usage else {}
        last = [choice(question, None, question.finish_reason)]
        if question.is_chat and counted:
            await send(last)
            await send([], **counted, **measured)
        else:
            await send(last, **counted, **measured)
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def _remember(self, question: Question, text: str) -> None:
        self._gpu.remember(question.prompt + (chat_text("assistant", text) if question.is_chat else text))

    async def _embed(self, request: web.Request) -> web.StreamResponse:
        body = read_object(await _body(request))
        texts = embedding_texts(body)
        as_base64 = field(body, "encoding_format", str) == "base64"
        async with self._gpu.seat():
            await self._gpu.load()
            for text in texts:
                await self._gpu.prefill(text, use_cache=False)
        tokens = sum(count_tokens(text) for text in texts)
        data = [
            {"embedding": embedding(text, as_base64=as_base64), "index": index, "object": "embedding"}
            for index, text in enumerate(texts)
        ]
        counted = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _json({"model": self._model, "object": "list", "usage": counted, "data": data})

    async def _models(self, request: web.Request) -> web.Response:
        meta = {"n_ctx": CONTEXT_TOKENS, "n_ctx_train": CONTEXT_TOKENS, "n_embd": EMBEDDING_LENGTH}
        model = {"id": self._model, "object": "model", "created": _unix_time(), "owned_by": "paced"}
        return _json({"object": "list", "data": [{**model, "meta": meta}]})

    async def _health(self, request: web.Request) -> web.Response:
        return _json({"status": "ok"})

    async def _slots(self, request: web.Request) -> web.Response:
        slots = self._gpu.slots
        return _json(
            [
                {"id": number, "n_ctx": CONTEXT_TOKENS, "is_processing": number < slots.running}
                for number in range(slots.count)
            ]
        )

    async def _props(self, request: web.Request) -> web.Response:
        slots = self._gpu.slots
        return _json(
            {
                "default_generation_settings": {"n_ctx": CONTEXT_TOKENS},
                "total_slots": slots.count,
                "model_alias": self._model,
                "most_at_once": slots.max_in_flight,  # ours: whether it was ever given more than its slots
            }
        )

    def _about(self, kind: str) -> dict[str, Any]:
        self._replies += 1
        return {
            "created": _unix_time(),
            "id": f"chatcmpl-paced{self._replies}",
            "model": self._model,
            "system_fingerprint": "paced",
            "object": kind,
        }


def _told(handler: _Handler) -> _Handler:
    """The handler with our errors told in llama.cpp's words."""

    async def told(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except PairproxyError as error:
            kind = "invalid_request_error" if error.status < 500 else "unavailable_error"
            return _json(
                {"error": {"code": error.status, "message": error.sentence, "type": kind}}, error.status
            )

    return told


async def _question(request: web.Request, *, is_chat: bool) -> Question:
    body = await _body(request)
    return await aside(body, lambda: read_question(read_object(body), is_chat=is_chat))


async def _body(request: web.Request) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise BodyTooLarge("the request is too large; send less") from None


def _json(value: object, status: int = 200) -> web.Response:
    body = write_json(value)
    return web.Response(status=status, body=body, content_type="application/json", charset="utf-8")


def _unix_time() -> int:
    return round(datetime.now(UTC).timestamp())
