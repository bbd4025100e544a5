"""The page in a real browser, before made-up names that lie, large runs, other sites."""

import functools
import http.server
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import watched
from tests.support.daemons import until
from tests.web.made_up import EVIL, VIEWS, evil, going_on, large, status
from tests.web.showing import shown


@pytest.mark.slow
def test_names_that_lie_stay_text(browser: Any) -> None:
    """Whatever nodes, models, runs and errors are called: nothing runs, nothing is loaded, all is shown."""
    with shown(evil()) as url, watched(browser) as page:
        for view in VIEWS:
            page.goto(f"{url}#/{view}")
            page.locator("main").get_by_text("<img src=x onerror=", exact=False).first.wait_for()
            page.wait_for_function("() => !document.querySelector('main').textContent.includes('Asking for')")
            assert page.locator("main :is(img, script, iframe, object)").count() == 0
            assert page.locator("main :is([onload], [onerror], [onclick])").count() == 0
            assert not page.title().startswith("taken")
            assert not page.evaluate("[...document.links].some(link => link.protocol === 'javascript:')")
            text = page.locator("main").inner_text()
            assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", text), view
        page.goto(f"{url}#/requests/{EVIL[1]}")
        page.goto(f"{url}#/%E0%A4%A")
        page.locator("#heading", has_text="Overview").wait_for()


@pytest.mark.slow
def test_a_large_run_stays_smooth(browser: Any, record_property: Any) -> None:
    """2,000 requests on 16 nodes are drawn, scrolled and zoomed; its log says how long each frame took."""
    with shown(large()) as url, watched(browser) as page:
        page.goto(url)
        page.locator("canvas").wait_for()
        told = page.evaluate(SCROLLED)
        page.get_by_text("The same as a table").click()
        page.get_by_role("button", name="Show more (1900 left)").click()
        page.locator("figure tbody tr").nth(199).wait_for()
    record_property("frames", told)
    logging.getLogger(__name__).info("2,000 bars on 64 lanes: %s", told)
    assert told["frames"] > 30
    assert told["drawn"]["worst_ms"] > 0


SCROLLED = """async () => {
  const tasks = [], times = [], gaps = [];
  const noted = list => tasks.push(...list.getEntries().map(one => Math.round(one.duration)));
  new PerformanceObserver(noted).observe({ type: "longtask" });
  const plot = document.querySelector(".plot").pagePlot;
  const draw = plot.draw.bind(plot);
  plot.draw = () => { const began = performance.now(); draw(); times.push(performance.now() - began); };
  plot.zoomTo(8);
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < 120; frame++) {
    plot.scroller.scrollLeft += 40;
    plot.scroller.scrollTop += 3;
    if (frame % 30 === 29) plot.zoomTo(plot.zoom === 8 ? 1 : 8);
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  const told = all => {
    const sorted = all.toSorted((one, other) => one - other);
    const at = part => Number((sorted[Math.floor(part * (sorted.length - 1))] ?? 0).toFixed(1));
    return { median_ms: at(0.5), p95_ms: at(0.95), worst_ms: at(1) };
  };
  return { frames: times.length, drawn: told(times), between: told(gaps), long_tasks: tasks };
}"""


@pytest.mark.slow
def test_who_finds_no_place_among_the_watchers_asks_again_and_again(browser: Any) -> None:
    """Without the stream the page still moves, and says how often."""
    facts = large(20, 3, 2)
    context = browser.new_context()  # the browser itself writes of each stream that is refused
    with shown(facts, has_events=False) as url:
        page = context.new_page()
        page.goto(url)
        page.get_by_text("every 2 s", exact=True).wait_for()
        facts.told = status(2, 2)
        page.locator(".card").nth(2).wait_for(state="detached")
        context.close()


@pytest.mark.slow
def test_a_page_that_nobody_sees_asks_for_nothing(browser: Any) -> None:
    """Its stream ends while it is hidden, and begins anew with the state of now."""
    facts = large(20, 3, 2)
    with shown(facts) as url, watched(browser) as page:
        page.goto(url)
        until(lambda: facts.watchers == 1, "it watches")
        page.evaluate(HIDDEN, True)
        until(lambda: facts.watchers == 0, "it does not watch")
        facts.told = status(2, 2)
        page.evaluate(HIDDEN, False)
        page.locator(".card").nth(2).wait_for(state="detached")
        assert facts.watchers == 1


HIDDEN = """isHidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.mark.slow
def test_a_newer_daemon_has_a_newer_page(browser: Any) -> None:
    """When the version changes under a page that is open, the page is loaded anew."""
    facts = large(20, 3, 2)
    with shown(facts) as url, watched(browser) as page:
        page.goto(url)
        page.locator(".card").first.wait_for()
        with page.expect_event("load"):
            facts.told = status(3, 2, version="9.9.9")
        page.locator(".card").first.wait_for()


@pytest.mark.slow
def test_a_run_that_goes_on_is_drawn_as_it_grows(browser: Any) -> None:
    """What runs stands beside what the report has of the same run, and stays until the report has it, too."""
    facts = large(20, 3, 2)
    facts.told = going_on("another job", 4)  # the report is still that of the run before
    with shown(facts) as url, watched(browser) as page:
        page.goto(url)
        drawn = page.locator("section[aria-labelledby=h-current] figcaption")
        drawn.get_by_text("4 attempts in 4 slots of 3 nodes, at most 1 in one slot").wait_for()
        page.get_by_role("heading", name="The run now another job", exact=True).wait_for()
        facts.told = going_on("another job", 2)
        page.get_by_text("Running: 2").wait_for()
        drawn.get_by_text("4 attempts in 4 slots of 3 nodes, at most 1 in one slot").wait_for()
        facts.told = going_on("large", 4)
        drawn.get_by_text("24 attempts in 6 slots of 3 nodes, at most 5 in one slot").wait_for()
        assert page.locator("canvas").evaluate(LANES) == [
            ["NODE0", 1],
            ["NODE0", 2],
            ["NODE1", 1],
            ["NODE1", 2],
            ["NODE2", 1],
            ["NODE2", 2],
        ]


LANES = "node => node.closest('.plot').pagePlot.line.lanes.map(lane => [lane.node, lane.slot])"


@pytest.mark.slow
def test_many_slots_are_one_bar(browser: Any) -> None:
    """An engine of 256 slots has no 256 cells, and its number is told."""
    facts = large(20, 3, 2)
    facts.told = status(3, 256)
    with shown(facts) as url, watched(browser) as page:
        page.goto(url)
        page.get_by_text("128 of 256 slots in use").first.wait_for()
        assert page.locator(".cell").count() == 0
        assert page.locator(".cells .bar").count() == 3


@contextmanager
def other_site(directory: Path) -> Iterator[str]:
    """Another origin on this machine."""
    handler = functools.partial(_Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.slow
def test_another_site_can_neither_read_nor_frame_it(browser: Any, tmp_path: Path) -> None:
    """Its scripts get nothing from any path, its frames stay empty, its script tags run nothing of ours."""
    (tmp_path / "index.html").write_text("<!doctype html><title>other</title><p>other")
    with shown(large(20, 3, 2)) as url, other_site(tmp_path) as other:
        context = browser.new_context()
        page = context.new_page()
        page.goto(other)
        for path in ("", "status", "events", "report", "page/main.js"):
            for how in ("{}", "{mode: 'no-cors'}"):
                read = page.evaluate(f"fetch('{url}{path}', {how}).then(r => r.text(), () => '')")
                assert read == "", (path, how)
        page.evaluate(FRAMED, url)
        frame = next(one for one in page.frames if one.parent_frame)
        assert "pairproxy" not in (frame.evaluate("document.body?.textContent ?? ''"))
        assert page.evaluate(LOADED, f"{url}page/main.js") == "refused"
        page.evaluate(
            "url => { const link = document.createElement('a'); link.href = url; link.click(); }", url
        )
        page.locator(".card").first.wait_for()  # but whoever follows a link to it gets there
        page.goto(other)
        with context.expect_page() as opened:
            page.evaluate("url => { window.it = open(url); }", url)
        opened.value.locator(".card").first.wait_for()
        assert page.evaluate("it.closed")  # cut off: as if it had been closed
        context.close()


FRAMED = """url => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.onload = done;
  frame.src = url;
  document.body.append(frame);
})"""
LOADED = """url => new Promise(done => {
  const script = document.createElement("script");
  script.onload = () => done("loaded");
  script.onerror = () => done("refused");
  script.src = url;
  document.body.append(script);
})"""
