import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pairproxy.core.errors import EngineUnavailable
from pairproxy.engines.llama_child import ChildSettings
from pairproxy.engines.llama_process import LlamaProcess
from tests.support.embedded import model_cache
from tests.support.running import run_async

ROOT = Path(__file__).parents[2]


def settings(model_file: Path) -> ChildSettings:
    """A small engine with ``model_file``."""
    return ChildSettings(str(model_file), "tiny", slots=1, context_tokens=256, threads=1, parent=os.getpid())


def model_file() -> Path:
    """The real model."""
    (file,) = (model_cache() / "models").glob("*.gguf")
    return file


def test_it_lives_from_start_to_stop() -> None:
    """A started process runs and uses processor time; a stopped one is gone; stopping twice is harmless."""
    file = model_file()

    async def scene() -> None:
        llama = await LlamaProcess.start(settings(file))
        assert llama.is_running
        assert 0 < llama.cpu_s() < 60
        assert llama.version.startswith("xllamacpp 20")
        await llama.stop()
        await llama.stop()
        assert not llama.is_running
        assert llama.cpu_s() == float("inf")
        assert await llama.ended() == 0

    run_async(scene())


def test_without_xllamacpp_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where xllamacpp cannot be imported, the sentence is the command that installs it."""
    (tmp_path / "xllamacpp.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    with pytest.raises(EngineUnavailable, match=r"pip install 'pairproxy\[embedded\]'"):
        run_async(LlamaProcess.start(settings(tmp_path)))


@pytest.mark.parametrize("content", [None, b"", b"GGUF but not really"])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """A missing or broken model ends in a sentence and no process."""
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed (extra: embedded)")
    if content is not None:
        (tmp_path / "model.gguf").write_bytes(content)
    with pytest.raises(EngineUnavailable, match="did not start"):
        run_async(LlamaProcess.start(settings(tmp_path / "model.gguf")))
    assert not psutil.Process().children()


def test_one_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that says nothing in time is killed, though it listens to nobody, and a sentence tells."""
    (tmp_path / "xllamacpp.py").write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    for name in ("START_TIMEOUT_S", "CLOSE_S", "TERMINATE_S"):
        monkeypatch.setattr(f"pairproxy.engines.llama_process.{name}", 0.5)
    with pytest.raises(EngineUnavailable, match="within"):
        run_async(LlamaProcess.start(settings(tmp_path)))
    assert not psutil.Process().children()


def test_a_cancelled_start_leaves_no_process() -> None:
    """Ctrl-C while llama.cpp loads its model ends it too."""
    file = model_file()

    async def scene() -> None:
        task = asyncio.create_task(LlamaProcess.start(settings(file)))
        async with asyncio.timeout(10):
            while not psutil.Process().children():  # noqa: ASYNC110 - a process tells nobody
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(scene())
    assert not psutil.Process().children()


DAEMON = """
import asyncio, os, sys, time
from pathlib import Path
from pairproxy.engines.llama_process import LlamaProcess
from tests.engines.test_llama_process import settings
async def main():
    llama = await LlamaProcess.start(settings(Path(sys.argv[1])))
    holder = 0
    if sys.argv[2] == "held":
        holder = os.fork()
        if holder == 0:
            time.sleep(60)
            os._exit(0)
    print(llama.pid, holder, flush=True)
    await llama.ended()
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL and no fork")
@pytest.mark.parametrize("pipe", ["closed", "held"])
def test_a_killed_daemon_takes_it_along(pipe: str) -> None:
    """After kill -9 of the daemon it ends by itself, also if a third process holds its input open."""
    daemon = subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(model_file()), pipe], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert daemon.stdout is not None
    pid, holder = (int(word) for word in daemon.stdout.readline().split())
    llama = psutil.Process(pid)
    try:
        daemon.kill()
        daemon.wait()
        wait_until_gone(llama, 5.0)
    finally:
        daemon.stdout.close()
        if holder:
            os.kill(holder, signal.SIGKILL)


def wait_until_gone(process: psutil.Process, within_s: float) -> None:
    """Fail if ``process`` is still there after that time; a zombie is gone."""
    deadline = time.monotonic() + within_s
    with contextlib.suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "it outlived its daemon"
            time.sleep(0.02)
