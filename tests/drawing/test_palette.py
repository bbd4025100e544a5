from dataclasses import asdict

import pytest

from pairproxy.drawing.palette import DARK, LIGHT, MEANINGS, Palette


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """From 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_shapes_stand_out_from_their_background(palette: Palette) -> None:
    """4.5 : 1 for text, 3 : 1 for shapes that mean something."""
    for text in (palette.ink, palette.muted, palette.bound):
        assert contrast(text, palette.background) >= 4.5, text
    for name in MEANINGS:
        assert contrast(asdict(palette)[name], palette.background) >= 3.0, name


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_with_a_meaning_is_one_of_its_own(palette: Palette) -> None:
    """No two that a legend names are the same."""
    colours = asdict(palette)
    assert len({colours[name] for name in MEANINGS}) == len(MEANINGS)
