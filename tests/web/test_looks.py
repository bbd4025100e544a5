"""The colours and the words of the page: readable, and those of all other faces."""

import re

import pytest

from pairproxy.cli import explain
from pairproxy.core.accounting.losses import IN_WORDS
from pairproxy.drawing.palette import DARK, LIGHT, MEANINGS
from pairproxy.tui.nodes import FOUND_BY
from pairproxy.web.serving import read_page
from tests.drawing.test_palette import contrast

COLOUR = re.compile(r"--([a-z]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")
CSS = read_page()["/page/page.css"].decode()


def palettes() -> dict[str, dict[str, str]]:
    """The colours of the style sheet, by day and by night."""
    found = COLOUR.findall(CSS)
    return {"light": {name: day for name, day, _ in found}, "dark": {name: night for name, _, night in found}}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_pictures_can_be_read(theme: str) -> None:
    """Text has a contrast of 4.5 with what is behind it (WCAG AA), what is drawn one of 3."""
    colours = palettes()[theme]
    for behind in ("back", "panel"):
        for text in ("text", "muted", "link", "good", "bad"):
            assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)
    for drawn in ("waiting", "load", "prefill", "decode", "failed", "bound"):
        assert contrast(colours[drawn], colours["back"]) >= 3, drawn
    assert contrast(colours["back"], colours["bad"]) >= 4.5  # the line that says that no daemon answers
    assert contrast(colours["back"], colours["decode"]) >= 4.5  # numbers on bars


def test_the_colours_are_those_of_all_pictures() -> None:
    """What waits, reads and writes has the same colour here as in the pictures of `pairproxy report`."""
    for theme, palette in (("light", LIGHT), ("dark", DARK)):
        colours = palettes()[theme]
        for name in ("waiting", "load", "prefill", "decode", "failed", "bound", "muted"):
            assert colours[name] == getattr(palette, name), (theme, name)
        assert (colours["back"], colours["text"]) == (palette.background, palette.ink)


def spoken(script: str, name: str) -> dict[str, str]:
    """A table of words in a file of the page."""
    text = read_page()[f"/page/{script}.js"].decode()
    (body,) = re.findall(rf"const {name} = \{{(.*?)\}};", text, flags=re.DOTALL)
    return dict(re.findall(r"(\w+): \"([^\"]*)\"", body))


def test_the_words_are_those_of_all_faces() -> None:
    """What a bar shows, where time went, what a price means and how a peer was found: one wording."""
    assert spoken("timeline", "WORDS") == {kind: words for kind, words in MEANINGS.items() if kind != "bound"}
    assert spoken("runs", "LOSSES") == IN_WORDS
    assert spoken("request", "MEANINGS") == explain.MEANINGS
    assert {found: f"via {by}" for found, by in spoken("pairing", "FOUND_BY").items()} == FOUND_BY
