"""What is drawn: the page in a real browser, the picture and the file of a run (tests/support/faces.py)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.command import here
from tests.support.daemons import Node
from tests.support.faces import NUMBER, Seen, counts, only


def page(browser_page: Any, node: Node, run: str) -> list[Seen]:
    """The overview, the view of the run and the list of runs, in a browser."""
    address = f"http://localhost:{node.file.admin_port}/"
    browser_page.goto(address)
    browser_page.locator("section[aria-labelledby=h-last] .facts").wait_for()
    overview = facts(browser_page, "section[aria-labelledby=h-last]")
    ended = facts(browser_page, "section[aria-labelledby=h-now]")["ended"]
    browser_page.goto(f"{address}#/runs/{run}")
    browser_page.locator("article .facts").wait_for()
    whole = facts(browser_page, "article")
    table = browser_page.locator("article table", has_text="Who did what").locator("tbody tr")
    cells = [row.locator("th, td").all_inner_texts() for row in table.all()]
    tokens = {
        "prompt_tokens": str(sum(int(row[2]) for row in cells)),
        "output_tokens": str(sum(int(row[3]) for row in cells)),
    }
    return [
        Seen("the page's requests", counts(ended.partition("(")[2])),
        _of_page("the page's last run", overview),
        _of_page("the page's run", whole, tokens),
        _of_list("the page's runs", browser_page, run),
    ]


def _of_list(face: str, browser_page: Any, run: str) -> Seen:
    """The row of a run, by the titles of its columns."""
    listed = browser_page.locator("main table", has_text="Runs, the latest first")
    titles = listed.locator("thead th").all_inner_texts()
    cells = listed.locator("tbody tr", has_text=run).locator("th, td").all_inner_texts()
    told = dict(zip(titles, cells, strict=True))
    ended = told.pop("outcomes")
    return _of_page(face, {**told, "requests": f"{told['requests']} ({ended})"})


def _of_page(face: str, facts: Mapping[str, str], more: Mapping[str, str] | None = None) -> Seen:
    requests, _, ended = facts["requests"].partition(" (")
    names = {
        "makespan": "makespan_s",
        "speedup": "speedup",
        "waves bound": "bound_waves",
        "provable bound": "bound_provable",
        "efficiency": "efficiency",
        "no schedule ends before": "lower_bound_s",
    }
    told = {name: facts[term].removesuffix(" s") for term, name in names.items() if term in facts}
    return Seen(face, counts(ended), {"requests": requests, **told, **(more or {})})


def facts(browser_page: Any, where: str) -> dict[str, str]:
    """The terms of a part of the page, and what stands beside each."""
    found = browser_page.locator(f"{where} .facts > div")
    return {
        one.locator("dt").inner_text().strip(): one.locator("dd").inner_text().strip() for one in found.all()
    }


def pictures(node: Node, run: str, directory: Path) -> list[Seen]:
    """The files of `pairproxy report --svg --html`, by the words in them."""
    texts = words(node, run, directory)
    written = texts["html"]
    title = rf"(\d+) requests in {NUMBER} s, speedup {NUMBER} of at most {NUMBER}"
    names = ("requests", "makespan_s", "speedup", "bound_provable")
    found = []
    for face, text in texts.items():
        told = re.search(title, text)
        assert told is not None, text
        numbers = dict(zip(names, told.groups(), strict=True))
        numbers["lower_bound_s"] = re.findall(rf"no schedule ends before {NUMBER} s", text)[-1]
        found.append(Seen(face, None, numbers))
    terms = {
        "makespan_s": rf"makespan {NUMBER} s",
        "requests": r"requests (\d+) speedup",
        "speedup": rf"speedup {NUMBER} waves",
        "bound_waves": rf"waves bound {NUMBER} provable",
        "bound_provable": rf"provable bound {NUMBER} efficiency",
        "efficiency": r"efficiency (\d+%) no",
    }
    ended = counts(only(r"In words \d+ requests \(([^)]*)\)", written))
    return [*found, Seen("html's facts", ended, {name: only(term, written) for name, term in terms.items()})]


def words(node: Node, run: str, directory: Path) -> dict[str, str]:
    """All that stands in the picture and in the file of a run."""
    svg, html = directory / "run.svg", directory / "run.html"
    here("report", "--home", node.home, "--run", run, "--svg", svg, "--html", html)
    return {"svg": _words(svg), "html": _words(html)}


def _words(file: Path) -> str:
    """What stands in a picture or a page, in one line."""
    text = re.sub(r"<style.*?</style>", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())
