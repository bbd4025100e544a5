"""The daemon's side of the embedded engine's process: started, watched, ended."""

import asyncio
import contextlib
import os
import sys

import msgspec
import psutil

from pairproxy.core.errors import EngineUnavailable
from pairproxy.engines.llama_child import ChildReply, ChildSettings

START_TIMEOUT_S = 60.0  # 1 s is usual; a cold disk at 10 MB/s needs 10 s for the file
REPLY_BYTES = 4096  # of the one line that the child says
CLOSE_S = 2.0  # for a child whose standard input was closed: it ends at once, unless it hangs
TERMINATE_S = 2.0  # for one that was told to end

TROUBLES = {
    "missing": (
        "The embedded engine is not installed: run \"pip install 'pairproxy[embedded]'\", then start again."
    ),
    "refused": (
        "The embedded engine did not start. It needs about 500 MB of free memory: make room, or set fewer "
        "slots or context_tokens for it, then start again."
    ),
    "late": (
        f"The embedded engine did not start within {START_TIMEOUT_S:.0f} s: "
        "start again when the machine is less busy."
    ),
}


class LlamaProcess:
    """One running child. Made by :meth:`start`; ``host`` and ``port`` are where llama.cpp answers."""

    def __init__(self, process: asyncio.subprocess.Process, reply: ChildReply) -> None:
        self._process = process
        self.host, self.port, self.version = reply.host, reply.port, reply.version

    @classmethod
    async def start(cls, settings: ChildSettings) -> "LlamaProcess":
        """Start a child and wait until it answers. Raises EngineUnavailable; then nothing of it is left."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pairproxy.engines.llama_child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # llama.cpp's log can hold prompts
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},  # a crash shall end at once, not call a debugger
            limit=REPLY_BYTES,
        )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                reply = await _converse(process, settings)
            if reply.trouble:
                raise EngineUnavailable(TROUBLES.get(reply.trouble, TROUBLES["refused"]))
        except TimeoutError:
            await _end(process)
            raise EngineUnavailable(TROUBLES["late"]) from None
        except BaseException:
            await _end(process)
            raise
        return cls(process, reply)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet, as far as the loop has heard."""
        return self._process.returncode is None

    def cpu_s(self) -> float:
        """Seconds of processor time it has used so far, all threads; infinite once it is gone."""
        try:
            times = psutil.Process(self.pid).cpu_times()
        except psutil.Error:
            return float("inf")
        return float(times.user + times.system)

    async def ended(self) -> int:
        """Wait for its end and return the exit status; negative: the signal that ended it."""
        return await self._process.wait()

    async def stop(self) -> None:
        """End it, gently first; afterwards it is gone. Safe to call twice."""
        await _end(self._process)


async def _converse(process: asyncio.subprocess.Process, settings: ChildSettings) -> ChildReply:
    """Tell the child its settings and hear where it answers; a child that says nothing has refused."""
    assert process.stdin is not None  # noqa: S101 - for the type checker: both are pipes
    assert process.stdout is not None  # noqa: S101
    try:
        process.stdin.write(msgspec.json.encode(settings) + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        return msgspec.json.decode(line, type=ChildReply)
    except (OSError, ValueError):  # it died meanwhile, or wrote something else
        return ChildReply(trouble="refused")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its standard input, then terminate, then kill. Also finishes when it is cancelled meanwhile."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        if await _has_ended(process, CLOSE_S):
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await _has_ended(process, TERMINATE_S)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()  # nothing survives that signal


async def _has_ended(process: asyncio.subprocess.Process, within_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), within_s)
    return process.returncode is not None
