"""Children of a bench: pinned to a core, waited for, measured, and ended with all that they started."""

import asyncio
import contextlib
import http.client
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

PROXY_CORE, OTHER_CORE = 0, 1  # the target; upstream, clients, and a peer that stands for another machine
READY_S = 90.0  # LiteLLM takes 20 s to start on one busy core
POLL_S = 0.1
ASK_S = 10.0  # one answer while it starts
STOP_S = 5.0  # after SIGTERM; then SIGKILL
TOLD_BYTES = 400  # of a log, when its process failed
LOOK_S = 0.3  # thirty clock ticks
QUIET_PART = 0.1  # of a core: three ticks; an idle daemon takes less than one
QUIET_S = (
    15.0  # a router that is overrun works on for clients that are gone; then the next one has to bear it
)
RESET_PEAK = "5"  # what /proc/PID/clear_refs takes for it


async def finished(
    command: Sequence[str],
    limit_s: float,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run a program to its end: exit status and what it said. Raises TimeoutError.

    What it started ends with it, also where the bench is ended meanwhile.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limit_s):
            told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return process.returncode or 0, told.decode(errors="replace").strip()


class CannotStart(Exception):
    """A target does not answer; its text has its last words."""


@dataclass(frozen=True, slots=True)
class Child:
    """A running program with what it started itself."""

    process: asyncio.subprocess.Process
    log: Path

    def cpu_s(self) -> float:
        """Processor time so far, of all threads and children, of ended children too."""
        return self._sum(_cpu_s)

    async def until_quiet(self) -> None:
        """Wait until it works no more: what it does after a reply is part of what that reply costs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(QUIET_S):
                before = self.cpu_s()
                while True:
                    await asyncio.sleep(LOOK_S)
                    now = self.cpu_s()
                    if now - before <= QUIET_PART * LOOK_S:
                        return
                    before = now

    def forget_peak(self) -> None:
        """Let the peak of memory begin anew."""
        self._sum(_forget_peak)

    def peak_bytes(self) -> int:
        """The most memory that was resident since forget_peak(), summed over its processes."""
        return int(self._sum(lambda one: _status_bytes(one.pid, "VmHWM")))

    def resident_bytes(self) -> int:
        """Memory that is resident now."""
        return int(self._sum(lambda one: _status_bytes(one.pid, "VmRSS")))

    def last_words(self) -> str:
        """The end of its log, in one line."""
        return " / ".join(self.log.read_text(errors="replace").strip()[-TOLD_BYTES:].splitlines())

    def _sum(self, read: Callable[[psutil.Process], float]) -> float:
        """Over all its processes; who ends meanwhile counts no more. Raises NoSuchProcess after itself."""
        root = psutil.Process(self.process.pid)
        total = read(root)
        for one in root.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                total += read(one)
        return total


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _forget_peak(process: psutil.Process) -> float:
    Path(f"/proc/{process.pid}/clear_refs").write_text(RESET_PEAK)
    return 0.0


def _status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0


def what_is_missing() -> str | None:
    """Why nothing can be measured on this machine, or None."""
    if not Path("/proc/self/clear_refs").exists():
        return "This needs Linux: processor time and memory are read from /proc."
    if not {PROXY_CORE, OTHER_CORE} <= os.sched_getaffinity(0):
        return "This needs two cores: one for the proxy, one for upstream and load generator."
    missing = [name for name in ("taskset", "setpriv") if not shutil.which(name)]
    return f"{' and '.join(missing)} missing (Debian: `apt install util-linux`)." if missing else None


def pinned(core: int, command: Sequence[str]) -> list[str]:
    """The command on one core; it ends when its starter does, however that ends."""
    return ["setpriv", "--pdeathsig", "KILL", "taskset", "-c", str(core), *command]


def free_port() -> int:
    """A port of loopback that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def started(
    core: int, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """The command as a child for the block; afterwards nothing of it runs."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *pinned(core, command),
            stdin=asyncio.subprocess.PIPE,  # a daemon of ours stops when it is closed
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,  # Ctrl-C is the bench's to handle, in its own order
        )
    try:
        yield Child(process, log)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End its whole session: children that outlive it are in the same."""
    _signal_all(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_S):
            await process.wait()
    _signal_all(process.pid, signal.SIGKILL)
    await process.wait()


def _signal_all(session: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, number)


async def until_answers(child: Child, port: int, path: str, body: bytes) -> None:
    """Wait until a request is answered as it should be. Raises CannotStart."""
    try:
        async with asyncio.timeout(READY_S):
            while not await asyncio.to_thread(_is_answered, port, path, body):
                if child.process.returncode is not None:
                    raise CannotStart(child.last_words())
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise CannotStart(f"no answer within {READY_S:.0f} s: {child.last_words()}") from None


def _is_answered(port: int, path: str, body: bytes) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ASK_S)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status == http.HTTPStatus.OK and bool(answer.read())
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
