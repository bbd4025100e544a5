"""scripts/pictures as a person starts it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(
    Path(sys.prefix) != ROOT / ".venv", reason="scripts/pictures would install into .venv"
)


def pictures(*names: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    line = [sys.executable, "scripts/pictures", *names]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=55)


def test_a_picture_that_there_is_not_is_a_sentence() -> None:
    """That names those there are."""
    done = pictures("life")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("There is no picture life. There are: live")


def test_the_picture_of_the_live_view_fetches_nothing() -> None:
    """And shows what it is there for: slots, waves, speedup, what limits."""
    svg = (ROOT / "docs" / "pictures" / "live.svg").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"<> ]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in svg
    text = re.sub(r"<[^>]+>", "", svg).replace("&#160;", " ")
    for part in ("slots", "waves", "speedup", "provable bound", "running", "waiting", "would help"):
        assert part in text


def test_every_picture_is_shown_and_every_one_that_is_shown_is_there() -> None:
    """In README or docs: none is kept for nobody."""
    texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        name for text in texts for name in re.findall(r"pictures/([\w.-]+)", text.read_text(encoding="utf-8"))
    }
    assert shown == {path.name for path in (ROOT / "docs" / "pictures").iterdir()}
