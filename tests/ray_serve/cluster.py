"""Installs Ray Serve into an environment of its own, starts an application in it, leaves nothing behind."""

import asyncio
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pairproxy.engines.file_lock import LockTimeout, file_lock
from tests.clients.environments import CACHE

HERE = Path(__file__).parent
LOCK = HERE / "requirements.lock"
INSTALL_S = 300.0  # measured: 35 s for 490 MB
READY_S = 120.0  # measured: 9 s on two cores
STOP_S = 30.0  # measured: 3 s
LINES_TOLD = 4


def interpreter() -> Path:
    """The Python that has Ray, installed at the first call. Skips the test where it cannot be had."""
    directory = CACHE / "ray"
    python = directory / "bin" / "python"
    stamp = directory / "pairproxy.stamp"
    digest = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()

    async def make() -> None:
        async with file_lock(CACHE / "ray.lock", timeout_s=INSTALL_S):
            if stamp.is_file() and stamp.read_text() == digest:
                return
            shutil.rmtree(directory, ignore_errors=True)
            await asyncio.to_thread(_run, [sys.executable, "-m", "venv", str(directory)])
            install = [str(python), "-m", "pip", "install", "--no-compile", "--only-binary", ":all:"]
            await asyncio.to_thread(_run, [*install, "--require-hashes", "-r", str(LOCK)])
            stamp.write_text(digest)

    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(make())
    except LockTimeout:
        pytest.skip("Ray Serve: somebody else installs it and does not end")
    return python


def _run(line: list[str]) -> None:
    try:
        done = subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"Ray Serve cannot be installed: {type(error).__name__}")
    if done.returncode:
        last = " / ".join((done.stdout + done.stderr).strip().splitlines()[-LINES_TOLD:])
        pytest.skip(f"Ray Serve cannot be installed: {last}")


@contextlib.contextmanager
def serving(python: Path, replicas: int, slots: int, seconds: float, model: str) -> Iterator[int]:
    """The port of a Ray Serve application with this many replicas, each with this many slots.

    Ray keeps to loopback as it does on a desktop, tells nobody about its use, and writes into a directory
    that goes with it (a short one: its sockets have long names).
    """
    home = Path(tempfile.mkdtemp(prefix="ray-"))
    surroundings = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "RAY_TMPDIR": str(home),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }
    line = [str(python), str(HERE / "app.py"), str(replicas), str(slots), str(seconds), model]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=surroundings
        )
    timer = threading.Timer(READY_S, process.kill)
    timer.start()
    children: list[psutil.Process] = []
    try:
        port = _port(process)
        timer.cancel()
        assert port is not None, (home / "log").read_text(errors="replace")[-2000:]
        children = psutil.Process(process.pid).children(recursive=True)
        yield port
    finally:
        timer.cancel()
        _end(process, children)
        shutil.rmtree(home, ignore_errors=True)


def _port(process: "subprocess.Popen[bytes]") -> int | None:
    """What the application says when it serves; None if it ended before."""
    assert process.stdout is not None
    for text in process.stdout:
        if text.startswith(b"ready "):
            return int(text.split()[1])
    return None


def _end(process: "subprocess.Popen[bytes]", children: list[psutil.Process]) -> None:
    """Ask it to end, and see to it that nothing of it stays."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    process.kill()
    process.wait()
    process.stdout.close()
    _, left = psutil.wait_procs(children, 5.0)
    for child in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(left, 5.0)
