import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest

from pairproxy.cli.bench.overhead.processes import (
    PROXY_CORE,
    CannotStart,
    free_port,
    started,
    until_answers,
    what_is_missing,
)

pytestmark = pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
content = b'x' * 50_000_000
del content
sum(range(2_000_000))
print("worked", flush=True)
time.sleep(60)
"""


async def _worked(log: Path) -> int:
    """The process id of its child, once it has worked."""
    async with asyncio.timeout(20):
        while "worked" not in log.read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return int(log.read_text().split()[0])


def test_a_child_is_pinned_measured_and_ended_with_all_it_started(tmp_path: Path) -> None:
    """Its own child, too; a peak that is forgotten is one no more."""

    async def run() -> None:
        log = tmp_path / "log"
        async with started(PROXY_CORE, [sys.executable, "-c", PARENT], log) as child:
            inner = await _worked(log)
            assert child.cpu_s() > 0
            assert os.sched_getaffinity(child.process.pid) == os.sched_getaffinity(inner) == {PROXY_CORE}
            assert child.peak_bytes() > 60_000_000 > child.resident_bytes()
            child.forget_peak()
            assert child.peak_bytes() < 60_000_000
        assert not psutil.pid_exists(inner) or psutil.Process(inner).status() == psutil.STATUS_ZOMBIE
        assert child.process.returncode is not None

    asyncio.run(run())


def test_who_ends_instead_of_answering_is_told_with_its_last_words(tmp_path: Path) -> None:
    """CannotStart, not a wait to the end."""

    async def run() -> None:
        command = [sys.executable, "-c", "raise SystemExit('no such engine')"]
        async with started(PROXY_CORE, command, tmp_path / "log") as child:
            await until_answers(child, free_port(), "/", b"")

    with pytest.raises(CannotStart, match="no such engine"):
        asyncio.run(run())


def test_free_ports_differ() -> None:
    """Two in a row are two."""
    assert free_port() != free_port()
