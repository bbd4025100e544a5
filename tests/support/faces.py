"""What each face shows of a run and of what ended: as its reader sees it, in the digits that it prints.

A face is asked as a person or a program asks it: a command is run, a page is opened, a path is fetched.
"""

import csv
import io
import json
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

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


def status_text(node: Node) -> Seen:
    """`pairproxy status`."""
    return _status("status", here("status", "--home", node.home, COLUMNS="120").stdout)


def status_watched(node: Node, run: str) -> Seen:
    """One frame of `pairproxy status --watch` on a terminal of 120 columns; it is left with a key."""
    command = [sys.executable, "-m", "pairproxy", "status", "--watch", "--home", str(node.home)]
    with Terminal(command, columns=120, lines=40, env=environment(COLUMNS="", TERM="xterm")) as terminal:
        terminal.until(lambda: f"last run {run}" in terminal.text, "the live view shows the run")
        frame = terminal.text
        terminal.type("q")
        assert terminal.wait() == 0
    return _status("status --watch", frame)


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


# --- paths ----------------------------------------------------------------------------------------------


def fetched(node: Node, path: str) -> bytes:
    """What the admin port answers."""
    url = f"http://127.0.0.1:{node.file.admin_port}{path}"
    with urllib.request.urlopen(url, timeout=30) as reply:
        body: bytes = reply.read()
        return body


def _of_report(run: Mapping[str, Any]) -> dict[str, str]:
    names = ("requests", "slots", "makespan_s", "speedup", "bound_waves", "bound_provable", "efficiency")
    return {name: repr(run[name]) for name in names}


def status_lines(node: Node) -> Seen:
    """The first line of `pairproxy status --watch --json`."""
    command = [sys.executable, "-m", "pairproxy", "status", "--watch", "--json", "--home", str(node.home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
    status = json.loads(line)
    return Seen("status --watch --json", status["outcomes"], _of_report(status["last_run"]))


def status_json(node: Node) -> Seen:
    """GET /status."""
    status = json.loads(fetched(node, "/status"))
    return Seen("/status", status["outcomes"], _of_report(status["last_run"]))


def events(node: Node) -> Seen:
    """The first status of GET /events."""
    url = f"http://127.0.0.1:{node.file.admin_port}/events"
    with urllib.request.urlopen(url, timeout=30) as reply:
        line = next(line for line in reply if line.startswith(b"data:"))
    status = json.loads(line.removeprefix(b"data:"))
    return Seen("/events", status["outcomes"], _of_report(status["last_run"]))


def runs(node: Node, run: str) -> Seen:
    """GET /runs."""
    told = json.loads(fetched(node, "/runs"))
    (found,) = [one for one in told["runs"] if one["name"] == run]
    tokens = {"output_tokens": repr(found["output_tokens"])}
    return Seen("/runs", found["outcomes"], _of_report(found) | tokens)


def of_models(matrix: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Model -> node, by its name -> what its cell says."""
    names = matrix["names"]
    return {
        row["model"]: {names[cell["node"]]: cell["state"] for cell in row["cells"]}
        for row in matrix["models"]
    }


def metrics(node: Node) -> Seen:
    """GET /metrics, as Prometheus reads it."""
    families = text_string_to_metric_families(fetched(node, "/metrics").decode())
    samples = [sample for family in families for sample in family.samples]
    ended: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for sample in samples:
        if sample.labels.get("origin") == "here" and sample.name == "pairproxy_requests_total":
            ended[sample.labels["outcome"]] += int(sample.value)
        if sample.labels.get("origin") == "here" and sample.name == "pairproxy_tokens_total":
            tokens[sample.labels["kind"]] += int(sample.value)
    gauges = {sample.name: sample.value for sample in samples if not sample.labels}
    return Seen(
        "/metrics",
        ended,
        {
            "speedup": repr(gauges["pairproxy_run_speedup"]),
            "efficiency": repr(gauges["pairproxy_run_efficiency"]),
            "prompt_tokens": str(tokens["prompt"]),
            "output_tokens": str(tokens["output"]),
        },
    )


def log(node: Node) -> Seen:
    """The lines of the daemon's log, in JSON."""
    lines = [json.loads(line) for line in node.log.splitlines() if line.startswith("{")]
    ended = [line for line in lines if "outcome" in line and "latency_s" in line]
    return Seen(
        "log",
        Counter(line["outcome"] for line in ended),
        {
            "requests": str(len(ended)),
            "output_tokens": str(sum(line.get("output_tokens", 0) for line in ended)),
            "prompt_tokens": str(sum(line.get("prompt_tokens", 0) for line in ended)),
        },
    )
