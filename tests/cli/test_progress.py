import io
import sys

import pytest

from pairproxy.cli.progress import fetch_progress


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_elsewhere_than_on_a_terminal_it_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    """In a log or a pipe no bar appears."""
    with fetch_progress() as show:
        show(1, 2)
        show(2, 2)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_it_draws_a_bar_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar says what is fetched and how much; afterwards the cursor is visible again."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with fetch_progress() as show:
        show(10_000_000, 40_000_000)
    drawn = terminal.getvalue()
    assert "fetching the model" in drawn
    assert "10.0/40.0 MB" in drawn
    assert drawn.rfind("\x1b[?25h") > drawn.rfind("\x1b[?25l")


def test_what_is_there_already_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was fetched before is reported as complete at once, and no bar flashes up."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with fetch_progress() as show:
        show(40_000_000, 40_000_000)
    assert "fetching" not in terminal.getvalue()
