import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from pairproxy.cli.printing import console, counted, say, show_table

ROWS = [("a node", "12"), ("b", "3")]


def shown(width: int) -> str:
    """Two rows on a console of this width."""
    out = Console(file=io.StringIO(), width=width)
    show_table(out, ("node", "requests"), ROWS, frozenset(("node",)))
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_a_table_that_fits_stands_in_columns() -> None:
    """Titles above, numbers to the right."""
    assert [line.rstrip() for line in shown(40).splitlines()] == [
        " node    requests",
        " a node        12",
        " b              3",
    ]


def test_one_that_does_not_fit_is_stacked() -> None:
    """A line for each cell, with its title."""
    assert shown(16).splitlines() == ["node: a node", "  requests: 12", "node: b", "  requests: 3"]


def said(text: str, width: int, hang: int = 2) -> list[str]:
    """A sentence on a console of this width."""
    out = Console(file=io.StringIO(), width=width)
    say(out, text, hang=hang)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


def test_a_command_can_be_copied_from_one_line() -> None:
    """It is not broken apart where it fits; lines after the first hang, under the indent of the first."""
    told = "it was slow (see `pairproxy explain 3f2a`), and"
    assert said(told, 34) == ["it was slow (see", "  `pairproxy explain 3f2a`), and"]
    assert said("1  wide  words here", 20, hang=3) == ["1  wide  words here"]
    assert said("  fix:   do it now again", 20, hang=3) == ["  fix:   do it now", "     again"]


@pytest.mark.parametrize("width", [20, 40, 79])
def test_nothing_is_lost_or_wider_than_the_console(width: int) -> None:
    """Of a sentence with a command, a word and a wide name that are longer than a line."""
    told = f"Run `pairproxy {'x' * 100} --to there` on {'界' * 60}, please."
    lines = said(told, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(told.split())


@pytest.mark.parametrize(("count", "said"), [(0, "0 slots"), (1, "1 slot"), (2, "2 slots")])
def test_one_is_one(count: int, said: str) -> None:
    """Only one is singular."""
    assert counted(count, "slot") == said


def test_no_color_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over FORCE_COLOR, on both streams; empty it counts as not set."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert console().color_system is console(to_stderr=True).color_system is None
    monkeypatch.setenv("NO_COLOR", "")
    assert console().color_system is not None
