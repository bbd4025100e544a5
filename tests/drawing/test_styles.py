import re

from pairproxy.drawing.palette import DARK, LIGHT
from pairproxy.drawing.styles import page_css, picture_css


def test_both_schemes_are_there_and_nothing_is_fetched() -> None:
    """The dark colours stand behind the reader's wish; no url but of the picture's own patterns."""
    for css in (picture_css(), page_css()):
        light, dark = css.split("@media (prefers-color-scheme:dark)")
        assert LIGHT.ink in light
        assert DARK.ink in dark
        assert set(re.findall(r"url\(([^)]*)\)", css)) <= {"#ppp", "#ppl", "#ppf"}
        assert "@import" not in css
        assert css.count("{") == css.count("}")
        assert "<" not in css
