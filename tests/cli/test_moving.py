import io
from pathlib import Path

import pytest
from rich.console import Console

from pairproxy.api.commands import MovedPort, PlannedPort
from pairproxy.cli import moving
from pairproxy.core.errors import PairproxyError

PLANNED = PlannedPort(
    "ollama", 1, 2, "take", "Held.", None, ("write x:", "    [Service]\x1b[2J"), ("Exposed!",)
)


def said(*, columns: int = 60) -> tuple[Console, io.StringIO]:
    """A console and what it got."""
    text = io.StringIO()
    return Console(file=text, width=columns), text


def test_a_plan_is_shown_as_the_files_will_be() -> None:
    """Indented as they are, and without what moves a cursor."""
    out, text = said()
    moving.show_plan(out, [PLANNED])
    assert "      [Service]" in text.getvalue()
    assert "\x1b" not in text.getvalue()
    assert "Exposed!" in text.getvalue()


def test_what_came_of_it_is_one_sentence_each() -> None:
    """With the time in which nobody was there, and the reason of a failure."""
    out, text = said(columns=200)
    moved = [MovedPort("ollama", None, 1.234, ("A note.",)), MovedPort("lmstudio", "It failed.")]
    moving.tell_moved(out, moved, "was moved")
    assert text.getvalue().splitlines() == [
        "Ollama was moved. Nobody was on the port for 1.23 s.",
        "  A note.",
        "LM Studio: It failed.",
    ]


def test_nobody_to_ask_is_an_error_that_says_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a yes given before asks nobody."""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    moving.agreed([PLANNED], is_agreed=True, question="Do this?")
    with pytest.raises(PairproxyError, match="--yes"):
        moving.agreed([PLANNED], is_agreed=False, question="Do this?")


class _Person(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_a_no_changes_nothing_and_says_so(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The question fits into a line of 80 columns, with what is said of root above it."""
    monkeypatch.setattr("sys.stdin", _Person(answer))
    with pytest.raises(PairproxyError, match=r"^Nothing was changed\.$"):
        moving.ask("Do this, and put it back at the end?", needs_sudo=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Some of it is done as root, through sudo."
    assert lines[1].startswith("Do this, and put it back at the end? [y/N]:")
    monkeypatch.setattr("sys.stdin", _Person("y\n"))
    moving.ask("Do this?", needs_sudo=False)


def test_kinds_are_all_or_the_one() -> None:
    """As --kind says."""
    assert moving.kinds_of(None) == ("ollama", "lmstudio")
    assert moving.kinds_of(moving.Kind.OLLAMA) == ("ollama",)


def test_under_sudo_a_home_has_to_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Root's own home holds no record of the person's."""
    monkeypatch.setattr("os.geteuid", lambda: 0, raising=False)
    monkeypatch.setenv("SUDO_USER", "ann")
    moving.refuse_sudo(tmp_path)
    with pytest.raises(PairproxyError, match="without sudo"):
        moving.refuse_sudo(None)
    monkeypatch.delenv("SUDO_USER")
    moving.refuse_sudo(None)
