import asyncio
import sys
from pathlib import Path

import pytest

from pairproxy.cli.bench.overhead.building import Programs
from pairproxy.cli.bench.overhead.cases import CASES, Case
from pairproxy.cli.bench.overhead.figures import Sample
from pairproxy.cli.bench.overhead.measuring import Meter
from pairproxy.cli.bench.overhead.processes import PROXY_CORE, free_port, started, what_is_missing
from pairproxy.cli.bench.overhead.rounds import upstream
from pairproxy.cli.bench.overhead.targets import DIRECT, PLAIN, Place, Running, Target
from pairproxy.config import cache_dir

BUFFERS_BYTES = 1 << 20  # of one reply in aiohttp: two reads of 256 KiB, and what waits on both sides
GROW = "import time; kept = []\nwhile True: kept.append(b'x' * (1 << 20)); time.sleep(0.05)"
GROWING = [sys.executable, "-c", GROW]

pytestmark = pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))


async def _sample(name: str, target: Target, programs: Programs, tmp_path: Path) -> Sample:
    case = next(case for case in CASES if case.name == name)
    async with upstream(programs, tmp_path) as port:
        meter = Meter(programs, port, tmp_path, 0.2)
        async with target.start(Place(tmp_path, port, programs.upstream, cache_dir())) as running:
            return await meter.sample(case, running)


@pytest.mark.slow
def test_a_target_is_measured_from_outside(programs: Programs, tmp_path: Path) -> None:
    """Processor time and memory of its process."""
    sample = asyncio.run(_sample("json-64", PLAIN, programs, tmp_path))
    assert (sample.heard.errors, sample.told, sample.grown_bytes) == (0, "", None)
    assert sample.cpu_s is not None
    assert sample.cpu_s > 0.1
    assert sample.peak_bytes is not None
    assert sample.peak_bytes > 10_000_000


@pytest.mark.slow
def test_memory_is_watched_while_clients_do_not_read(programs: Programs, tmp_path: Path) -> None:
    """A pass-through with back-pressure may still be filling its buffers, and holds no more."""
    sample = asyncio.run(_sample("stalled", PLAIN, programs, tmp_path))
    assert sample.grown_bytes is not None
    assert sample.grown_bytes < 64 * BUFFERS_BYTES


@pytest.mark.slow
def test_memory_that_grows_while_clients_do_not_read_is_seen(programs: Programs, tmp_path: Path) -> None:
    """A program that takes more and more stands for a proxy that reads on."""

    async def run() -> Sample:
        async with (
            upstream(programs, tmp_path) as port,
            started(PROXY_CORE, GROWING, tmp_path / "log") as child,
        ):
            stalled = next(case for case in CASES if case.is_stalled)
            return await Meter(programs, port, tmp_path, 0.2).sample(stalled, Running(port, child))

    grown_bytes = asyncio.run(run()).grown_bytes
    assert grown_bytes is not None
    assert grown_bytes > 2 * BUFFERS_BYTES


@pytest.mark.slow
def test_without_a_process_only_replies_are_measured(programs: Programs, tmp_path: Path) -> None:
    """Direct: nothing of ours or others' stands in between."""
    sample = asyncio.run(_sample("json-1", DIRECT, programs, tmp_path))
    assert sample.heard.all_requests > 0
    assert (sample.cpu_s, sample.peak_bytes) == (None, None)


@pytest.mark.slow
def test_a_target_that_is_gone_is_an_error_and_no_end(programs: Programs, tmp_path: Path) -> None:
    """The others are measured all the same."""

    async def run() -> Sample:
        async with upstream(programs, tmp_path) as port:
            meter = Meter(programs, port, tmp_path, 0.2)
            return await meter.sample(Case("one", "", 1), Running(free_port()))

    sample = asyncio.run(run())
    assert (sample.heard.errors, sample.told) == (1, "connect: Connection refused")


@pytest.mark.slow
def test_a_target_that_ends_meanwhile_is_told_with_its_last_words(programs: Programs, tmp_path: Path) -> None:
    """And asked no more."""

    async def run() -> Sample:
        async with upstream(programs, tmp_path) as port:
            log, script = tmp_path / "log", "import time; time.sleep(0.5); print('out of memory')"
            async with started(PROXY_CORE, [sys.executable, "-c", script], log) as child:
                meter = Meter(programs, port, tmp_path, 1.0)
                return await meter.sample(Case("one", "", 1), Running(port, child))

    assert asyncio.run(run()).told == "it ended: out of memory"
