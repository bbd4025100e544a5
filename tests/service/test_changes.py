"""Changes are made in order and shown before; one that fails takes back all that came before it."""

import os
from pathlib import Path

import pytest

from pairproxy.core.errors import SetupError
from pairproxy.service.changes import Change, Do, Remove, Wait, Write, perform
from pairproxy.takeover.running import Runner


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """One whose commands write down that they ran, or fail."""
    for name, text in {"note": f'echo "$*" >>{tmp_path}/notes', "no": "echo not today >&2; exit 1"}.items():
        script = tmp_path / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
    return Runner({"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}, as_root=False)


def notes(tmp_path: Path) -> list[str]:
    """What ran."""
    file = tmp_path / "notes"
    return file.read_text().splitlines() if file.exists() else []


def test_all_is_done_in_order(tmp_path: Path, runner: Runner) -> None:
    """Directories are made, files are written, commands run, what may fail may fail."""
    file = tmp_path / "a" / "b" / "unit"
    waited = []
    changes: list[Change] = [
        Write(file, "text\n"),
        Do(("note", "reload")),
        Do(("no",), may_fail=True),
        Wait("it serves", lambda: waited.append(file.read_text())),
    ]
    assert [one.line(runner) for one in changes] == [
        f"write {file}",
        "run: note reload",
        "run: no",
        "wait until it serves",
    ]
    perform(changes, runner)
    assert (waited, notes(tmp_path)) == (["text\n"], ["reload"])
    perform([Remove(file, most_directories=2)], runner)
    assert not (tmp_path / "a").exists()


def test_a_failure_takes_everything_back(tmp_path: Path, runner: Runner) -> None:
    """A new file and its directories go, an old one is what it was, commands are undone and told of."""
    old, new, gone = tmp_path / "old", tmp_path / "a" / "b" / "new", tmp_path / "gone"
    for one in (old, gone):
        one.write_text("as it was\n")
        one.chmod(0o600)
    with pytest.raises(SetupError, match="not today"):
        perform(
            [
                Write(old, "other\n"),
                Write(new, "new\n"),
                Remove(gone),
                Do(("note", "enable"), undo=("note", "disable")),
                Do(("no",)),
                Do(("note", "never")),
            ],
            runner,
            [Do(("note", "reload"))],
        )
    assert [one.read_text() for one in (old, gone)] == ["as it was\n"] * 2
    assert old.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "a").exists()
    assert notes(tmp_path) == ["enable", "disable", "reload"]


def test_what_came_to_nothing_takes_back_too(tmp_path: Path, runner: Runner) -> None:
    """A daemon that does not start is a failure like any other."""

    def fail() -> None:
        raise SetupError("it said no")

    with pytest.raises(SetupError, match="it said no"):
        perform([Write(tmp_path / "unit", "text\n"), Wait("it serves", fail)], runner)
    assert not (tmp_path / "unit").exists()


def test_a_directory_of_others_stays(tmp_path: Path, runner: Runner) -> None:
    """Only empty ones go, and no more of them than were made."""
    file = tmp_path / "a" / "b" / "unit"
    perform([Write(file, "text\n")], runner)
    (tmp_path / "a" / "other").touch()
    perform([Remove(file, most_directories=4)], runner)
    assert sorted(one.name for one in (tmp_path / "a").iterdir()) == ["other"]


def test_what_is_done_as_root_says_so(runner: Runner, tmp_path: Path) -> None:
    """A person sees which lines need sudo."""
    assert Write(Path("/etc/x"), "", needs_root=True).line(runner) == "write /etc/x (as root)"
    assert Remove(Path("/etc/x"), needs_root=True).line(runner) == "remove /etc/x (as root)"
    assert Do(("systemctl", "enable", "x"), needs_root=True).line(runner) == "run: sudo systemctl enable x"
