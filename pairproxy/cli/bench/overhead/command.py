"""The command: what is measured, progress while it is, and what becomes of the result."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer

from pairproxy.cli.bench.overhead import document as documents
from pairproxy.cli.bench.overhead.building import CannotBuild
from pairproxy.cli.bench.overhead.cases import CASES
from pairproxy.cli.bench.overhead.daemons import PAIRED, PAIRPROXY, PYTHON, why_not_compiled
from pairproxy.cli.bench.overhead.facts import facts
from pairproxy.cli.bench.overhead.gates import gates, is_any_missed
from pairproxy.cli.bench.overhead.pages import details, write
from pairproxy.cli.bench.overhead.processes import what_is_missing
from pairproxy.cli.bench.overhead.rounds import Plan, Step, measure
from pairproxy.cli.bench.overhead.routers import ROUTERS
from pairproxy.cli.bench.overhead.showing import print_document
from pairproxy.cli.bench.overhead.targets import DIRECT, HAPROXY, NGINX, PLAIN, PLAIN_UVLOOP
from pairproxy.cli.ending import run_to_its_end
from pairproxy.cli.options import Json
from pairproxy.cli.printing import console, counted
from pairproxy.config import cache_dir

TARGETS = (DIRECT, NGINX, HAPROXY, PLAIN, PLAIN_UVLOOP, PAIRPROXY, PYTHON, PAIRED, *ROUTERS)
MINUTES_FROM_S = 100.0  # below, seconds say more
BUSY_LOAD = 0.5  # at the start; what is to be measured makes about 2 later
CANNOT = 2  # the exit status where nothing can be measured
ROOT = Path(__file__).parents[4]

Rounds = Annotated[int, typer.Option(min=1, max=50, help="How often each workload goes round the targets.")]
Seconds = Annotated[float, typer.Option(min=0.2, max=60.0, help="Of each sample.")]
Only = Annotated[
    str, typer.Option(help="Names of targets and workloads, with commas; a wrong one lists them.")
]
Routers = Annotated[
    bool, typer.Option("--routers", help="Also other routers, installed from PyPI at first use.")
]
NoGate = Annotated[bool, typer.Option("--no-gate", help="A missed must is told, and is no failure.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the tables as Markdown.")]
Write = Annotated[bool, typer.Option("--write", help="Put the figures into README and docs.")]
From = Annotated[Path | None, typer.Option("--from", help="Show a result of --json again; measure nothing.")]


def overhead(
    rounds: Rounds = 3,
    seconds: Seconds = 3.0,
    only: Only = "",
    routers: Routers = False,
    no_gate: NoGate = False,
    markdown: Markdown = False,
    write_pages: Write = False,
    earlier: From = None,
    as_json: Json = False,
) -> None:
    """What pairproxy costs a request, beside nginx, HAProxy, a plain pass-through and other routers.

    pairproxy is compiled as a wheel has it (built at first use, a minute or two), pairproxy-python is not.
    """
    document = _measured(chosen(only, routers, rounds, seconds)) if earlier is None else _read(earlier)
    if as_json:
        typer.echo(documents.to_json(document))
    elif markdown:
        typer.echo(details(document))
    else:
        print_document(document)
    if write_pages:
        write(document, ROOT)
    if is_any_missed(gates(document.table)) and not no_gate:
        raise typer.Exit(1)


def _read(earlier: Path) -> documents.Document:
    """What --from names. Raises BadParameter for what is no result of --json."""
    try:
        return documents.from_json(earlier.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{earlier}: {error.strerror}", param_hint="--from") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise typer.BadParameter(f"{earlier} is no result of --json.", param_hint="--from") from None


def chosen(only: str, routers: bool, rounds: int, seconds: float) -> Plan:
    """What is to be measured. Raises BadParameter for a name that nothing has."""
    wanted = {name.strip() for name in only.split(",") if name.strip()}
    targets = [one for one in TARGETS if one.name in wanted]
    cases = [case for case in CASES if case.name in wanted]
    if unknown := wanted - {one.name for one in targets} - {case.name for case in cases}:
        names = ", ".join([*(one.name for one in TARGETS), *(case.name for case in CASES)])
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: not one of {names}", param_hint="--only")
    all_targets = [one for one in TARGETS if routers or not one.is_router]
    return Plan(targets or all_targets, cases or CASES, rounds, seconds, cache_dir())


def _measured(plan: Plan) -> documents.Document:
    if missing := what_is_missing():
        _refuse(missing)
    _say(
        f"About {_lasting(plan.estimate_s)}: {counted(plan.rounds, 'round')} of "
        f"{counted(len(plan.pairs()), 'sample')} of {plan.seconds:g} s. "
        "Whatever else runs on this machine is measured with it."
    )
    found = facts()
    why = _compiled(plan)
    if any(target.is_compiled for target in plan.targets):
        found["compiled"] = "no" if why else "yes"
    if float(found["load"]) > BUSY_LOAD:
        _say(
            f"Others work on this machine (load {found['load']}): ratios of processor time hold, "
            "first bytes and p99s do not."
        )
    try:
        with _progress(plan.rounds * len(plan.pairs())) as step:
            result = run_to_its_end(measure(plan, _say, step))
    except CannotBuild as error:
        _refuse(str(error))
    entries = [
        documents.Entry(target.name, case.name, result.table[target.name, case.name])
        for case, target in plan.pairs()
        if (target.name, case.name) in result.table
    ]
    abouts = {
        target.name: f"{target.about}, NOT compiled" if why and target.is_compiled else target.about
        for target in plan.targets
    }
    return documents.Document(found, plan.rounds, plan.seconds, abouts, result.skipped, entries)


def _compiled(plan: Plan) -> str | None:
    """Compile what is measured so: why that cannot be, or None."""
    if not any(target.is_compiled for target in plan.targets):
        return None
    _say("pairproxy is compiled from these sources at first use, which takes a minute or two.")
    why = run_to_its_end(why_not_compiled(plan.cache))
    if why:
        _say(f"{why} So pairproxy is measured as a checkout runs it, NOT compiled.")
    return why


@contextmanager
def _progress(count: int) -> Iterator[Step]:
    """Hears of each sample: a bar with the time that is left on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console(to_stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=count)
        done = -1

        def step(name: str) -> None:
            nonlocal done
            done += 1
            bar.update(task, completed=done, description=name)

        yield step


def _lasting(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < MINUTES_FROM_S else f"{seconds / 60:.0f} minutes"


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _refuse(why: str) -> NoReturn:
    _say(why)
    raise typer.Exit(CANNOT)
