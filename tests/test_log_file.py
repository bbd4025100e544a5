"""A log in a file stays within its size, keeps its older parts, and is nobody else's to read."""

import logging
import stat
import sys
from pathlib import Path

import pytest

from pairproxy import logs
from pairproxy.core.errors import SetupError
from pairproxy.log_file import KEPT, LogFile, older


def test_a_full_one_is_kept_for_a_while(tmp_path: Path) -> None:
    """Each part holds whole writes, the oldest goes, and nothing is written twice."""
    path = tmp_path / "logs" / "pairproxy.log"
    with LogFile(path, most_bytes=10) as log:
        for number in range(8):
            assert log.write(f"line{number}\n".encode()) == 6
    assert path.read_text() == "line7\n"
    assert [older(path, one).read_text() for one in range(1, KEPT + 1)] == ["line6\n", "line5\n"]
    assert sorted(one.name for one in path.parent.iterdir()) == [
        "pairproxy.log",
        "pairproxy.log.1",
        "pairproxy.log.2",
    ]
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_next_life_goes_on_in_it(tmp_path: Path) -> None:
    """A daemon that starts again appends, and counts what is there."""
    path = tmp_path / "pairproxy.log"
    with LogFile(path, most_bytes=10) as log:
        log.write(b"first\n")
    with LogFile(path, most_bytes=10) as log:
        log.write(b"second\n")
    assert (path.read_text(), older(path, 1).read_text()) == ("second\n", "first\n")


def test_one_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """A sentence, before anything is started."""
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match="cannot be written"):
        LogFile(tmp_path / "file" / "pairproxy.log")


def test_the_log_goes_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is logged stands in the file, and not on standard error."""
    path = tmp_path / "pairproxy.log"
    with logs.to_stderr("info", "text", LogFile(path)):
        logging.getLogger("pairproxy").info("hello")
    assert "hello" in path.read_text()
    assert capfd.readouterr().err == ""
