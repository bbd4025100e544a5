"""The monitor of the event loop: what holds the loop up is measured, told once, and told where."""

import asyncio
import logging
import signal
import subprocess
import sys
import time

import psutil
import pytest

from pairproxy import loop_lag
from pairproxy.loop_lag import LoopLag
from tests.support.daemons import until
from tests.support.fake_engine import eventually
from tests.support.running import run_async

pytestmark = pytest.mark.timed


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beats and limits a fifth of the real ones."""
    monkeypatch.setattr(loop_lag, "BEAT_S", 0.02)
    monkeypatch.setattr(loop_lag, "WARN_S", 0.05)


def busy_for(seconds: float) -> None:
    """Compute, as a parser of a large document would."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


async def measured(lag: LoopLag, *blocks: float) -> None:
    """Run the monitor, and hold the loop up for so long, one after the other."""
    task = asyncio.create_task(lag.run(), name="loop lag")
    for seconds in blocks:
        await asyncio.sleep(loop_lag.BEAT_S / 2)
        busy_for(seconds)
    await asyncio.sleep(2 * loop_lag.BEAT_S)
    task.cancel()


def test_what_holds_the_loop_up_is_measured_and_named(caplog: pytest.LogCaptureFixture) -> None:
    """F45: what computes for half a second is the worst of the last minute, and is named."""

    async def main() -> None:
        lag = LoopLag()
        await measured(lag, 0.5)
        assert 0.5 - loop_lag.BEAT_S < lag.worst() < 5.0

    with caplog.at_level(logging.WARNING):
        run_async(main())
    (line,) = (record.message for record in caplog.records if record.name == "pairproxy.loop_lag")
    assert "busy_for" in line


def test_a_log_is_not_filled(caplog: pytest.LogCaptureFixture) -> None:
    """A loop that is held up again and again is told of once in ten seconds."""

    async def main() -> None:
        await measured(LoopLag(), 0.1, 0.1, 0.1)

    with caplog.at_level(logging.WARNING):
        run_async(main())
    assert len([record for record in caplog.records if record.name == "pairproxy.loop_lag"]) == 1


def test_a_lag_is_forgotten_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """worst() looks back on its window only, and needs no more than one figure a second for it."""
    monkeypatch.setattr(loop_lag, "WINDOW_S", 1)

    async def main() -> None:
        lag = LoopLag()
        task = asyncio.create_task(lag.run(), name="loop lag")
        await asyncio.sleep(0.05)
        busy_for(0.5)
        await eventually(lambda: lag.worst() > 0.4)
        await eventually(lambda: lag.worst() < 0.4)
        task.cancel()

    run_async(main())


def test_a_call_that_waits_is_held_against_us(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What blocks without computing, as on a slow disk, is named, and not taken for a stopped process."""
    monkeypatch.setattr(loop_lag, "BEAT_S", 0.25)  # a busy machine is not to look like a stopped one
    monkeypatch.setattr(loop_lag, "WARN_S", 0.25)

    async def main() -> None:
        lag = LoopLag()
        task = asyncio.create_task(lag.run(), name="loop lag")
        await asyncio.sleep(loop_lag.BEAT_S / 2)
        time.sleep(1.5)  # noqa: ASYNC251 what is measured
        await asyncio.sleep(2 * loop_lag.BEAT_S)
        task.cancel()

    with caplog.at_level(logging.WARNING):
        run_async(main())
    (line,) = (record.message for record in caplog.records if record.name == "pairproxy.loop_lag")
    assert "the event loop was held up" in line
    assert "main" in line


def test_one_that_goes_on_counts() -> None:
    """Who asks from another thread while the loop hangs is told so."""

    async def main() -> None:
        lag = LoopLag()
        task = asyncio.create_task(lag.run(), name="loop lag")
        await asyncio.sleep(0.05)
        busy_for(0.1)
        assert lag.worst() > 0.05
        task.cancel()

    run_async(main())


STOPPED = """
import asyncio, logging, sys
from pairproxy.loop_lag import LoopLag
logging.basicConfig(stream=sys.stdout, format="%(message)s")
async def main():
    task = asyncio.create_task(LoopLag().run())
    await asyncio.sleep(0.3)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.sleep(0.3)
    task.cancel()
asyncio.run(main())
"""


@pytest.mark.slow
def test_a_process_that_was_stopped_is_no_fault_of_ours() -> None:
    """F29: after a pause of the whole process its length is told, and nobody is asked to report it."""
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSTOP)
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
        time.sleep(1.0)  # what is measured
        process.send_signal(signal.SIGCONT)
        told = process.stdout.readline()
        process.stdin.write("\n")
        process.stdin.close()
        told += process.stdout.read()
    assert "this process did not run for" in told
    assert "report" not in told
