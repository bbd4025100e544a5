"""What each face shows of a run and of what ended: as its reader sees it, in the digits that it prints.

A face is asked as a person or a program asks it: a command is run, a page is opened, a path is fetched.
"""

import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pairproxy.api.schema import Report
from tests.support.command import environment, here
from tests.support.daemons import Node
from tests.support.terminal import Terminal

NUMBER = r"([0-9]+(?:\.[0-9]+)?)"


@dataclass(frozen=True)
class Seen:
    """``outcomes``: how many ended how; ``numbers``: what else is shown, by the report's names, as text."""

    face: str
    outcomes: Mapping[str, int] | None = None
    numbers: Mapping[str, str] = field(default_factory=dict)


def truth(report: Report) -> dict[str, float]:
    """Every number of a run that a face may show."""
    run = report.run
    assert run is not None
    told = {
        "requests": run.requests,
        "slots": run.slots,
        "makespan_s": run.makespan_s,
        "speedup": run.speedup,
        "bound_waves": run.bound_waves,
        "bound_provable": run.bound_provable,
        "efficiency": run.efficiency,
        "lower_bound_s": run.lower_bound_s,
        "ttft_p50_s": run.ttft_p50_s,
        "output_tokens": sum(tally.output_tokens for tally in run.per_node.values()),
        "prompt_tokens": sum(tally.prompt_tokens for tally in run.per_node.values()),
    }
    return {name: float(value) for name, value in told.items() if value is not None}


def differing(seen: Seen, outcomes: Mapping[str, int], numbers: Mapping[str, float]) -> list[str]:
    """Where a face shows something else than the report holds."""
    found = []
    if seen.outcomes is not None and dict(seen.outcomes) != dict(outcomes):
        found.append(f"{seen.face}: {dict(seen.outcomes)} instead of {dict(outcomes)}")
    for name, text in seen.numbers.items():
        value = numbers.get(name)
        if value is None or shown_like(text, value) != text:
            found.append(f"{seen.face}: {name} is {text}, the report has {value}")
    return found


def shown_like(text: str, value: float) -> str:
    """The value in as many digits as the text has."""
    if text.endswith("%"):
        return f"{value:.0%}"
    return f"{value:.{len(text.partition('.')[2])}f}"


def counts(text: str) -> dict[str, int]:
    """``1 cancelled, 7 done`` as a table."""
    return {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", text)}


def only(pattern: str, text: str) -> str:
    """The one group of the one place where a pattern is found."""
    found = re.findall(pattern, text)
    assert len(found) == 1, f"{pattern!r} {len(found)} times in:\n{text}"
    return str(found[0])


# --- commands -------------------------------------------------------------------------------------------


def status_page(node: Node) -> str:
    """`pairproxy status`."""
    return here("status", "--home", node.home, COLUMNS="120").stdout


def watched_frame(node: Node, text: str) -> str:
    """One frame of `pairproxy status --watch` that holds this, at 120 columns; it is left with a key."""
    command = [sys.executable, "-m", "pairproxy", "status", "--watch", "--home", str(node.home)]
    with Terminal(command, columns=120, lines=40, env=environment(COLUMNS="", TERM="xterm")) as terminal:
        terminal.until(lambda: text in terminal.text, f"the live view shows {text}")
        frame = terminal.text
        terminal.type("q")
        assert terminal.wait() == 0
    return frame


def status_text(node: Node) -> Seen:
    """What `pairproxy status` says."""
    return _status("status", status_page(node))


def status_watched(node: Node, run: str) -> Seen:
    """What `pairproxy status --watch` says."""
    return _status("status --watch", watched_frame(node, f"last run {run}"))


def counts_now(text: str) -> dict[str, int]:
    """What runs and waits, by both of them; the line of the run says the same."""
    names = ("running", "waiting")
    at_top = re.search(r"(\d+) running, (\d+) waiting, \d+ ended", text)
    of_run = re.search(r"\d+ ended, (\d+) running, (\d+) waiting;", text)
    assert at_top is not None, text
    assert of_run is not None, text
    assert at_top.groups() == of_run.groups()
    return dict(zip(names, map(int, at_top.groups()), strict=True))


def _status(face: str, text: str) -> Seen:
    ended = only(r"\d+ ended \(([^)]*)\)", text)
    last = only(r"last run .*?(\d+ requests in .*)", text)
    return Seen(
        face,
        counts(ended),
        {
            "requests": only(r"(\d+) requests in", last),
            "makespan_s": only(rf"requests in {NUMBER} s", last),
            "slots": only(r"on (\d+) slots", last),
            "speedup": only(rf"{NUMBER}; provable bound", text),
            "bound_provable": only(rf"provable bound {NUMBER}", text),
        },
    )


def report_text(node: Node, run: str) -> Seen:
    """`pairproxy report --run NAME`."""
    text = here("report", "--home", node.home, "--run", run, COLUMNS="160").stdout
    found = re.search(rf"(\d+) requests \(([^)]*)\) in {NUMBER} s", text)
    assert found is not None, text
    table = [line.split() for line in text.splitlines() if re.match(r"^ ?[AB]( +\d+){3} ", line)]
    return Seen(
        "report",
        counts(found[2]),
        {
            "requests": found[1],
            "makespan_s": found[3],
            "bound_waves": only(rf"waves bound {NUMBER}", text),
            "speedup": only(rf"speedup {NUMBER} against the best", text),
            "bound_provable": only(rf"provable bound {NUMBER}", text),
            "efficiency": only(r"efficiency (\d+%)", text),
            "lower_bound_s": only(rf"no schedule ends before {NUMBER} s\n", text),
            "ttft_p50_s": only(rf"first byte after {NUMBER} s", text),
            "prompt_tokens": str(sum(int(row[2]) for row in table)),
            "output_tokens": str(sum(int(row[3]) for row in table)),
        },
    )


def reports_text(node: Node, run: str) -> Seen:
    """The row of the run in `pairproxy report --all`, and the line below."""
    text = here("report", "--home", node.home, "--all", COLUMNS="160").stdout
    row = only(rf"(?m)^.*\b{run} +(\d+/.*)$", text).split()
    done, _, requests = row[0].partition("/")
    ended = counts(only(r"requests \(([^)]*)\)", text))
    assert ended["done"] == int(done)
    return Seen(
        "report --all",
        ended,
        {
            "requests": requests,
            "makespan_s": row[1],
            "speedup": row[3],
            "bound_provable": row[4],
            "efficiency": row[5],
            "output_tokens": only(r"(\d+) tokens out", text),
        },
    )


def exported(node: Node, file: Path) -> Seen:
    """`pairproxy report --all --export FILE`, as a program reads it; what ended is on disk a second later."""
    form = file.suffix.removeprefix(".")
    here("report", "--home", node.home, "--all", "--export", file)
    text = file.read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = (
        list(csv.DictReader(io.StringIO(text)))
        if form == "csv"
        else [row for line in text.splitlines() if (row := json.loads(line))["kind"] == "request"]
    )
    return Seen(
        f"export as {form}",
        Counter(row["outcome"] for row in rows),
        {
            "requests": str(len(rows)),
            "output_tokens": str(sum(int(row["output_tokens"] or 0) for row in rows)),
            "prompt_tokens": str(sum(int(row["prompt_tokens"] or 0) for row in rows)),
        },
    )
