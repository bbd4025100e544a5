import asyncio
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse

from pairproxy.api.schema import NodeStatus, Status
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.errors import QueueFull
from pairproxy.core.models import Outcome
from pairproxy.metrics import PATIENCE_S, Metrics, expose
from pairproxy.totals import Totals
from tests.api.test_schema import ENGINE, NODE, REPORT, STATUS
from tests.core.accounting.conversation import A, B, Told, refuse, served
from tests.support.asked import Question
from tests.support.fake_engine import eventually
from tests.support.running import run_async

ROOT = Path(__file__).parent.parent
DASHBOARD = ROOT / "docs" / "grafana-dashboard.json"
PROMISED = {
    "pairproxy_requests_total", "pairproxy_request_seconds", "pairproxy_ttft_seconds",
    "pairproxy_queue_seconds", "pairproxy_in_flight", "pairproxy_queue_length", "pairproxy_slots",
    "pairproxy_tokens_total", "pairproxy_prefix_hit_ratio", "pairproxy_run_speedup",
    "pairproxy_run_efficiency", "pairproxy_refusals_total", "pairproxy_peer_up",
    "pairproxy_loop_lag_seconds", "pairproxy_build_info",
}  # fmt: skip
PEER = NodeStatus("PEERPEERPEER", "ben", is_self=False, is_up=True, engines=(ENGINE, ENGINE))
OPEN_METRICS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"


def some_totals() -> Totals:
    """Of a few requests, one of them refused."""
    told, totals = Told(), Totals()
    told.ledger.follow(totals.hear)
    told.arrived(0.0, "r", refuse("r", QueueFull("full")))
    for record in (
        served("1", 0.0, 0.1, 1.0, A, cached=5),
        served("2", 0.0, 0.0, 3.0, B, outcome=Outcome.ERROR),
        served("3", 0.0, 0.0, 3.0, A, origin=B),
    ):
        totals.hear(record)
    return totals


def exposed(status: Status = STATUS, run: RunReport | None = REPORT, totals: Totals | None = None) -> str:
    """The text of a scrape."""
    return expose(status, run, totals or some_totals(), {"sent": 3, "lost": 1})[0].decode()


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, labels) -> value."""
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in parse(text)
        for one in family.samples
    }


def names_of(text: str) -> set[str]:
    """The metrics that a scrape declares."""
    return {name for line in text.splitlines() if line.startswith("# TYPE ") and (name := line.split()[2])}


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """What Prometheus' own program says."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: prometheus), so only our own eyes read the metrics")
    return subprocess.run([program, *arguments], input=text, capture_output=True, text=True, timeout=30)


def test_every_promised_metric_is_there() -> None:
    """By the names of the contract, declared even before anything happened, and no noise beside them."""
    nothing = exposed(msgspec.structs.replace(STATUS, nodes=()), None, Totals())
    for text in (exposed(), nothing):
        assert names_of(text) >= PROMISED
        assert not [name for name in names_of(text) if not name.startswith(("pairproxy_", "process_"))]


@pytest.mark.parametrize("is_empty", [False, True])
def test_promtool_has_nothing_to_say(is_empty: bool) -> None:
    """`promtool check metrics` is content, with samples and before there are any."""
    text = exposed(STATUS, None, Totals()) if is_empty else exposed()
    done = promtool("check", "metrics", text=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_withheld_slots_are_there_and_not_offered() -> None:
    """Own clients use them, peers do not."""
    found = samples(
        exposed(msgspec.structs.replace(STATUS, nodes=(msgspec.structs.replace(NODE, withheld="owner"),)))
    )
    assert found["pairproxy_slots", (("node", "N-"),)] == 2
    assert found["pairproxy_slots_offered", (("node", "N-"),)] == 0


def test_gauges_say_what_the_status_says() -> None:
    """In flight and slots of all engines of a node, the queue, peers, and how late the loop is."""
    down = msgspec.structs.replace(ENGINE, is_up=False)
    away = msgspec.structs.replace(PEER, node="AWAYAWAYAWAY", is_up=False, engines=(ENGINE, down))
    found = samples(exposed(msgspec.structs.replace(STATUS, nodes=(NODE, PEER, away), loop_lag_s=0.25)))
    for node, busy, slots in (("N-", 1, 2), ("PEER-PEER", 2, 4), ("AWAY-AWAY", 2, 2)):
        assert found["pairproxy_in_flight", (("node", node),)] == busy
        assert found["pairproxy_slots", (("node", node),)] == slots
        assert found["pairproxy_slots_offered", (("node", node),)] == slots
    up = {labels[0][1]: value for (name, labels), value in found.items() if name == "pairproxy_peer_up"}
    assert up == {"PEER-PEER": 1.0, "AWAY-AWAY": 0.0}
    assert found["pairproxy_queue_length", ()] == STATUS.queue_length
    assert found["pairproxy_loop_lag_seconds", ()] == 0.25
    assert found["pairproxy_build_info", (("version", STATUS.version),)] == 1.0
    assert found["pairproxy_node_info", (("name", "ben"), ("node", "PEER-PEER"))] == 1.0


def test_the_last_run_is_the_report() -> None:
    """Its own numbers; where they are not known there is no sample that would look like zero."""
    found = samples(exposed(run=REPORT))
    assert found["pairproxy_run_efficiency", ()] == REPORT.efficiency
    assert REPORT.speedup is None
    assert ("pairproxy_run_speedup", ()) not in found


def test_counters_count() -> None:
    """Requests by all their labels, refusals by reason, tokens by kind, and histograms that add up."""
    found = samples(exposed())
    labels = (("model", "m"), ("node", "b-"), ("origin", "here"), ("outcome", "error"))
    assert found["pairproxy_requests_total", labels] == 1
    assert found["pairproxy_refusals_total", (("reason", "QueueFull"),)] == 1
    assert found["pairproxy_tokens_total", (("kind", "cached"), ("node", "a-"), ("origin", "here"))] == 5
    assert found["pairproxy_spans_total", (("result", "lost"),)] == 1
    assert found["pairproxy_prefix_hit_ratio", (("node", "a-"),)] == 0.5
    buckets = {
        labels[0][1]: value
        for (name, labels), value in found.items()
        if name == "pairproxy_request_seconds_bucket"
    }
    assert (buckets["0.01"], buckets["1.0"], buckets["5.0"], buckets["+Inf"]) == (1, 2, 3, 3)
    assert found["pairproxy_request_seconds_count", ()] == 3
    assert found["pairproxy_request_seconds_sum", ()] == 4.0


def test_open_metrics_where_it_is_asked_for() -> None:
    """Both formats are read by the library's own parsers, and say the same."""
    text, kind = expose(STATUS, REPORT, some_totals(), {"sent": 3, "lost": 1}, OPEN_METRICS)
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    open_samples = {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in parse_open_metrics(text.decode())
        for one in family.samples
    }
    plain_samples = samples(exposed())
    ours = {key: value for key, value in plain_samples.items() if key[0].startswith("pairproxy_")}
    assert ours.items() <= open_samples.items()
    assert expose(STATUS, REPORT, some_totals(), {})[1] == "text/plain; version=0.0.4; charset=utf-8"


def test_a_name_cannot_spoil_the_text() -> None:
    """Quotes, newlines and control characters of another machine's name stay within their label."""
    name = 'a"} 1\npairproxy_queue_length 99\\\x1b[31m\ud800'
    text = exposed(msgspec.structs.replace(STATUS, nodes=(msgspec.structs.replace(PEER, name=name),)))
    assert samples(text)["pairproxy_queue_length", ()] == STATUS.queue_length
    assert "\x1b" not in text
    twice = msgspec.structs.replace(STATUS, nodes=(NODE, msgspec.structs.replace(PEER, node="N")))
    assert len(re.findall(r"^pairproxy_slots{", exposed(twice), re.MULTILINE)) == 1


def test_a_scrape_does_not_wait_for_a_long_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers with what is known of the last run; what is reckoned stands in a later one."""
    monkeypatch.setattr("pairproxy.metrics.PATIENCE_S", 0.01)
    assert PATIENCE_S < 5.0
    release, made, last_run = held_up()

    async def main() -> None:
        metrics = Metrics(Totals(), lambda: STATUS, last_run)
        line = f"pairproxy_run_efficiency {REPORT.efficiency}"
        for _ in range(3):
            assert line not in await scraped(metrics)
        release.set()
        async with asyncio.timeout(10.0):
            while line not in await scraped(metrics):
                assert len(made) == 1
        assert len(made) == 1

    run_async(main())


def test_several_scrapes_wait_for_one_report() -> None:
    """Two Prometheus servers, or one and a person: each is answered, and the report is made once."""
    release, made, last_run = held_up()

    async def main() -> None:
        metrics = Metrics(Totals(), lambda: STATUS, last_run)
        scrapes = [asyncio.ensure_future(scraped(metrics)) for _ in range(3)]
        await eventually(lambda: bool(made))
        release.set()
        for text in await asyncio.gather(*scrapes):
            assert f"pairproxy_run_efficiency {REPORT.efficiency}" in text
        assert len(made) == 1

    run_async(main())


def test_a_run_that_cannot_be_reckoned_costs_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """The other metrics are told, it is logged, and the next scrape tries again."""
    wrong = [True]

    def make() -> RunReport:
        if wrong[0]:
            raise ZeroDivisionError
        return REPORT

    async def main() -> None:
        metrics = Metrics(Totals(), lambda: STATUS, lambda: make)
        for _ in range(2):
            text = await scraped(metrics)
            assert "pairproxy_queue_length" in text
            assert f"pairproxy_run_efficiency {REPORT.efficiency}" not in text
        wrong[0] = False
        assert f"pairproxy_run_efficiency {REPORT.efficiency}" in await scraped(metrics)

    run_async(main())
    assert "ZeroDivisionError" in caplog.text


def held_up() -> tuple[threading.Event, list[int], Callable[[], Callable[[], RunReport]]]:
    """A report that is made once it is released; how often one was begun."""
    release = threading.Event()
    made: list[int] = []

    def make() -> RunReport:
        made.append(1)
        release.wait(20.0)
        return REPORT

    return release, made, lambda: make


async def scraped(metrics: Metrics) -> str:
    """The body of GET /metrics."""
    response = await metrics.page(Question("/metrics"))
    body: Any = getattr(response, "body", b"")
    return bytes(body).decode()


# --- the dashboard --------------------------------------------------------------------------------------


def expressions() -> list[str]:
    """Every query of the dashboard, Grafana's own variables replaced."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = [query["expr"] for panel in board["panels"] for query in panel["targets"]]
    return [one.replace("$__rate_interval", "5m").replace("$instance", ".*") for one in found]


def test_the_dashboard_can_be_imported() -> None:
    """It asks for its data source, and no panel lies upon another."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    (source,) = board["__inputs"]
    assert (source["type"], source["pluginId"]) == ("datasource", "prometheus")
    assert board["id"] is None
    assert all(panel["datasource"]["uid"] == f"${{{source['name']}}}" for panel in board["panels"])
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_the_dashboard_shows_each_metric_and_no_other() -> None:
    """Every name in a query is one that a scrape declares, and every metric of ours is in a query."""
    declared = {name for name in names_of(exposed()) if name.startswith("pairproxy_")}
    used = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for one in expressions()
        for name in re.findall(r"\bpairproxy_\w+", one)
    }
    assert used == declared


def test_prometheus_reads_each_query(tmp_path: Path) -> None:
    """As rules they pass `promtool check rules`."""
    rules = [{"record": f"board:{number}", "expr": one} for number, one in enumerate(expressions())]
    file = tmp_path / "rules.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    done = promtool("check", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
