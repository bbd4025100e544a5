"""scripts/bench profile: where the time of a daemon goes while the load generator works.

py-spy samples from outside, so the daemon runs as it always does. It is installed into an environment of its
own, and drawn here: its own graph also has the threads that wait. The daemon is the one of this checkout: of
compiled modules py-spy sees no lines.
"""

import asyncio
import tempfile
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path
from typing import Annotated

import typer

from pairproxy.cli.bench.overhead.building import CannotBuild, build
from pairproxy.cli.bench.overhead.cases import CASES, Case
from pairproxy.cli.bench.overhead.daemons import PAIRED_PYTHON, PYTHON
from pairproxy.cli.bench.overhead.environments import CannotInstall, environment
from pairproxy.cli.bench.overhead.flame import Line, flame_graph, hottest, read_stacks
from pairproxy.cli.bench.overhead.measuring import WARM_UP_S, Meter
from pairproxy.cli.bench.overhead.processes import OTHER_CORE, CannotStart, pinned, what_is_missing
from pairproxy.cli.bench.overhead.rounds import upstream
from pairproxy.cli.bench.overhead.targets import Place
from pairproxy.cli.ending import run_to_its_end
from pairproxy.config import cache_dir

CANNOT = 2  # the exit status where nothing can be sampled
RATE = 200  # samples a second: each halts the daemon for a fraction of a millisecond
TOLD_LINES = 10
BEGIN_S = 1.0  # for py-spy to read the daemon's symbols
PATIENCE_S = 30.0  # after the seconds it was told

Workload = Annotated[str, typer.Argument(help="Name of a workload of `overhead`.")]
Seconds = Annotated[float, typer.Option(min=1.0, max=120.0, help="That are sampled.")]


class CannotSample(Exception):
    """py-spy may not look at the daemon; its text says why."""


def profile(workload: Workload = "json-64", seconds: Seconds = 8.0) -> None:
    """A flame graph of a daemon under load, not compiled, and its ten most expensive lines."""
    case = next((case for case in CASES if case.name == workload), None)
    if case is None:
        names = ", ".join(case.name for case in CASES)
        raise typer.BadParameter(f"{workload!r} is none of {names}", param_hint="WORKLOAD")
    if missing := what_is_missing():
        typer.echo(missing, err=True)
        raise typer.Exit(CANNOT)
    typer.echo(f"About {seconds + 5:.0f} seconds: {case.about}.", err=True)
    try:
        graph, lines = run_to_its_end(sampled(case, seconds, cache_dir()))
    except (CannotBuild, CannotInstall, CannotSample, CannotStart) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(CANNOT) from None
    for line in lines:
        typer.echo(f"{line.part:6.1%}  {line.where}")
    typer.echo(f"Flame graph: {graph}")


async def sampled(case: Case, seconds: float, cache: Path) -> tuple[Path, list[Line]]:
    """Where the graph is, and the most expensive lines. Raises what profile() tells."""
    programs, sampler = await build(cache), await environment("py-spy", cache) / "py-spy"
    graph = cache / "bench" / f"profile-{case.name}.svg"
    target = PAIRED_PYTHON if case.is_through_peer else PYTHON
    with tempfile.TemporaryDirectory(prefix="pairproxy-bench-") as name:
        directory = Path(name)
        output = directory / "stacks"
        async with upstream(programs, directory) as port:
            place = Place(directory, port, programs.upstream, cache)
            async with target.start(place) as running:
                meter = Meter(programs, port, directory, seconds + BEGIN_S)
                asking = asyncio.create_task(meter.sample(case, running))
                try:
                    await asyncio.sleep(WARM_UP_S)
                    pid = running.child.process.pid if running.child else 0
                    await _record(sampler, pid, output, seconds)
                finally:
                    asking.cancel()
                    await asyncio.gather(asking, return_exceptions=True)
        stacks = read_stacks(output.read_text())
    graph.write_text(flame_graph(stacks, f"pairproxy: {case.about}"), encoding="utf-8")
    return graph, hottest(stacks, TOLD_LINES)


async def _record(sampler: Path, pid: int, output: Path, seconds: float) -> None:
    command = [
        str(sampler), "record", "--pid", str(pid), "--rate", str(RATE), "--duration", f"{seconds:.0f}",
        "--format", "raw", "--threads", "--output", str(output),
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(*pinned(OTHER_CORE, command), stdout=PIPE, stderr=STDOUT)
    try:
        async with asyncio.timeout(seconds + PATIENCE_S):
            told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = " / ".join(told.decode(errors="replace").strip().splitlines()[-2:])
        raise CannotSample(
            f"py-spy cannot look at the daemon: {last} Where the kernel lets nobody look at other processes, "
            "`sudo sysctl kernel.yama.ptrace_scope=0` lets you."
        )
