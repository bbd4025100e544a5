from pathlib import Path

import pytest

from pairproxy.cli.bench.overhead.document import Document
from pairproxy.cli.bench.overhead.pages import (
    BEGIN,
    END,
    PAGE,
    README,
    NoMarks,
    details,
    placed,
    summary,
    write,
)

ROOT = Path(__file__).parents[4]


def test_a_summary_has_a_line_for_each_target(document: Document) -> None:
    """Below its titles."""
    assert (
        summary(document)
        .splitlines()[2]
        .startswith("| nginx | 0.10 ms | 10,000 | 1.00 s | 0.10 ms | 20 MB |")
    )
    told = "Medians of 3 rounds of 2 s; 2 cores, a fast one, load 0.1 when it began."
    assert summary(document).splitlines()[5:] == ["", told]


def test_a_summary_says_of_which_build_of_python_it_is(document: Document) -> None:
    """Where that is known, for it is worth a quarter."""
    document.facts.update(python="3.13.1", python_build="optimised")
    assert "of 2 s; Python 3.13.1 (optimised), 2 cores, a fast one" in summary(document)


def test_details_are_all_tables(document: Document) -> None:
    """Each row has as many cells as its table has columns."""
    text = details(document)
    assert "**paced-512**" in text
    widths = [line.count("|") for line in text.splitlines() if line.startswith("|")]
    assert set(widths) == {7, 6, 12}


def test_only_what_stands_between_the_marks_is_written(document: Document, tmp_path: Path) -> None:
    """Again and again the same."""
    (tmp_path / "docs").mkdir()
    for name in (README, PAGE):
        (tmp_path / name).write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(document, tmp_path)
    first = (tmp_path / README).read_text()
    assert first.startswith("before\n")
    assert first.endswith(f"{END}\nafter\n")
    assert "old" not in first
    write(document, tmp_path)
    assert (tmp_path / README).read_text() == first


def test_a_page_without_marks_is_told() -> None:
    """Nothing is guessed."""
    with pytest.raises(NoMarks, match="x has no lines"):
        placed("text", "figures", "x")


@pytest.mark.parametrize("name", [README, PAGE])
def test_our_pages_have_the_marks(name: str) -> None:
    """Once each."""
    page = (ROOT / name).read_text()
    assert (page.count(BEGIN), page.count(END)) == (1, 1)
