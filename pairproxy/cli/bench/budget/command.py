"""The command: a table, a document, or what to do when a limit is passed."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from pairproxy.cli.bench.budget.limits import rows as rows_of
from pairproxy.cli.bench.budget.load import NotAnswered
from pairproxy.cli.bench.budget.measuring import DAEMON, measure, what_is_missing
from pairproxy.cli.bench.overhead.processes import CannotStart
from pairproxy.cli.bench.tables import print_table, to_json
from pairproxy.cli.ending import run_to_its_end
from pairproxy.cli.options import Json

CANNOT = 2  # the exit status where nothing can be measured
TITLE = "What a request may cost"
MISSED = (
    "A request costs more than it may. Find out where with `scripts/bench profile json-64` (or flat-64, "
    "40kB), here and at the commit before. If it is worth that, measure the limits anew: they stand in "
    "pairproxy/cli/bench/budget/limits.py."
)

Rounds = Annotated[int, typer.Option(min=1, max=50, help="How often each side is asked in each case.")]
Script = Annotated[Path | None, typer.Option("--daemon", help="A Python script to run as the daemon.")]


def budget(rounds: Rounds = 7, daemon: Script = None, as_json: Json = False) -> None:
    """What a request of the checkout may cost beside a plain pass-through, not compiled: limits of CI."""
    program = DAEMON if daemon is None else (str(_script(daemon)),)
    if missing := what_is_missing():
        _say(missing)
        raise typer.Exit(CANNOT)
    with tempfile.TemporaryDirectory(prefix="pairproxy-bench-") as directory:
        try:
            found = rows_of(run_to_its_end(measure(rounds, program, Path(directory), _say)))
        except (CannotStart, NotAnswered) as error:
            _say(str(error))
            raise typer.Exit(CANNOT) from None
    notes = [
        "x plain: a daemon's processor time as a multiple of a plain pass-through's.",
        f"Both are asked in turn on one core; medians of {rounds} rounds.",
        "Calls are those of Python functions in the thread of the loop.",
    ]
    if as_json:
        typer.echo(to_json(TITLE, found, notes))
    else:
        print_table(TITLE, found, notes)
    if any(row.is_met is False for row in found):
        _say(MISSED)
        raise typer.Exit(1)


def _script(named: Path) -> Path:
    """What --daemon names. Raises BadParameter for what is no file, for Python's error says too little."""
    if not named.is_file():
        raise typer.BadParameter(
            f"{named} is no file: name a Python script that takes the arguments of pairproxy.",
            param_hint="--daemon",
        )
    return named.resolve()


def _say(line: str) -> None:
    typer.echo(line, err=True)
