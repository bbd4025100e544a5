"""All of it in turn: in each round every target is started anew, and each workload goes round them.

In turn, because a machine that others use is slower in one minute than in the next: only what stands beside
each other can be compared.
"""

import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pairproxy.cli.bench.overhead.building import Programs, build
from pairproxy.cli.bench.overhead.cases import Case
from pairproxy.cli.bench.overhead.figures import Sample, Table, figures
from pairproxy.cli.bench.overhead.measuring import SETTLE_S, WARM_UP_S, Meter
from pairproxy.cli.bench.overhead.processes import (
    LOOK_S,
    OTHER_CORE,
    CannotStart,
    free_port,
    started,
    until_answers,
)
from pairproxy.cli.bench.overhead.targets import OPENAI_PATH, READY_BODY, Place, Running, Target

STARTING_S = 4.0  # of all targets, in each round: what the estimate adds
STARTING_ROUTER_S = 12.0  # of each other router
OVERRUN_S = 4.0  # for each of their samples: two of them are overrun by most, and work on

Say = Callable[[str], None]
Step = Callable[[str], None]
"""Hears the name of each sample before it is taken, for progress."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. A target with a peer is asked what goes through one, the others all else."""

    targets: Sequence[Target]
    cases: Sequence[Case]
    rounds: int
    seconds: float
    cache: Path

    def pairs(self) -> list[tuple[Case, Target]]:
        """Each workload with each target that it is for, in the order of a round."""
        return [
            (case, target)
            for case in self.cases
            for target in self.targets
            if case.is_through_peer == target.is_pair and not (case.is_stalled and target.name == "direct")
        ]

    @property
    def estimate_s(self) -> float:
        """How long it will take, installing not counted."""
        routers = sum(target.is_router for target in self.targets)
        each_s = self.seconds + WARM_UP_S + 2 * SETTLE_S + LOOK_S
        overrun_s = OVERRUN_S * sum(target.is_router for _, target in self.pairs())
        starting_s = STARTING_S + routers * STARTING_ROUTER_S
        return self.rounds * (starting_s + len(self.pairs()) * each_s + overrun_s)


@dataclass
class Result:
    """What came of it: figures, and why some targets have none."""

    table: Table = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


async def measure(plan: Plan, say: Say, step: Step) -> Result:
    """Run everything. Raises CannotBuild."""
    programs = await build(plan.cache)
    result = Result()
    samples: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for number in range(plan.rounds):
        async with _round(plan, programs, result, say) as (meter, running):
            for case, target in plan.pairs():
                step(f"round {number + 1} of {plan.rounds}: {case.name}, {target.name}")
                if target.name in running:
                    taken = await meter.sample(case, running[target.name])
                    samples[target.name, case.name].append(taken)
                    if taken.told:
                        say(f"{target.name}, {case.name}: {taken.told}")
    is_stream = {case.name: case.is_stream for case in plan.cases}
    result.table = {key: figures(found, is_stream=is_stream[key[1]]) for key, found in samples.items()}
    return result


@asynccontextmanager
async def upstream(programs: Programs, directory: Path) -> AsyncIterator[int]:
    """The upstream for the block: its port."""
    port = free_port()
    async with started(OTHER_CORE, [str(programs.upstream), str(port)], directory / "upstream.log") as child:
        await until_answers(child, port, OPENAI_PATH, READY_BODY)
        yield port


@asynccontextmanager
async def _round(
    plan: Plan, programs: Programs, result: Result, say: Say
) -> AsyncIterator[tuple[Meter, dict[str, Running]]]:
    """Upstream and targets for the block; who cannot start is told once and left out."""
    wanted = {target.name for _, target in plan.pairs()}
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pairproxy-bench-")))
        port = await stack.enter_async_context(upstream(programs, directory))
        running: dict[str, Running] = {}
        for target in plan.targets:
            if target.name not in wanted or target.name in result.skipped:
                continue
            place = Place(directory / target.name, port, programs.upstream, plan.cache)
            place.directory.mkdir(mode=0o700)
            try:
                if target.missing:
                    raise CannotStart(target.missing)
                running[target.name] = await stack.enter_async_context(target.start(place))
            except CannotStart as error:
                result.skipped[target.name] = str(error)
                say(f"{target.name}: SKIPPED, {error}")
        yield Meter(programs, port, directory, plan.seconds), running
