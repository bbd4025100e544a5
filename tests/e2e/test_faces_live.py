"""While requests run and wait, every face counts the same."""

import contextlib
from pathlib import Path

import pytest

from pairproxy.api.schema import Status
from tests.e2e.test_faces import RUN, ask
from tests.support import drawn_faces, faces, served_faces
from tests.support.browser import chromium, watched
from tests.support.daemons import Daemons, Node, settings, until

REQUESTS, SLOTS = 5, 2
NOW = {"running": SLOTS, "waiting": REQUESTS - SLOTS}


def of_status(status: Status) -> dict[str, int]:
    """What runs and waits, which three parts of it tell in their own way."""
    run = status.current_run
    assert run is not None
    assert (run.requests, run.ended, run.running, run.waiting) == (REQUESTS, 0, *NOW.values())
    assert sum(engine.in_flight for node in status.nodes for engine in node.engines) == SLOTS
    assert (status.queue_length, len(status.waiting)) == (NOW["waiting"],) * 2
    return {"running": len(status.running), "waiting": status.queue_length}


def is_steady(node: Node) -> bool:
    """Whether all requests are where they stay, and the peer has told of its own."""
    status = node.status()
    in_flight = sum(engine.in_flight for one in status.nodes for engine in one.engines)
    return (in_flight, status.queue_length) == (SLOTS, NOW["waiting"]) and all(
        one.has_first_byte for one in status.running
    )


@pytest.mark.slow
def test_what_runs_and_waits_now_is_the_same_on_all(tmp_path: Path) -> None:
    """Two requests write for minutes and three wait, say the status, its views, metrics, events, the page."""
    with Daemons(tmp_path) as daemons, contextlib.ExitStack() as leaving:
        for name in "AB":
            daemons.home(name, settings(paced={"decode": 2.0}))
        daemons.pair("A", "B")
        node, _ = daemons.start("A", "B")
        daemons.until_connected()
        for _ in range(REQUESTS):
            ask(leaving, node)
        until(lambda: is_steady(node), "two run and three wait")
        told = {
            "/status": of_status(node.status()),
            "/metrics": served_faces.metrics_now(node),
            "/events": of_status(served_faces.first_event(node)),
            "status": faces.counts_now(faces.status_page(node)),
            "status --watch": faces.counts_now(faces.watched_frame(node, f"run {RUN}")),
        }
        assert told == dict.fromkeys(told, NOW)
        with chromium() as browser, watched(browser) as page:
            page.goto(f"http://localhost:{node.file.admin_port}/")
            page.locator("section[aria-labelledby=h-current] .facts").wait_for()
            now = drawn_faces.facts(page, "section[aria-labelledby=h-now]")
            run = drawn_faces.facts(page, "section[aria-labelledby=h-current]")
        assert {name: int(now[name]) for name in NOW} == NOW
        assert (run["ended"], run["running"], run["waiting"]) == ("0 of 5 requests", "2", "3")
