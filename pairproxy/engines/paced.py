"""An engine that sleeps as a GPU computes, so that nodes of any speed exist on one machine.

It speaks OpenAI's API as llama.cpp's server does (paced_server.py), and Ollama's through the face. Text is
made up from the prompt; how long everything takes is what is real (paced_gpu.py).
"""

import asyncio
import hashlib

from aiohttp import web

from pairproxy.clock import Clock, MonotonicClock
from pairproxy.config import PacedSettings
from pairproxy.core.dialects.ollama_catalogue import ModelCard
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import ConfigError, Unreachable
from pairproxy.core.models import EngineId, Replica
from pairproxy.core.replicas import canonical_name
from pairproxy.engines import serving
from pairproxy.engines.catalogue import card_entry
from pairproxy.engines.ollama_face import OllamaFace
from pairproxy.engines.paced_gpu import PacedGpu
from pairproxy.engines.paced_reply import CONTEXT_TOKENS, EMBEDDING_LENGTH
from pairproxy.engines.paced_server import PacedServer

SETTLE_S = 60.0  # as long as any engine is waited for
_HOST = "127.0.0.1"


class PacedEngine:
    """interfaces.Engine over a :class:`PacedGpu`; ``gpu.slots`` tells whether it was ever given too much."""

    kind = "paced"

    def __init__(
        self,
        settings: PacedSettings,
        *,
        slots: int = 1,
        listen: str | None = None,
        id: EngineId = EngineId("paced"),  # noqa: A002, B008 - the Protocol's word
        clock: Clock | None = None,
    ) -> None:
        _check(settings, slots)
        clock = clock or MonotonicClock()
        self.id = id
        self.listen = listen
        self.settings = settings
        self.gpu = PacedGpu(settings, slots, clock)
        piece_tokens = max(1, round(settings.fast_forward))  # records come as often as without it
        self._server = PacedServer(settings.model, self.gpu, clock, piece_tokens)
        self._card = _card(settings.model)
        self._face = OllamaFace(
            self._card,
            lambda: self.address("/v1"),
            is_loaded=lambda: self.gpu.is_loaded,
            clock=clock,
        )
        self._replica = Replica(canonical_name(settings.model), f"paced:{settings.model}", CONTEXT_TOKENS)
        self._runner: web.AppRunner | None = None
        self._port = self._face_port = 0

    async def start(self) -> None:
        """Listen on two free loopback ports: its own and the face's."""
        self._runner = serving.runner(self._server.app(), decodes=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, 0).start()
        self._port = self._runner.addresses[0][1]
        self._face_port = await self._face.start()

    async def stop(self) -> None:
        """Stop listening and break off what is under way. Safe to call twice."""
        self._port = 0
        await self._face.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def address(self, path: str) -> tuple[str, int]:
        """``/`` and Ollama's API are the face's. Raises Unreachable when it is not started."""
        if not self._port:
            raise Unreachable("The paced engine is not running; start it first.")
        return _HOST, self._face_port if path == "/" or path.startswith("/api/") else self._port

    async def probe(self) -> EngineReport:
        """What it serves. Raises Unreachable when it is not started."""
        self.address("/v1/models")
        replicas = ((self._replica, self.gpu.is_loaded),)
        listed = (card_entry(self._card, self.gpu.is_loaded),)
        slots, kept = self.gpu.slots.count, self.settings.cached_tokens
        return EngineReport(self.id, self.kind, "paced", slots, replicas, listed, cache_tokens=kept)

    async def settled(self, others_in_flight: int) -> None:
        """Return when a request that was broken off no longer occupies its slot, SETTLE_S at most."""
        try:
            async with asyncio.timeout(SETTLE_S):
                await self.gpu.slots.until(lambda: self.gpu.slots.in_flight <= others_in_flight)
        except TimeoutError:
            return


def _check(settings: PacedSettings, slots: int) -> None:
    if min(settings.prefill, settings.decode) <= 0 or slots < 1:
        raise ConfigError("engines.paced: prefill and decode must be above 0 tokens/s, slots 1 or more.")
    if min(settings.beta, settings.load_s, settings.cached_tokens) < 0:
        raise ConfigError("engines.paced: beta, load_s and cached_tokens must not be negative.")


def _card(model: str) -> ModelCard:
    return ModelCard(
        name=model,
        digest=hashlib.sha256(f"paced:{model}".encode()).hexdigest(),
        size_bytes=1,
        family="paced",
        parameter_size="1B",
        quantization_level="F32",
        context_length=CONTEXT_TOKENS,
        embedding_length=EMBEDDING_LENGTH,
        modified_at="2026-01-01T00:00:00Z",
        capabilities=("completion", "tools", "embedding"),
    )
