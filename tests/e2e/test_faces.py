"""Every face shows the same numbers: one run that did not all end well, seen by all who look."""

import contextlib
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pairproxy.api.schema import Report
from tests.support import drawn_faces, faces, served_faces
from tests.support.asking import CHAT, MODEL, Asker
from tests.support.browser import chromium, watched
from tests.support.command import here
from tests.support.daemons import Daemons, Node, settings, until

RUN = "faces"
WAITING = 6  # as many as the queue takes
ENDS = {"done": 5, "cancelled": 3, "refused": 1}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Two unequal nodes of one slot each, after the run; yields the one that was asked."""
    with Daemons(tmp_path_factory.mktemp("faces")) as daemons:
        more: dict[str, Any] = {"routing": {"queue_limit": WAITING}, "log": {"format": "json"}}
        daemons.home("A", settings(paced={"decode": 40.0}, **more))
        daemons.home("B", settings(paced={"decode": 25.0}, **more))
        daemons.pair("A", "B")
        first, _ = daemons.start("A", "B")
        daemons.until_connected()
        one_run(first)
        yield first


def one_run(node: Node) -> None:
    """Nine requests: two run, six wait, one is refused; a client leaves the queue, two leave their replies.

    Nothing ends before that: those that run would write for half a minute.
    """
    asker = Asker(node.port, headers={"X-Pairproxy-Run": RUN})
    with contextlib.ExitStack() as leaving:
        leave_reply = [ask(leaving, node), ask(leaving, node)]
        until(lambda: [one.has_first_byte for one in node.status().running] == [True] * 2, "both nodes write")
        replies = [asker.start(f"task {number}", tokens=30) for number in range(WAITING - 1)]
        leaves_queue = ask(leaving, node)
        until(lambda: node.status().queue_length == WAITING, "the queue is full")
        assert asker.ask("one too many", tokens=30).status == 503
        leaves_queue.close()
        until(lambda: node.status().queue_length == WAITING - 1, "it left the queue")
        for one in leave_reply:
            one.close()
    assert all(reply.result().is_whole for reply in replies)
    until(lambda: node.status().outcomes == ENDS, "all have ended")
    until(lambda: has_settled(node), "the last report is of all of them")


def ask(leaving: contextlib.ExitStack, node: Node) -> http.client.HTTPConnection:
    """A request of the run whose client will leave before its end."""
    connection = leaving.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", node.port)))
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "options": {"num_predict": 1000}}
    fields = {"Content-Type": "application/json", "X-Pairproxy-Run": RUN}
    connection.request("POST", CHAT["ollama"], json.dumps(body), fields)
    return connection


def has_settled(node: Node) -> bool:
    """Whether who only watches sees the report of the whole run."""
    last = node.status().last_run
    return last is not None and last == node.report(RUN).run


@pytest.fixture
def report(pair: Node) -> Report:
    """What all are held against."""
    return node_report(pair)


def node_report(node: Node) -> Report:
    """The run's report, which is known to be of all requests."""
    report = node.report(RUN)
    assert report.run is not None
    assert report.run.outcomes == ENDS
    assert (report.run.speedup is not None, report.run.bound_provable is not None) == (True, True)
    return report


def agree(found: list[faces.Seen], report: Report) -> None:
    """All of these show what the report holds."""
    numbers = faces.truth(report)
    assert not [line for seen in found for line in faces.differing(seen, ENDS, numbers)]


def test_commands_show_the_same(pair: Node, report: Report) -> None:
    """`status` as a page and live; `report` in words, of one run and of all."""
    found = [faces.status_text(pair), faces.status_watched(pair, RUN)]
    agree([*found, faces.report_text(pair, RUN), faces.reports_text(pair, RUN)], report)


def test_files_that_are_written_hold_the_same(pair: Node, report: Report, tmp_path: Path) -> None:
    """The picture and the page of a run, and what is exported of its requests."""
    agree(drawn_faces.pictures(pair, RUN, tmp_path), report)
    files = [tmp_path / "runs.csv", tmp_path / "runs.jsonl"]
    until(lambda: faces.exported(pair, files[0]).numbers["requests"] == "9", "all are on disk")
    agree([faces.exported(pair, file) for file in files], report)


def test_every_path_and_the_log_tell_the_same(pair: Node, report: Report) -> None:
    """/status, /events, /runs, /metrics, the lines of a watch, and a line of the log for each request."""
    found = [
        served_faces.status_json(pair),
        served_faces.status_lines(pair),
        served_faces.events(pair),
        served_faces.runs(pair, RUN),
    ]
    agree([*found, served_faces.metrics(pair), served_faces.log(pair)], report)


def test_the_page_shows_the_same(pair: Node, report: Report) -> None:
    """In a real browser: what ended, the last run, the run of this name."""
    with chromium() as browser, watched(browser) as page:
        agree(drawn_faces.page(page, pair, RUN), report)


def test_what_limited_the_run_is_said_in_one_way(pair: Node, report: Report, tmp_path: Path) -> None:
    """The two sentences of the report are those of the terminal, the picture, the file and the page."""
    assert report.verdict is not None
    said = [one.replace("`", "") for one in (report.verdict.limited_by, report.verdict.change)]

    def missing(text: str) -> list[str]:
        return [one for one in said if one not in text.replace("`", "")]

    printed = here("report", "--run", RUN, "--home", pair.home, COLUMNS="100").stdout
    assert missing(" ".join(printed.split())) == []
    assert {face: missing(text) for face, text in drawn_faces.words(pair, RUN, tmp_path).items()} == {
        "svg": [],
        "html": [],
    }
    with chromium() as browser, watched(browser) as page:
        page.goto(f"http://localhost:{pair.file.admin_port}/#/runs/{RUN}")
        assert missing(page.locator("article .verdict").inner_text()) == []


def test_what_limits_now_is_said_in_one_way(pair: Node) -> None:
    """The sentence of the status, on the terminal and on the page."""
    limit = pair.status().limit
    assert limit
    printed = here("status", "--home", pair.home, COLUMNS="100").stdout
    assert limit in " ".join(printed.split())
    with chromium() as browser, watched(browser) as page:
        page.goto(f"http://localhost:{pair.file.admin_port}/")
        page.locator("section[aria-labelledby=h-now]", has_text=limit.replace("`", "")).wait_for()


def test_the_matrix_of_models_is_one(pair: Node) -> None:
    """The command, its JSON, the path and the page tell the same of each model on each node."""
    served = json.loads(served_faces.fetched(pair, "/models"))
    printed = json.loads(here("models", "--home", pair.home, "--json").stdout)
    assert (
        served_faces.of_models(printed)
        == served_faces.of_models(served)
        == {MODEL: {"A": "same", "B": "same"}}
    )
    titles, row, *_ = here("models", "--home", pair.home, COLUMNS="100").stdout.splitlines()
    assert (titles.split(), row.split()[0], row.split().count("same")) == (["model", "A", "B"], MODEL, 2)
    with chromium() as browser, watched(browser) as page:
        page.goto(f"http://localhost:{pair.file.admin_port}/#/models")
        row_of_it = page.locator(".models tbody tr").first
        row_of_it.wait_for()
        cells = row_of_it.locator("th, td").all_inner_texts()
    assert [cells[0], *(cell.split()[1] for cell in cells[1:3])] == [MODEL, "same", "same"]


def test_a_face_that_differs_is_caught(report: Report) -> None:
    """The comparison is by the digits that are shown, and sees one that is off."""
    numbers = faces.truth(report)
    right = f"{numbers['makespan_s']:.2f}"
    wrong = f"{numbers['makespan_s'] + 0.01:.2f}"
    assert faces.differing(faces.Seen("x", ENDS, {"makespan_s": right}), ENDS, numbers) == []
    assert faces.differing(faces.Seen("x", ENDS, {"makespan_s": wrong}), ENDS, numbers) != []
    assert faces.differing(faces.Seen("x", {"done": 5}), ENDS, numbers) != []
