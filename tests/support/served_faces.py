"""What paths of the admin port and the log tell of a run (see tests/support/faces.py)."""

import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from pairproxy.api.schema import Status
from tests.support.command import environment
from tests.support.daemons import Node
from tests.support.faces import Seen


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


def first_event(node: Node) -> Status:
    """The first status of GET /events."""
    url = f"http://127.0.0.1:{node.file.admin_port}/events"
    with urllib.request.urlopen(url, timeout=30) as reply:
        line = next(line for line in reply if line.startswith(b"data:"))
    return msgspec.json.decode(line.removeprefix(b"data:"), type=Status)


def events(node: Node) -> Seen:
    """GET /events."""
    status = first_event(node)
    return Seen("/events", status.outcomes, _of_report(msgspec.to_builtins(status.last_run)))


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


def _samples(node: Node) -> list[Any]:
    """GET /metrics, as Prometheus reads it."""
    families = text_string_to_metric_families(fetched(node, "/metrics").decode())
    return [sample for family in families for sample in family.samples]


def metrics_now(node: Node) -> dict[str, int]:
    """The gauges of what runs and waits."""
    values: Counter[str] = Counter()
    for sample in _samples(node):
        values[sample.name] += int(sample.value)
    return {"running": values["pairproxy_in_flight"], "waiting": values["pairproxy_queue_length"]}


def metrics(node: Node) -> Seen:
    """GET /metrics: what ended."""
    samples = _samples(node)
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
