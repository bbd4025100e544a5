import re
import xml.etree.ElementTree as ET

import msgspec
import pytest

from pairproxy.api.schema import Report
from pairproxy.core.workload import SimNode
from pairproxy.drawing.palette import MEANINGS
from pairproxy.drawing.svg import WIDTH, timeline_svg
from tests.core.accounting.judged import RATES, nodes, piece
from tests.drawing.pictured import many, pictured, with_hostile_names

SVG = "{http://www.w3.org/2000/svg}"
SHOWN = ("svg", "title", "desc", "style", "defs", "pattern", "path", "rect", "text", "g")
"""All that a picture is made of: nothing that runs, nothing that is fetched."""


def cold_and_lost() -> Report:
    """Bars of every kind: b loads its model, c is lost."""
    cluster = [
        SimNode.of(name, 1, RATES, is_loaded=name != "b", lost_at=4.0 if name == "c" else None)
        for name in "abc"
    ]
    return pictured(cluster, [piece(200) for _ in range(9)])


def parsed(report: Report) -> ET.Element:
    """The picture as a parser of XML reads it."""
    return ET.fromstring(timeline_svg(report))  # noqa: S314 - we wrote it


def bars(picture: ET.Element) -> dict[str, list[str]]:
    """The classes of the parts of each bar, by what it says of itself."""
    return {
        (group.findtext(f"{SVG}title") or ""): [path.get("class", "") for path in group.iter(f"{SVG}path")]
        for group in picture.iter(f"{SVG}g")
    }


def test_it_is_xml_that_says_what_it_shows() -> None:
    """A title, a description with both sentences, and a role for who cannot see it."""
    report = cold_and_lost()
    picture = parsed(report)
    assert picture.get("role") == "img"
    assert picture.get("aria-labelledby") == "pptitle ppdesc"
    assert report.verdict is not None
    assert picture.findtext(f"{SVG}title") == f"Run job: 9 requests in {report.run.makespan_s:.1f} s"  # type: ignore[union-attr]
    assert picture.findtext(f"{SVG}desc") == f"{report.verdict.limited_by} {report.verdict.change}"


def test_it_is_made_of_shapes_and_words_only() -> None:
    """No script, link, image, foreign content or event handler, whatever the names try."""
    for report in (cold_and_lost(), with_hostile_names(), many(50, 3, 2), Report(None, (), {})):
        for element in parsed(report).iter():
            assert element.tag.removeprefix(SVG) in SHOWN
            assert not [name for name in element.attrib if name.startswith("on") or "href" in name]


def test_a_hostile_name_is_text() -> None:
    """All of it that can be printed is there to read, and nothing else of it."""
    text = "".join(parsed(with_hostile_names()).itertext())
    assert "<script>alert('1')</script>" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_every_part_of_a_bar_has_a_class_a_pattern_and_a_word() -> None:
    """Loading, reading, writing and what led to nothing; the legend has them all."""
    report = cold_and_lost()
    found = bars(parsed(report))
    assert {kind for kinds in found.values() for kind in kinds} == {"ppl", "ppp", "ppd", "ppf", "ppq"}
    words = [element.text for element in parsed(report).iter(f"{SVG}text")]
    for meaning in ("waiting", "load", "prefill", "decode", "failed"):
        assert MEANINGS[meaning] in words
    patterns = {pattern.get("id") for pattern in parsed(report).iter(f"{SVG}pattern")}
    assert patterns == {"ppp", "ppl", "ppf"}


def test_a_bar_says_its_request_its_wave_and_its_seconds() -> None:
    """For a pointer that rests on it, and for a reader of screens."""
    report = pictured(nodes("ab"), [piece() for _ in range(5)])
    told = list(bars(parsed(report)))
    assert "r0, wave 1, waited 0.00 s, reads the prompt 0.40 s, writes the reply 2.50 s" in told
    assert sum(one.startswith("r") for one in told) == 5


def test_nothing_is_drawn_outside() -> None:
    """Every coordinate is in the picture."""
    for report in (cold_and_lost(), many(300, 16, 4)):
        picture = parsed(report)
        height = float(picture.get("height", "0"))
        for text in picture.iter(f"{SVG}text"):
            assert 0.0 <= float(text.get("x", "0")) <= WIDTH
            assert 0.0 < float(text.get("y", "0")) <= height
        for path in picture.iter(f"{SVG}path"):
            start = re.match(r"M(-?[\d.]+) (-?[\d.]+)", path.get("d", ""))
            if start and path.get("class") not in ("ppp", "ppl", "ppf"):
                assert 0.0 <= float(start[1]) <= WIDTH + 1.0
                assert 0.0 <= float(start[2]) <= height


def test_the_bound_is_a_named_line_where_it_belongs() -> None:
    """Between the start and the end of the scale, in proportion."""
    report = pictured(nodes("abc"), [*(piece() for _ in range(9)), piece(300)])
    picture = parsed(report)
    (line,) = (path for path in picture.iter(f"{SVG}path") if path.get("class") == "ppo")
    x = float(line.get("d", "M0")[1:].split(" ")[0])
    assert report.run is not None
    assert report.run.lower_bound_s is not None
    assert (x - 150.0) / (WIDTH - 164.0) == pytest.approx(
        report.run.lower_bound_s / report.run.makespan_s, abs=0.002
    )
    assert any(
        text.text == f"no schedule ends before {report.run.lower_bound_s:.1f} s"
        for text in picture.iter(f"{SVG}text")
    )


def test_two_thousand_bars_are_less_than_a_megabyte() -> None:
    """On sixteen nodes with four slots each, none is left out."""
    picture = timeline_svg(many(2000, 16, 4))
    assert len(picture.encode()) < 1_000_000
    assert picture.count("wave ") == 2000


def test_more_slots_than_a_page_has_rows_come_together() -> None:
    """Forty nodes of sixteen slots are forty rows that say so."""
    picture = parsed(many(1500, 40, 16))
    labels = [text.text or "" for text in picture.iter(f"{SVG}text")]
    assert sum(label.endswith(" x16") for label in labels) == 40


def test_a_part_of_a_page_has_no_style_of_its_own() -> None:
    """The page has it, and its policy allows one."""
    report = cold_and_lost()
    part = timeline_svg(report, is_part=True)
    assert "<style" not in part
    assert "style=" not in part
    assert "<style>" in timeline_svg(report)


def test_a_report_without_a_timeline_says_so() -> None:
    """It is still a picture."""
    old = msgspec.structs.replace(cold_and_lost(), timeline=None)
    for report in (Report(None, (), {}), old):
        assert "No timeline is known." in "".join(parsed(report).itertext())
