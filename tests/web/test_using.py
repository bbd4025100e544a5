"""The page by keyboard, by screen reader, on any screen; in a real browser, before made-up things."""

import itertools
from typing import Any

import msgspec
import pytest

from tests.support.browser import watched
from tests.web.made_up import VIEWS, going_on, large, status
from tests.web.showing import Facts, shown


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1920])
def test_nothing_is_wider_than_the_screen(browser: Any, width: int) -> None:
    """On a telephone and on a large screen only tables and the timeline scroll sideways, by themselves."""
    with shown(large(300)) as url, watched(browser, viewport={"width": width, "height": 800}) as page:
        for view in VIEWS:
            page.goto(f"{url}#/{view}")
            page.locator("main > :nth-child(2)").wait_for()
            page.wait_for_function("() => !document.querySelector('main').textContent.includes('Asking for')")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
            small = page.evaluate(SMALL)
            assert not small, f"{view}: too small to be hit with a finger: {small}"


SMALL = """() => [...document.querySelectorAll("button, nav a, summary")]
  .filter(one => one.getBoundingClientRect().height < 24).map(one => one.textContent)"""  # WCAG 2.2, 2.5.8


@pytest.mark.slow
def test_a_screen_reader_finds_its_way(browser: Any) -> None:
    """Language, title, landmarks, headings in order, a name for all that can be used, headings of tables."""
    with shown(large(50)) as url, watched(browser) as page:
        for view in VIEWS:
            page.goto(f"{url}#/{view}")
            page.locator("main > :nth-child(2)").wait_for()
            page.wait_for_function("() => !document.querySelector('main').textContent.includes('Asking for')")
            assert page.evaluate("document.documentElement.lang") == "en"
            assert page.title().endswith("pairproxy on node00")
            assert page.evaluate(UNNAMED) == [], view
            levels = page.evaluate(
                "[...document.querySelectorAll('h1,h2,h3')].map(one => Number(one.tagName[1]))"
            )
            assert levels[0] == 1
            assert levels.count(1) == 1
            assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), levels
            assert [page.locator(one).count() for one in ("main", "header", "nav")] == [1, 1, 1]
            assert page.evaluate("[...document.querySelectorAll('th')].every(one => one.scope)")
            ids = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
            assert len(ids) == len(set(ids))
            assert page.locator("[aria-live=polite]").first.count() == 1


@pytest.mark.slow
def test_a_picture_that_stands_still_says_how_old_it_is(browser: Any) -> None:
    """Whether the daemon says that it is there or not; what it tells then is live again."""
    facts = large(50)
    with shown(facts) as url, watched(browser) as page:
        page.goto(url)
        page.get_by_text("live", exact=True).wait_for()
        assert page.locator("#age").inner_text() == ""
        facts.is_silent = True
        try:
            page.get_by_text("no news", exact=True).wait_for()
            first = int(
                page.locator("#age").inner_text().removeprefix("This picture is ").split(" s old.")[0]
            )
            assert 12 <= first < 20
            page.locator("#age", has_text=f"{first + 13} s old").wait_for()  # and was asked in vain meanwhile
            assert page.locator("#link").inner_text() == "no news"
            assert "restart it" in page.locator("#age").inner_text()
        finally:
            facts.is_silent = False
        page.get_by_text("live", exact=True).wait_for()
        page.locator("#age").wait_for(state="hidden")


UNNAMED = """() => [...document.querySelectorAll(
    "a, button, canvas, summary, [tabindex='0'], [role=progressbar]")]
  .filter(one => !(one.getAttribute("aria-label") ?? one.textContent).trim()).map(one => one.outerHTML)"""


@pytest.mark.slow
def test_what_is_focused_stays_so_while_all_moves(browser: Any) -> None:
    """A row that is read or about to be opened is the same one after the next statuses."""
    facts = Facts(status(3, 2, 4), large(20, 3, 2).reported)
    facts.documents = large(20, 3, 2).documents
    with shown(facts) as url, watched(browser) as page:
        page.goto(url)
        link = page.get_by_role("link", name="00000003", exact=True)
        link.focus()
        facts.told = status(3, 2, 6)
        page.get_by_text("Running: 6").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "00000003"
        facts.told = status(3, 2, 4)
        page.get_by_text("Running: 4").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "00000003"
        facts.told = msgspec.structs.replace(facts.told, running=facts.told.running[::-1])
        page.locator("section[aria-labelledby=h-listed] tbody a").first.get_by_text("00000003").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "00000003"


@pytest.mark.slow
def test_the_timeline_keeps_the_focus_when_its_run_ends(browser: Any) -> None:
    """Who goes from bar to bar, zoomed, is not thrown out of it."""
    facts = large(20, 3, 2)
    facts.told = going_on("large", 4)
    with shown(facts) as url, watched(browser) as page:
        page.goto(url)
        page.locator("section[aria-labelledby=h-current] canvas").focus()
        page.keyboard.press("+")
        facts.told = status(3, 2)
        page.locator("section[aria-labelledby=h-last] canvas").wait_for()
        assert page.evaluate("document.activeElement.tagName") == "CANVAS"
        assert page.locator("canvas").evaluate("node => node.closest('.plot').pagePlot.zoom") == 2


@pytest.mark.slow
def test_motion_is_only_for_those_who_want_it(browser: Any) -> None:
    """Nothing moves by itself where the system says so."""
    for wish, expected in (("reduce", True), ("no-preference", False)):
        with shown(large(20, 3, 2)) as url, watched(browser, reduced_motion=wish) as page:
            page.goto(url)
            page.locator(".cell").first.wait_for()
            moves = page.locator(".cell").first.evaluate("one => getComputedStyle(one).transitionDuration")
            assert (moves in ("", "0s")) is expected, moves
