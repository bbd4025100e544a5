import os
import stat
from pathlib import Path

import pytest

from pairproxy.takeover import files
from pairproxy.takeover.files import FileState, FileTrouble
from pairproxy.takeover.running import Runner
from tests.support.stand_in_machine import StandInMachine


@pytest.fixture(params=["directly", "by sudo"])
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> Runner:
    """As root, and as a person with sudo."""
    machine = StandInMachine(tmp_path / "machine")
    return Runner(machine.environment(), as_root=request.param == "directly")


def here(path: Path) -> tuple[bytes, int]:
    """Content and mode."""
    return path.read_bytes(), stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_put_and_taken_away(tmp_path: Path, runner: Runner) -> None:
    """With its content and mode, and nothing beside it."""
    path, state = tmp_path / "new.conf", FileState(b"a = 1\n", 0o640, os.getuid(), os.getgid())
    files.put(path, state, runner, needs_root=True)
    assert here(path) == (b"a = 1\n", 0o640)
    assert files.state_of(path, runner) == state
    files.remove(path, runner, needs_root=True)
    assert [one.name for one in tmp_path.iterdir()] == ["machine"]


def test_what_was_interrupted_is_swept(tmp_path: Path, runner: Runner) -> None:
    """A file that was written beside, and did not take its place."""
    left = tmp_path / ".x.conf.pairproxy-new"
    left.write_text("half")
    files.sweep(tmp_path / "x.conf", runner, needs_root=True)
    assert not left.exists()


def test_a_link_is_no_file_of_settings(tmp_path: Path, runner: Runner) -> None:
    """Who writes through it writes elsewhere."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileTrouble, match="not a plain file"):
        files.state_of(tmp_path / "link", runner)


def test_a_large_file_is_left_alone(tmp_path: Path, runner: Runner) -> None:
    """It would have to go into the record."""
    (tmp_path / "large").write_bytes(b"x" * (files.MOST_BYTES + 1))
    with pytest.raises(FileTrouble, match="too large"):
        files.state_of(tmp_path / "large", runner)


def test_directories_are_made_and_removed_when_empty(tmp_path: Path, runner: Runner) -> None:
    """Those that somebody else uses by now stay."""
    path = tmp_path / "a" / "b" / "c.conf"
    missing = files.missing_directories(path)
    assert missing == (str(tmp_path / "a"), str(tmp_path / "a" / "b"))
    for one in missing:
        files.make_directory(Path(one), runner, needs_root=True)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) & 0o022 == 0
    (tmp_path / "a" / "other").write_text("")
    assert files.remove_directory(tmp_path / "a" / "b", runner, needs_root=True)
    assert not files.remove_directory(tmp_path / "a", runner, needs_root=True)
    assert (tmp_path / "a" / "other").exists()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """And nothing is left of the try."""
    state = FileState(b"x", 0o600)
    with pytest.raises(FileTrouble, match="cannot be written"):
        files.put(tmp_path / "none" / "x", state, Runner(as_root=True), needs_root=True)
