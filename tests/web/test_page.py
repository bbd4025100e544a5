"""The page in a real browser over real daemons."""

import http.client
import itertools
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import watched
from tests.support.daemons import Daemons, Node, settings, until

SPEEDS = {"anna": 1.0, "ben": 0.6, "cleo": 0.35}


def address(node: Node) -> str:
    """Where the page is."""
    return f"http://localhost:{node.file.admin_port}/"


_numbers = itertools.count()


def ask(node: Node, tokens: int, run: str = "tea", words: int = 20) -> str:
    """Send a request that no cache knows, and read all of the reply; returns the request's id."""
    model = node.status().nodes[0].engines[0].replicas[0].model
    body = {
        "model": model, "stream": True, "max_tokens": tokens,
        "messages": [{"role": "user", "content": f"{next(_numbers)} " + "word " * words}],
    }  # fmt: skip
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    fields = {"Content-Type": "application/json", "X-Pairproxy-Run": run}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), fields)
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply.headers["X-Pairproxy-Request"]


@contextmanager
def asking(
    node: Node, requests: int, tokens: Callable[[int], int], run: str = "tea", words: int = 20
) -> Iterator[None]:
    """Requests under way while the block runs; it ends when all have their reply."""
    threads = [
        threading.Thread(target=ask, args=(node, tokens(index), run, words)) for index in range(requests)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(60)


@contextmanager
def three(directory: Path) -> Iterator[tuple[Daemons, Node]]:
    """Three unequal nodes of two slots; yields the first."""
    with Daemons(directory) as daemons:
        for name, speed in SPEEDS.items():
            daemons.home(name, settings(slots=2, paced={"prefill": 800 * speed, "decode": 60 * speed}))
        daemons.pair(*SPEEDS)
        first, *_ = daemons.start(*SPEEDS)
        daemons.until_connected()
        yield daemons, first


def until_fact(page: Any, section: str, term: str, text: str | re.Pattern[str]) -> str:
    """Wait until this stands beside a term in a section (by its heading's id); returns what does."""
    facts = page.locator(f"section[aria-labelledby={section}] .facts > div")
    found = facts.filter(has=page.get_by_text(term, exact=True)).locator("dd")
    found.filter(has_text=re.compile(f"^{re.escape(text)}$") if isinstance(text, str) else text).wait_for()
    return str(found.inner_text())


@pytest.mark.slow
def test_one_node_alone_says_what_comes_next_and_then_shows_what_it_did(browser: Any, tmp_path: Path) -> None:
    """An empty cluster names the next command and where to send a request; one that ran is there at once."""
    with Daemons(tmp_path) as daemons, watched(browser) as page:
        daemons.home("anna", settings(paced={"decode": 200}))
        (anna,) = daemons.start("anna")
        until(lambda: anna.status().nodes[0].engines, "the engine is known")
        page.goto(address(anna))
        hint = page.locator(".note", has_text="pairproxy pair")
        assert "pairproxy join CODE" in hint.inner_text()
        assert f"localhost:{anna.port}" in page.locator(".note", has_text="No request came yet").inner_text()
        page.get_by_text("live", exact=True).wait_for()
        request = ask(anna, 30)
        page.locator("section[aria-labelledby=h-last] canvas").wait_for()
        until_fact(page, "h-last", "requests", "1 (1 done)")
        page.goto(f"{address(anna)}#/requests/{request}")
        page.get_by_text("Where it could go").wait_for()
        assert page.title() == "Request - pairproxy on anna"


@pytest.mark.slow
def test_the_page_moves_while_requests_run(browser: Any, tmp_path: Path) -> None:
    """Slots fill, requests run and wait, the run counts, and what is shown is what the status says."""
    with three(tmp_path) as (_, anna), watched(browser) as page:
        page.goto(address(anna))
        page.locator(".card").nth(2).wait_for()
        with asking(anna, 18, lambda index: 60 + 20 * (index % 3)):
            page.locator(".cell.full").nth(5).wait_for()
            page.get_by_text("The run now").wait_for()
            until_fact(page, "h-now", "waiting", re.compile("^[1-9]"))
            assert "attempt" in page.locator("section[aria-labelledby=h-current] figcaption").inner_text()
            until_fact(page, "h-current", "ended", re.compile("^[1-9][0-9]? of 18"))
            assert page.locator("svg.spark polyline").count() == 3
        page.get_by_text("Nothing runs or waits here").wait_for()
        page.locator(".cell.full").first.wait_for(state="detached")
        until_fact(page, "h-last", "requests", "18 (18 done)")
        run = anna.report().run
        assert run is not None
        until_fact(page, "h-last", "makespan", f"{run.makespan_s:.2f} s")
        until_fact(page, "h-last", "waves bound", f"{run.bound_waves:.2f}")
        until_fact(page, "h-now", "ended", "18 (18 done)")


@pytest.mark.slow
def test_a_request_is_followed_to_its_end(browser: Any, tmp_path: Path) -> None:
    """From the row of one that runs to its decision, which says what came of it once it has ended."""
    with Daemons(tmp_path) as daemons, watched(browser) as page:
        daemons.home("anna", settings(paced={"decode": 50}))
        (anna,) = daemons.start("anna")
        until(lambda: anna.status().nodes[0].engines, "the engine is known")
        page.goto(address(anna))
        page.locator(".card").wait_for()
        with asking(anna, 1, lambda _: 150):
            page.locator("section[aria-labelledby=h-listed] a.id").click()
            page.locator("h2", has_text="running").wait_for()
            page.get_by_text("Where it could go").wait_for()
        page.locator("h2", has_text="done").wait_for()
        assert "it ended: done" in page.locator("main").inner_text()


@pytest.mark.slow
def test_a_daemon_that_restarts_is_found_again(browser: Any, tmp_path: Path) -> None:
    """The page says that nobody answers and what to do; then shows the new life, also of another node."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = settings(admin={"listen": f"127.0.0.1:{port}"})
    with Daemons(tmp_path) as daemons, watched(browser, may_lose_daemon=True) as page:
        for name in ("anna", "zoe"):
            daemons.home(name, text)
        (anna,) = daemons.start("anna")
        page.goto(address(anna))
        page.get_by_text("live", exact=True).wait_for()
        for name in ("anna", "zoe"):
            assert daemons.nodes[-1].stop() == 0
            page.get_by_text("no daemon", exact=True).wait_for()
            assert "pairproxy up" in page.locator("#lost").inner_text()
            daemons.start(name)
            page.get_by_text("live", exact=True).wait_for()
            page.locator("#lost").wait_for(state="hidden")
            assert page.locator("#self").inner_text() == f"on {name}"
        daemons.nodes[-1].kill()
        page.get_by_text("no daemon", exact=True).wait_for()


@pytest.mark.slow
def test_the_keyboard_and_the_back_button_are_enough(browser: Any, tmp_path: Path) -> None:
    """From the skip link to a bar of the timeline, into its request, and back; focus is always somewhere."""
    with Daemons(tmp_path) as daemons, watched(browser) as page:
        daemons.home("anna", settings(slots=2))
        (anna,) = daemons.start("anna")
        until(lambda: anna.status().nodes[0].engines, "the engine is known")
        with asking(anna, 4, lambda _: 20):
            page.goto(address(anna))
            page.locator("canvas").wait_for()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.locator("canvas").focus()
        for key in ("ArrowDown", "ArrowRight", "Home", "+", "-"):
            page.keyboard.press(key)
        assert "wave 1" in page.locator(".plot-tip").inner_text()
        page.keyboard.press("Enter")
        page.get_by_text("Where it could go").wait_for()
        assert page.evaluate("document.activeElement.id") == "heading"
        page.go_back()
        page.locator("canvas").wait_for()
        assert page.title() == "Overview - pairproxy on anna"
        page.get_by_role("link", name="Pairing").press("Enter")
        page.get_by_text("Nobody is paired").wait_for()
        page.get_by_role("button", name="Theme: system").press("Enter")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.reload()
        page.get_by_role("button", name="Theme: light").wait_for()
