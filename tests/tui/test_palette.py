import dataclasses
import sys

import pytest
from rich.cells import cell_len

from pairproxy.tui.palette import ASCII, BLOCKS, Palette, palette_for


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locale in the environment")
@pytest.mark.parametrize(
    ("environment", "palette"),
    [
        ({"LANG": "de_DE.UTF-8"}, BLOCKS),
        ({"LANG": "C", "LC_ALL": "en_US.utf8"}, BLOCKS),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, ASCII),
        ({"LANG": "en_US.ISO-8859-1"}, ASCII),
        ({"LANG": "C"}, ASCII),
        ({}, ASCII),
    ],
)
def test_without_a_unicode_locale_it_draws_in_ascii(environment: dict[str, str], palette: Palette) -> None:
    """The first of LC_ALL, LC_CTYPE and LANG that says something decides, whatever Python made of it."""
    assert palette_for("utf-8", environment) is palette


def test_an_output_that_is_not_unicode_gets_ascii() -> None:
    """Whatever the locale says."""
    assert palette_for("cp1252", {"LANG": "en_US.UTF-8"}) is ASCII


def test_every_mark_is_one_column_wide_and_no_two_of_a_row_look_alike() -> None:
    """So that a row of cells can be counted, also without colour."""
    for palette in (BLOCKS, ASCII):
        slots = (palette.writing, palette.reading, palette.others, palette.free, palette.withheld)
        assert len(set(slots)) == 5
        assert len({palette.done, palette.begun, palette.open}) == 3
        marks = [
            value
            for name, value in dataclasses.asdict(palette).items()
            if name not in ("ellipsis", "is_ascii")
        ]
        assert all(cell_len(mark) == len(mark) for mark in marks)
    assert all(str(value).isascii() for value in dataclasses.asdict(ASCII).values())
