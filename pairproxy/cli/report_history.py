"""pairproxy report --since, --all, --export: the runs that are kept, their requests for other programs."""

import io
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pairproxy.cli.options import plain
from pairproxy.cli.printing import console, counted, say, show_table

if TYPE_CHECKING:
    from pairproxy.api.runs import Runs, RunSummary
    from pairproxy.api.schema import Report
    from pairproxy.history.exporting import Written

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
SINCE = "--since takes 30m, 6h, 1d or 2w, or a date like 2026-11-01 or 2026-11-01T12:00."
MOST_RUNS = 20_000  # in one table or document, the latest ones: as many as the daemon tells
TITLES = ("started", "run", "done", "makespan", "speedup", "bound", "efficiency")
NONE_THEN = "No run was kept in that time. `pairproxy report --all` shows all there are."
NONE_YET = "No run is kept yet. One begins with the first request to a port of `pairproxy status`."
FROM_FILE = "No daemon is running: this is what it kept on disk."
PRIVATE = 0o600  # mode of an export: only its owner may read it, as history
NAME_WIDTH = 16  # characters of a run's name in the table: with these it fits 80 columns


@dataclass(frozen=True, slots=True)
class Back:
    """What somebody wants to look back at: since then, of one run, written to a file or printed."""

    run: str | None
    since: str | None
    file: Path | None
    form: str | None


def look_back(home: Path, back: Back, *, as_json: bool) -> None:
    """Print a table of runs, or export their requests. Raises PairproxyError, typer.BadParameter."""
    since_unix = 0.0 if back.since is None else since(back.since, time.time())
    if back.file is not None or back.form is not None:
        _export(home, back, since_unix, as_json=as_json)
        return
    found = _runs(home, since_unix, back.run)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    out = console()
    if found.runs:
        show_table(out, TITLES, [row(one) for one in reversed(found.runs)], frozenset(("started", "run")))
    for line in summary(found, is_all=back.run is None and back.since is None):
        say(out, line)


def stored_report(home: Path, run: str, *, with_recording: bool) -> "Report | None":
    """A run from disk, where no daemon runs; None where there is no history to look at."""
    from pairproxy.core.errors import NotRemembered
    from pairproxy.history.reading import Past
    from pairproxy.history.store import FILE

    if not (home / FILE).exists():
        return None
    typer.echo(FROM_FILE, err=True)
    found = Past(home / FILE).report(run, with_recording=with_recording)
    if found is None:
        raise NotRemembered("No run of this name is kept. `pairproxy report --all` lists those there are.")
    return found


def since(text: str, now: float) -> float:
    """Seconds of the epoch, of "6h" before ``now`` or of a date in this machine's zone."""
    if ago := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])", text.strip().lower()):
        return max(now - float(ago[1]) * UNITS[ago[2]], 0.0)
    try:
        return max(datetime.fromisoformat(text.strip()).astimezone().timestamp(), 0.0)
    except (ValueError, OverflowError, OSError):
        raise typer.BadParameter(SINCE) from None


def row(run: "RunSummary") -> tuple[str, ...]:
    """One run as cells below TITLES; the bound is that on its speedup."""
    good = run.outcomes.get("done", 0)
    requests = str(run.requests) if good == run.requests else f"{good}/{run.requests}"
    name = plain(run.name or run.run[:8])
    started, today = datetime.fromtimestamp(run.started_unix).astimezone(), datetime.now().astimezone()
    return (
        started.strftime("%m-%d %H:%M" if started.year == today.year else "%Y-%m-%d"),
        name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 3]}...",
        requests,
        f"{run.makespan_s:.2f} s",
        "-" if run.speedup is None else f"{run.speedup:.2f}",
        "-" if run.bound_provable is None else f"{run.bound_provable:.2f}",
        "-" if run.efficiency is None else f"{run.efficiency:.0%}",
    )


def summary(found: "Runs", *, is_all: bool = False) -> list[str]:
    """All of them in a line, and what must be said. ``is_all``: no time and no name was given."""
    if not found.runs:
        return [NONE_YET if is_all else NONE_THEN]
    outcomes: dict[str, int] = {}
    for run in found.runs:
        for outcome, count in run.outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + count
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    tokens = sum(run.output_tokens for run in found.runs)
    requests = counted(sum(run.requests for run in found.runs), "request")
    lines = [f"{counted(len(found.runs), 'run')}, {requests} ({told}), {tokens} tokens out"]
    speedups = [run.speedup for run in found.runs if run.speedup is not None]
    if len(speedups) > 1:
        from statistics import median

        lines.append(f"speedup {median(speedups):.2f} in the median of {len(speedups)} runs that have one")
    if found.has_more:
        lines.append(f"There are more: these are the last {len(found.runs)}. A nearer --since shows others.")
    if found.problem:
        lines.append(plain(found.problem))
    return lines


def _runs(home: Path, since_unix: float, name: str | None) -> "Runs":
    """From the daemon, which also knows what is not on disk yet; else from disk."""
    from pairproxy.api.client import NoDaemon, get_runs
    from pairproxy.api.runs import Runs
    from pairproxy.core.accounting.runs import is_id
    from pairproxy.history.reading import Past
    from pairproxy.history.store import FILE

    try:
        found = get_runs(home, since_unix, MOST_RUNS)
    except NoDaemon:
        past = Past(home / FILE)
        stored = [one.summary for one in past.runs(since_unix, MOST_RUNS + 1)]
        typer.echo(FROM_FILE, err=True)
        found = Runs(past.node(), tuple(stored[:MOST_RUNS]), len(stored) > MOST_RUNS)
    runs = tuple(
        one for one in found.runs if name is None or name == one.name or is_id(one.run, one.name, name)
    )
    return Runs(found.node, runs, found.has_more, found.problem)


def _export(home: Path, back: Back, since_unix: float, *, as_json: bool) -> None:
    from pairproxy.cli.report_pictures import replacing
    from pairproxy.history.exporting import FORMATS, Wanted, export
    from pairproxy.history.reading import Past
    from pairproxy.history.store import FILE

    form = back.form or (back.file.suffix.removeprefix(".").lower() if back.file else "")
    if form not in FORMATS:
        raise typer.BadParameter("name a file that ends in .jsonl or .csv, or add --format jsonl or csv.")
    past, wanted = Past(home / FILE), Wanted(since_unix, back.run)
    if back.file is None:
        if isinstance(sys.stdout, io.TextIOWrapper):  # whatever the system's own code page and line ends are
            sys.stdout.reconfigure(encoding="utf-8", newline="")
        export(past, wanted, form, sys.stdout)
        return
    with replacing(back.file, PRIVATE) as out, _progress(past.count(since_unix)) as tell:
        written = export(past, wanted, form, out, tell)
    if as_json:
        import msgspec

        from pairproxy.api.runs import Exported

        told = Exported(str(back.file), form, written.runs, written.requests)
        typer.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
        return
    requests, runs = counted(written.requests, "request"), counted(written.runs, "run")
    typer.echo(f"{plain(str(back.file))}: {requests} of {runs}")


@contextmanager
def _progress(total: int) -> "Iterator[Callable[[Written], None]]":
    """A bar for what takes longer than a moment, on a terminal."""
    if total < 10_000 or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import Progress

    with Progress(console=console(to_stderr=True), transient=True) as bar:
        task = bar.add_task("exporting", total=total)
        yield lambda written: bar.update(task, completed=written.requests)
