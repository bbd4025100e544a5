"""What monitoring is told by real daemons: /metrics and the log, read by Prometheus itself too."""

import json
import shutil
import socket
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from pairproxy.core.models import NodeId
from pairproxy.security.identity import short_id
from tests.support.asking import Asker
from tests.support.daemons import Daemons, Node, settings, until
from tests.test_metrics import expressions

REQUESTS = 6
UNKNOWN = "nobody-has:this"
SCRAPED_S = 30.0  # Prometheus starts in about a second and scrapes every one


def fetched(url: str) -> str:
    """What is answered to GET."""
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 an address of this test
        return bytes(answer.read()).decode()


def metrics(node: Node) -> str:
    """A scrape."""
    return fetched(f"http://127.0.0.1:{node.file.admin_port}/metrics")


def counted(text: str, name: str, by: str, **labels: str) -> dict[str, int]:
    """A metric's samples with these labels, summed by another one."""
    sums: Counter[str] = Counter()
    for family in parse(text):
        for one in family.samples:
            if one.name == name and labels.items() <= one.labels.items():
                sums[one.labels[by]] += int(one.value)
    return dict(sums)


def two_that_worked(daemons: Daemons, **sections: Any) -> tuple[Node, Node]:
    """Two paired daemons; A was asked so much at once that both served, and once for what nobody has."""
    for name in ("A", "B"):
        daemons.home(name, settings(slots=1, paced={"decode": 100.0}, **sections))
    daemons.pair("A", "B")
    a, b = daemons.start("A", "B")
    daemons.until_connected()
    futures = [Asker(a.port).start(tokens=30) for _ in range(REQUESTS)]
    assert {future.result().status for future in futures} == {200}
    assert Asker(a.port, UNKNOWN).ask().status == 404
    until(lambda: sum(a.status().outcomes.values()) == REQUESTS + 1, "all have ended at A")
    return a, b


@pytest.mark.slow
def test_metrics_and_log_tell_what_happened(tmp_path: Path) -> None:
    """Both say the same as status and report, at both nodes, and neither holds what only a client said."""
    with Daemons(tmp_path) as daemons:
        a, b = two_that_worked(daemons, log={"format": "json"})
        for node in (a, b):
            told = counted(metrics(node), "pairproxy_requests_total", "outcome")
            assert told == node.status().outcomes
        check_metrics(a, b)
        ids = {one.request for one in a.report().records}
        a.stop()
        b.stop()
        check_logs(a, b, ids)


def check_metrics(a: Node, b: Node) -> None:
    """What a peer asked is told apart, so that a sum over all nodes counts each request once."""
    here, there = metrics(a), metrics(b)
    by_node = counted(here, "pairproxy_requests_total", "node", outcome="done", origin="here")
    own, peer = short_id(NodeId(a.id)), short_id(NodeId(b.id))
    assert by_node.keys() == {own, peer}
    assert sum(by_node.values()) == REQUESTS
    assert counted(there, "pairproxy_requests_total", "node", outcome="done") == {peer: by_node[peer]}
    assert counted(there, "pairproxy_requests_total", "outcome", origin="here") == {}
    assert counted(here, "pairproxy_tokens_total", "kind")["output"] == 30 * REQUESTS
    assert f"pairproxy_request_seconds_count {REQUESTS + 1}.0\n" in here
    run = a.status().last_run
    assert run is not None
    assert f"pairproxy_run_efficiency {run.efficiency}\n" in here
    assert UNKNOWN not in here + there
    assert counted(here, "pairproxy_node_info", "name") == {"A": 1, "B": 1}


def check_logs(a: Node, b: Node, ids: set[str]) -> None:
    """Each request is a line with its id, model, node, outcome, seconds and tokens; every line is JSON."""
    here, there = ([json.loads(line) for line in node.log.splitlines()] for node in (a, b))
    lines = {one["request"]: one for one in here if one["message"] == "request ended"}
    assert lines.keys() >= ids
    assert Counter(one["outcome"] for one in lines.values()) == {"done": REQUESTS, "error": 1}
    done = [one for one in lines.values() if one["outcome"] == "done"]
    assert {one["node"] for one in done} == {"A", "B"}
    assert {(one["model"], one["output_tokens"]) for one in done} == {("paced:1b", 30)}
    assert all(one["latency_s"] >= one["ttft_s"] >= one["queue_s"] for one in done)
    guests = [one for one in there if one["message"] == "request ended"]
    assert {one["origin"] for one in guests} == {"A"}
    served = {one["request"].split("-")[1] for one in guests}
    assert served == {one["request"] for one in done if one["node"] == "B"}
    assert "hello" not in a.log + b.log
    assert UNKNOWN not in a.log + b.log


@contextmanager
def prometheus(directory: Path, *nodes: Node) -> Iterator[str]:
    """Prometheus itself on loopback, scraping these nodes: its address."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed, so it is not seen to scrape us")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = int(sock.getsockname()[1])
    targets = [{"targets": [f"127.0.0.1:{node.file.admin_port}" for node in nodes]}]
    jobs = [{"job_name": "pairproxy", "scrape_interval": "1s", "static_configs": targets}]
    file = directory / "prometheus.yml"
    file.write_text(json.dumps({"scrape_configs": jobs}))
    command = [
        program, f"--config.file={file}", f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20.0)


def queried(address: str, query: str) -> Any:
    """What Prometheus answers to a query; None while it does not."""
    try:
        answer = json.loads(fetched(f"{address}/api/v1/query?query={quote(query)}"))
    except OSError:
        return None
    assert answer["status"] == "success"
    return answer["data"]["result"]


@pytest.mark.slow
def test_prometheus_scrapes_it(tmp_path: Path) -> None:
    """Both nodes are up for it, sums are right, and each query of the dashboard is answered."""
    with Daemons(tmp_path / "nodes") as daemons:
        a, b = two_that_worked(daemons)
        with prometheus(tmp_path, a, b) as address:
            up = partial(queried, address, "sum(pairproxy_peer_up) == 2 and sum(up) == 2")
            until(up, "Prometheus has scraped both", SCRAPED_S)
            (total,) = queried(address, 'sum(pairproxy_requests_total{origin="here",outcome="done"})')
            assert total["value"][1] == str(REQUESTS)
            (count,) = queried(address, "sum(pairproxy_request_seconds_count)")
            assert count["value"][1] == str(REQUESTS + 1)
            for expression in expressions():
                assert queried(address, expression) is not None, expression
            by_name = next(one for one in expressions() if "pairproxy_slots" in one and "name" in one)
            named = queried(address, by_name)
            assert {one["metric"]["name"] for one in named} == {"A", "B"}
