"""The pictures of the page in the documentation: the page in a real browser before a real cluster.

Made anew, into docs/pictures, where PICTURES is set (scripts/pictures does); else only looked at.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import watched
from tests.support.daemons import Daemons, Node, settings
from tests.web.test_page import address, asking, until_fact

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
IN_DOCS = ("running-light", "run-dark", "request-light")  # the others are only looked at
MOST_BYTES = 150_000  # of one: the README stays quick to open
NODES = {"desktop": 1.0, "mini": 0.6, "laptop": 0.35}


@contextmanager
def cluster(directory: Path) -> Iterator[Node]:
    """Three unequal nodes, with engines that sleep as GPUs compute; yields the first."""
    with Daemons(directory) as daemons:
        for name, speed in NODES.items():
            daemons.home(name, settings(slots=2, paced={"prefill": 900 * speed, "decode": 60 * speed}))
        daemons.pair(*NODES)
        first, *_ = daemons.start(*NODES)
        daemons.until_connected()
        yield first


def take(page: Any, name: str) -> None:
    """Take a picture of what is seen; it must be small, and show something."""
    page.evaluate(DRAWN)
    picture = page.screenshot(animations="disabled")
    assert 10_000 < len(picture) < MOST_BYTES, f"{name}: {len(picture)} bytes"
    if os.environ.get("PICTURES") and name in IN_DOCS:
        (PICTURES / f"page-{name}.png").write_bytes(picture)


DRAWN = """async () => {
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
}"""  # a change is drawn in the next frame, the timeline in the one after it


@pytest.mark.slow
def test_the_pictures_are_of_the_page_as_it_is(browser: Any, tmp_path: Path) -> None:
    """While a run goes on, after it, one request, models: light and dark, small enough for the README."""
    with cluster(tmp_path) as first, watched(browser, viewport={"width": 1100, "height": 920}) as page:
        page.goto(address(first))
        page.locator(".card").nth(2).wait_for()
        with asking(first, 20, lambda index: 60 + 25 * (index % 4), "review", 150):
            page.wait_for_function("() => document.querySelector('[role=progressbar]')?.ariaValueNow >= 7")
            take(page, "running-light")
            page.emulate_media(color_scheme="dark")
            take(page, "running-dark")
        until_fact(page, "h-last", "requests", "20 (20 done)")
        for view, heading in (
            ("runs", "Who did what"),
            ("requests/last", "Where it could go"),
            ("models", "Models by node"),
        ):
            page.goto(f"{address(first)}#/{view}")
            page.get_by_text(heading).wait_for()
            if view == "runs":
                page.get_by_text("What would make it faster").wait_for()
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme)
                take(page, f"{view.partition('/')[0].removesuffix('s')}-{theme}")
