"""The engine we bring: llama.cpp with a small real model, for a machine that has no engine of its own.

start() fetches the model if the cache has none, starts llama.cpp as a child process and, beside it, the
server that speaks Ollama's API. run() watches the child and starts it anew when it crashes. Both answer on
loopback ports that the system chose; address() tells which one a path belongs to.
"""

import asyncio
import contextlib
import logging
import os
from pathlib import Path

from pairproxy.config import EngineSettings
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import EngineUnavailable, Unreachable
from pairproxy.core.models import EngineId
from pairproxy.engines.ask import ask
from pairproxy.engines.catalogue import card_entry
from pairproxy.engines.embedded_model import MODEL_NAME, TRAINED_CONTEXT_TOKENS, model_card, replica
from pairproxy.engines.llama_child import ChildSettings
from pairproxy.engines.llama_process import LlamaProcess
from pairproxy.engines.model_fetch import Progress, fetch_model
from pairproxy.engines.ollama_face import OllamaFace
from pairproxy.engines.ports import HOST, client_port

FIRST_PAUSE_S = 0.5  # before a crashed child is started again; doubled each time ...
LONGEST_PAUSE_S = 30.0  # ... up to this, so that a broken one does not heat the machine
HEALTHY_AFTER_S = 60.0  # a child that ran this long starts the pauses from the first again

SETTLE_S = 60.0  # an abandoned prompt of 8192 tokens is read in about that on one slow core
SETTLE_BLIND_S = (
    1.5  # measured: llama.cpp drops an abandoned request within 0.75 s with our batch; twice that
)
QUIET_WINDOW_S = 0.2  # looked at for processor time
QUIET_CPU_S = 0.02  # of it used at most: the system counts in steps of 0.01 s


class EmbeddedEngine:
    """interfaces.Engine over a llama.cpp child. The owner awaits :meth:`run` after :meth:`start`."""

    kind = "embedded"

    def __init__(
        self, settings: EngineSettings, cache: Path, on_progress: Progress, log: logging.Logger
    ) -> None:
        self.id = EngineId("embedded")
        self.listen = client_port(settings)
        self._slots = settings.slots or 1
        self._context_tokens = min(settings.context_tokens, TRAINED_CONTEXT_TOKENS)
        self._threads = settings.threads
        self._cache, self._on_progress, self._log = cache, on_progress, log
        self._llama: LlamaProcess | None = None
        self._card = model_card(self._context_tokens)
        self._face = OllamaFace(self._card, self._llama_address, is_loaded=self._is_up)
        self._face_port = 0
        self._model_file: Path | None = None
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Fetch the model if need be, start llama.cpp and its Ollama face. Raises EngineUnavailable."""
        self._model_file = await fetch_model(self._cache, self._on_progress, note=self._log.info)
        self._llama = await self._start_llama(self._model_file)
        self._face_port = await self._face.start()

    async def run(self) -> None:
        """Keep llama.cpp running until stop() or cancellation; what happens is said in the log."""
        loop = asyncio.get_running_loop()
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set() and self._llama is not None and self._model_file is not None:
            started_at = loop.time()
            status = await self._llama.ended()
            if loop.time() - started_at > HEALTHY_AFTER_S:
                pause_s = FIRST_PAUSE_S
            reason = f"ended (exit status {status})"
            while not await self._is_stopping_within(pause_s, reason):
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
                try:
                    self._llama = await self._start_llama(self._model_file)
                except EngineUnavailable as error:
                    reason = f"could not be started again ({error.sentence})"
                    continue
                self._log.info("The embedded engine answers again.")
                break

    async def stop(self) -> None:
        """End child and face. Safe to call twice."""
        self._stopping.set()
        await self._face.stop()
        if self._llama is not None:
            await self._llama.stop()

    def address(self, path: str) -> tuple[str, int]:
        """Ollama's API and ``/`` are answered by the face, all else by llama.cpp itself."""
        address = self._llama_address()
        return (HOST, self._face_port) if path == "/" or path.startswith("/api/") else address

    async def probe(self) -> EngineReport:
        """Ask llama.cpp for a sign of life. Raises UpstreamError while it is down."""
        llama = self._running()
        await ask(llama.host, llama.port, "/health")
        replicas = ((replica(self._context_tokens), True),)
        listed = (card_entry(self._card, True),)
        return EngineReport(self.id, self.kind, llama.version, self._slots, replicas, listed)

    async def settled(self, others_in_flight: int) -> None:
        """Return when llama.cpp no longer computes for a request that was broken off.

        Its ``/slots`` and ``/metrics`` still call the slot busy long after that, until the next request
        comes, so they cannot tell. With nothing else in flight its processor time can: it stops growing.
        With others in flight nothing can, and the measured time is waited.
        """
        if others_in_flight > 0:
            await asyncio.sleep(SETTLE_BLIND_S)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                while not await self._is_quiet():
                    continue

    async def _is_quiet(self) -> bool:
        llama = self._llama
        if llama is None or not llama.is_running:
            return True
        before = llama.cpu_s()
        await asyncio.sleep(QUIET_WINDOW_S)
        return not llama.cpu_s() - before > QUIET_CPU_S  # also true of a child that is gone

    def _llama_address(self) -> tuple[str, int]:
        llama = self._running()
        return llama.host, llama.port

    def _is_up(self) -> bool:
        return self._llama is not None and self._llama.is_running

    def _running(self) -> LlamaProcess:
        if self._llama is None or not self._llama.is_running:
            raise Unreachable("The embedded engine is starting again; try again in a few seconds.")
        return self._llama

    async def _start_llama(self, model_file: Path) -> LlamaProcess:
        llama = await LlamaProcess.start(
            ChildSettings(
                model_file=str(model_file),
                model_name=MODEL_NAME,
                slots=self._slots,
                context_tokens=self._context_tokens,
                threads=self._threads,
                parent=os.getpid(),
            )
        )
        if self._stopping.is_set():  # stop() came while it started, and could not end it
            await llama.stop()
        return llama

    async def _is_stopping_within(self, pause_s: float, reason: str) -> bool:
        """Wait before a new start, and say why. Returns at once, and silently, when stop() was called."""
        if self._stopping.is_set():
            return True
        self._log.warning("The embedded engine %s; starting it again in %.1f s.", reason, pause_s)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause_s)
        return self._stopping.is_set()
