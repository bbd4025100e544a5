import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pairproxy.api.schema import Report
from pairproxy.drawing.html import report_html
from tests.core.accounting.judged import nodes, piece
from tests.drawing.pictured import many, pictured, with_hostile_names
from tests.support.browser import chromium


class Seen(HTMLParser):
    """All elements and attributes of a page, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """The words in one line."""
        return " ".join(" ".join(self.words).split())


def a_report() -> Report:
    """Five requests on two nodes."""
    return pictured(nodes("ab"), [piece() for _ in range(5)], a="laptop")


def test_it_says_all_that_the_report_says() -> None:
    """Sentences, figures, nodes, losses, what else was said, every request, and when it began."""
    report = a_report()
    assert report.verdict is not None
    seen = Seen(report_html(report, ["first byte after `1.00 s`"]))
    for words in (
        report.verdict.limited_by,
        "What would change it",
        "slower than the best pace",
        "first byte after 1.00 s",
        "All 5 requests",
        "2026-11-30 00:53:20 UTC",
        *("8.70 s", "2.50", "laptop", "m:latest"),
    ):
        assert words in seen.text, words
    rows = [attributes for tag, attributes in seen.elements if tag == "tr"]
    assert len(rows) >= 5 + 2


def test_nothing_is_fetched_and_nothing_runs() -> None:
    """No element that could, no attribute that could, also where names try."""
    for report in (a_report(), with_hostile_names()):
        seen = Seen(report_html(report, ["<script>alert(1)</script>"]))
        tags = {tag for tag, _ in seen.elements}
        assert not tags & {
            "script",
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "form",
            "a",
            "base",
            "image",
            "use",
        }
        names = {name for _, attributes in seen.elements for name in attributes}
        assert not names & {"src", "href", "srcset", "style", "action", "background", "data"}
        assert not [name for name in names if name.startswith("on")]


def test_its_policy_allows_its_own_style_sheet_and_nothing_else() -> None:
    """By the hash of exactly what stands in it."""
    page = report_html(a_report(), [])
    (css,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policies = [one.get("content") for tag, one in Seen(page).elements if one.get("http-equiv")]
    assert policies == [
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    ]


def test_a_report_without_a_run_is_a_page_that_says_so() -> None:
    """Whoever sends it to somebody sends no empty page."""
    assert "No request has ended yet." in report_html(Report(None, (), {}), [])


def test_two_thousand_requests_are_less_than_a_megabyte() -> None:
    """All of them in the table and in the picture."""
    page = report_html(many(2000, 16, 4), [])
    assert len(page.encode()) < 1_000_000
    assert "All 2000 requests" in page


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_a_browser_shows_it_without_a_complaint(tmp_path: Path, scheme: str, width: int) -> None:
    """From disk: no error, no request, the policy kept; the page itself never scrolls sideways."""
    page_file = tmp_path / "run.html"
    page_file.write_text(report_html(with_hostile_names(), ["a line"]), encoding="utf-8")
    with chromium() as browser:
        page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(page_file.as_uri())
        page.get_by_text("All 2 requests").click()
        wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert said == []
    assert asked == [page_file.as_uri()]
    assert wide[0] <= wide[1]
    assert (background == "rgb(255, 255, 255)") is (scheme == "light")
