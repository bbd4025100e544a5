"""One workload on one target: the load generator asks, and the target's process is read before and after."""

import asyncio
import contextlib
import http.client
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from pairproxy.cli.bench.overhead.building import Programs
from pairproxy.cli.bench.overhead.cases import Case
from pairproxy.cli.bench.overhead.figures import Heard, Sample
from pairproxy.cli.bench.overhead.processes import OTHER_CORE, Child, pinned
from pairproxy.cli.bench.overhead.targets import MODEL, OPENAI_PATH, Running

WARM_UP_S = 0.7  # clients begin one after the other in it; not measured
SETTLE_S = 0.3  # before each: connections that were left are closed
STALLED_S = 3.0  # clients that do not read are watched at least so long: half to stand still, half to grow
DRAIN_S = 6.0  # the load generator's own patience for replies that still run, and a second more
NOTHING = Heard(1.0, 0, 0, 0, 0, 1, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # one error and nothing else
TOLD_BYTES = 700  # of the first errors: the head of a refusal and its sentence


@dataclass(frozen=True, slots=True)
class Meter:
    """Measures for so many seconds each; ``upstream_port``: where streams are set."""

    programs: Programs
    upstream_port: int
    directory: Path
    seconds: float

    async def sample(self, case: Case, running: Running) -> Sample:
        """One sample; what fails altogether is one with an error."""
        await asyncio.to_thread(_set_streams, self.upstream_port, case)
        await asyncio.sleep(SETTLE_S)
        child = running.child
        if child is None:
            heard, told = await self._ask(case, running.port)
            return Sample(heard, told=told)
        asking = asyncio.create_task(self._ask(case, running.port))
        try:
            return await self._watched(case, child, asking)
        except psutil.NoSuchProcess:
            return Sample(NOTHING, told=f"it ended: {child.last_words()}")
        finally:
            asking.cancel()

    async def _watched(self, case: Case, child: Child, asking: "asyncio.Task[tuple[Heard, str]]") -> Sample:
        child.forget_peak()
        cpu_s = child.cpu_s()
        grown_bytes = await self._growth(child) if case.is_stalled else None
        heard, told = await asking
        await child.until_quiet()
        return Sample(heard, child.cpu_s() - cpu_s, child.peak_bytes(), grown_bytes, told)

    async def _growth(self, child: Child) -> int:
        """What memory grows by once all replies stand still, or after half the time where they never do."""
        await asyncio.sleep(WARM_UP_S)
        ends_s = asyncio.get_running_loop().time() + self._stalled_s - SETTLE_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._stalled_s / 2):
                await child.until_quiet()
        before = child.resident_bytes()
        await asyncio.sleep(ends_s - asyncio.get_running_loop().time())
        return child.resident_bytes() - before

    @property
    def _stalled_s(self) -> float:
        return max(self.seconds, STALLED_S)

    async def _ask(self, case: Case, port: int) -> tuple[Heard, str]:
        body = self.directory / f"{case.name}.json"
        if not body.exists():
            body.write_bytes(case.body(MODEL))
        seconds = self._stalled_s if case.is_stalled else self.seconds
        command = [
            str(self.programs.generator), "-p", str(port), "-P", OPENAI_PATH, "-c", str(case.clients),
            "-d", str(seconds), "-w", str(WARM_UP_S), "-b", str(body), "-t", str(case.tokens),
            *(["-s"] if case.is_stalled else []),
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *pinned(OTHER_CORE, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(WARM_UP_S + seconds + DRAIN_S + SETTLE_S):
                heard, told = await process.communicate()
        except TimeoutError:
            return NOTHING, "it does not end"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        said = " / ".join(told.decode(errors="replace").splitlines())[:TOLD_BYTES]
        return NOTHING if process.returncode else msgspec.json.decode(heard, type=Heard), said


def _set_streams(upstream_port: int, case: Case) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", upstream_port, timeout=SETTLE_S * 10)
    try:
        connection.request("GET", f"/set?tokens={case.tokens}&gap_us={case.gap_us}")
        connection.getresponse().read()
    finally:
        connection.close()
