"""A report that somebody sent may say anything: every drawing of it ends, in little memory."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from pairproxy.api.schema import Report
from pairproxy.cli.report_text import judged, lines, rows
from pairproxy.drawing.html import report_html
from pairproxy.drawing.svg import timeline_svg
from pairproxy.drawing.terminal import timeline_text
from tests.core.accounting.judged import nodes, piece
from tests.drawing.pictured import pictured

NUMBERS = (0, -1, 1e308, -1e308, 5e-324, 1e18, 2**62, -(2**62), 10**9, 1e-9)
TEXTS = ("", "\x1b[2J", "\u202e", "<script>", "]]>&\"'", "A" * 5000, "\0", "\n", "[red]", "\uffff", "\ufdd0")
DRAWINGS: dict[str, Callable[[Report], object]] = {
    "svg": lambda report: ET.fromstring(timeline_svg(report)),  # noqa: S314 we wrote it
    "html": lambda report: report_html(report, ["a line"]),
    "terminal": lambda report: timeline_text(report, 100, 30),
    "text": lambda report: report.run and [*lines(report, report.run), *rows(report, report.run)],
    "judged": judged,
}
BASE = msgspec.json.encode(pictured(nodes("ab"), [piece() for _ in range(5)], a="laptop"))


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each number, text and absence of one."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*way, key))
    else:
        yield way


def changed(document: Any, way: tuple[Any, ...], rng: random.Random) -> None:
    """Put something else there, of the same type."""
    for key in way[:-1]:
        document = document[key]
    old = document[way[-1]]
    if isinstance(old, str):
        document[way[-1]] = rng.choice(TEXTS)
    elif old is None or (isinstance(old, int | float) and not isinstance(old, bool)):
        number = rng.choice(NUMBERS)
        document[way[-1]] = int(number) if isinstance(old, int) and abs(number) < 2**63 else number


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_every_drawing_of_any_report_ends(drawing: str) -> None:
    """Of a thousand reports with one to three such values."""
    rng, drawn = random.Random(drawing), 0
    ways = list(places(json.loads(BASE)))
    for _ in range(1000):
        document = json.loads(BASE)
        for _ in range(rng.choice((1, 1, 3))):
            changed(document, rng.choice(ways), rng)
        try:
            report = msgspec.json.decode(json.dumps(document).encode(), type=Report)
        except msgspec.DecodeError:
            continue
        DRAWINGS[drawing](report)
        drawn += 1
    assert drawn > 500
