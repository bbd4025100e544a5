"""The fake Ollama as a program: `python -m tests.support.ollama_process serve`, on what OLLAMA_HOST says."""

import asyncio
import os
import signal

from tests.support.fake_engine import FakeEngine
from tests.support.fake_ollama import ollama_surface


async def _serve() -> None:
    host, _, port = os.environ.get("OLLAMA_HOST", "127.0.0.1:11434").rpartition(":")
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with FakeEngine(ollama_surface(), host=host, port=int(port)):
        await ended.wait()
        os._exit(0)  # as the real one: what is in flight is broken off


if __name__ == "__main__":
    asyncio.run(_serve())
