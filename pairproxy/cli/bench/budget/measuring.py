"""A daemon and the pass-through, side by side on one core, asked in turn by clients on another.

Both are up all the time, and what one of them works while the other is asked counts as its own: so nothing is
put off until nobody looks. Only their processor time is read: how fast upstream and clients are is no matter.
"""

import asyncio
import os
import shutil
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pairproxy.cli.bench.budget import counting
from pairproxy.cli.bench.budget.load import TOKENS, NotAnswered, Upstream, clients, upstream
from pairproxy.cli.bench.overhead.cases import Case
from pairproxy.cli.bench.overhead.daemons import client_port, made_home
from pairproxy.cli.bench.overhead.processes import Child, free_port, started, until_answers
from pairproxy.cli.bench.overhead.targets import MODEL, OPENAI_PATH, PASS_THROUGH, READY_BODY
from pairproxy.cli.demo.cluster import node_environment

COUNTER = Path(counting.__file__)
DAEMON = ("-m", "pairproxy")  # what python runs as the daemon
COUNTED = 200  # requests; and ten streams: what happens once a second is hardly seen in them
COUNT_S = 10.0  # for a signal to be heard and a file to be written, which take milliseconds
POLL_S = 0.01
PROCESS_CLOCK = 2  # with a process id as clock_getcpuclockid(3) of Linux makes a clock of both
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """One case, and how many requests of it are a round: a tenth of a second of each."""

    case: Case
    requests: int


CASES = (
    Asked(Case("json-1", "", 1), 400),
    Asked(Case("json-32", "", 32), 600),
    Asked(Case("stream-32", "", 32, is_stream=True), 64),
    Asked(Case("40kB", "", 8, padding_bytes=40_000), 250),
)
CALLS = (Asked(Case("request-calls", "", 1), COUNTED), Asked(Case("token-calls", "", 1, is_stream=True), 10))


@dataclass(frozen=True, slots=True)
class _Side:
    """One that is asked."""

    child: Child
    port: int

    def cpu_s(self) -> float:
        """Processor time so far, of all threads, of ended ones too; /proc has only hundredths of a second."""
        return time.clock_gettime((~self.child.process.pid << 3) | PROCESS_CLOCK)


def what_is_missing() -> str | None:
    """Why nothing can be measured on this machine, or None."""
    if sys.platform != "linux":
        return "This needs Linux: processes are pinned with taskset, and end with setpriv."
    missing = [name for name in ("taskset", "setpriv") if not shutil.which(name)]
    return f"{' and '.join(missing)} missing (Debian: `apt install util-linux`)." if missing else None


def cores() -> tuple[int, int]:
    """The proxies' and the other; the same where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


@contextmanager
def _pinned_to(core: int) -> Iterator[None]:
    """This process, which is upstream and clients."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


async def measure(rounds: int, daemon: Sequence[str], directory: Path, say: Say) -> dict[str, float]:
    """Ratios of processor time and numbers of calls, by case. Raises CannotStart, NotAnswered."""
    core, other = cores()
    with _pinned_to(other):
        async with upstream() as engine:
            async with AsyncExitStack() as stack:
                sides = [
                    await stack.enter_async_context(_daemon(daemon, engine, core, directory / "daemon")),
                    await stack.enter_async_context(_pass_through(engine, core, directory)),
                ]
                found = {one.case.name: await _ratio(one, engine, sides, rounds, say) for one in CASES}
            return found | await _calls(daemon, engine, core, directory, say)


async def _ratio(asked: Asked, engine: Upstream, sides: Sequence[_Side], rounds: int, say: Say) -> float:
    """The median of the rounds."""
    body, ratios = asked.case.body(MODEL), list[float]()
    async with AsyncExitStack() as stack:
        all_clients = [
            await stack.enter_async_context(clients(engine, side.port, body, asked.case.clients))
            for side in sides
        ]
        for number in range(rounds + 1):
            before = [side.cpu_s() for side in sides]
            for one in all_clients:
                await one.ask(asked.requests)
            ours, plain = (side.cpu_s() - was for side, was in zip(sides, before, strict=True))
            if number:  # in the first one both begin
                ratios.append(ours / plain)
    told = " ".join(f"{ratio:.2f}" for ratio in ratios)
    say(f"{asked.case.name}: {told} (the last round of the pass-through {plain:.2f} s)")
    return statistics.median(ratios)


async def _calls(
    daemon: Sequence[str], engine: Upstream, core: int, directory: Path, say: Say
) -> dict[str, float]:
    """Of Python functions in the main thread of a daemon, for a request and for a token."""
    file, found = directory / "calls", dict[str, float]()
    async with _daemon((str(COUNTER), str(file), *daemon), engine, core, directory / "counted") as side:
        for asked in CALLS:
            async with clients(engine, side.port, asked.case.body(MODEL), 1) as client:
                await client.ask(asked.requests)  # once without being counted: then all is made that is kept
                await _turned(side.child, file, lambda text: text == counting.COUNTING)
                await client.ask(asked.requests)
                calls = int(await _turned(side.child, file, str.isdecimal))
            found[asked.case.name] = calls / (asked.requests * (TOKENS if asked.case.is_stream else 1))
            say(f"{asked.case.name}: {calls} calls")
    return found


async def _turned(child: Child, file: Path, is_it: Callable[[str], bool]) -> str:
    """Tell the counter to begin or to end, and wait until it says so: what it wrote."""
    child.process.send_signal(signal.SIGUSR1)
    try:
        async with asyncio.timeout(COUNT_S):
            while not is_it(told := file.read_text() if file.exists() else ""):
                if child.process.returncode is not None:
                    raise NotAnswered(f"the daemon ended: {child.last_words()}")
                await asyncio.sleep(POLL_S)
            return told
    except TimeoutError:
        raise NotAnswered(f"calls are not counted: {child.last_words()}") from None


@asynccontextmanager
async def _daemon(program: Sequence[str], engine: Upstream, core: int, home: Path) -> AsyncIterator[_Side]:
    """A daemon as a user has it, run by a program of python's."""
    made_home(home.parent, home.name, f"http://127.0.0.1:{engine.port}")
    command = [sys.executable, *program, "up", "--home", str(home), "--stop-on-eof"]
    async with started(core, command, home / "log", node_environment()) as child:
        yield _Side(child, await client_port(child, home))


@asynccontextmanager
async def _pass_through(engine: Upstream, core: int, directory: Path) -> AsyncIterator[_Side]:
    port = free_port()
    command = [sys.executable, str(PASS_THROUGH), f"http://127.0.0.1:{engine.port}", str(port)]
    async with started(core, command, directory / "pass-through.log") as child:
        await until_answers(child, port, OPENAI_PATH, READY_BODY)
        yield _Side(child, port)
