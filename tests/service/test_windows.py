"""The scheduled task, against a stand-in for schtasks that runs the real daemon and speaks German."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pairproxy.core.errors import SetupError
from pairproxy.service.wanted import Wanted, this_installation
from pairproxy.service.windows import WindowsTask
from tests.service.conftest import Mine
from tests.support.stand_in_services import TASKS


@pytest.fixture
def windows(mine: Callable[[str], Mine]) -> Mine:
    """A person of Windows."""
    return mine("win32")


def task_of(mine: Mine, home: Path) -> ElementTree.Element:
    """The task for a home."""
    assert isinstance(mine.way, WindowsTask)
    text = mine.way.xml(Wanted((r"C:\Program Files\Python\python.exe", "-m", "pairproxy"), home, "ann"))
    return ElementTree.fromstring(text.partition("?>")[2])  # noqa: S314 our own


@pytest.mark.slow
def test_it_is_installed_runs_and_leaves_nothing(windows: Mine) -> None:
    """The task is registered and serves, logs to its file, and is gone afterwards without a trace."""
    before = windows.files()
    state = windows.install()
    assert (state.is_installed, state.is_enabled, state.is_running, state.problem) == (True, True, True, None)
    assert state.home == str(windows.home)
    assert "serves paced" in (windows.person / "AppData/pairproxy/Service/pairproxy.log").read_text()
    again = windows.install()
    assert again.is_running
    assert again.pid != state.pid
    windows.uninstall()
    assert not windows.way.state().is_installed
    assert windows.files() - before <= {"AppData", "AppData/pairproxy"}


def test_the_task_is_what_windows_reads(windows: Mine) -> None:
    """At log-on of this person, without an end, after failures, at usual priority, on batteries."""
    task = task_of(windows, Path("/home/a & b"))

    def said(name: str) -> str | None:
        return task.findtext(f".//{TASKS}{name}")

    assert said("Command") == r"C:\Program Files\Python\python.exe"
    assert '--home "/home/a & b"' in (said("Arguments") or "")
    assert said("UserId") == r"PC\ann"
    assert (said("ExecutionTimeLimit"), said("Interval"), said("Priority")) == ("PT0S", "PT1M", "5")
    assert (said("StopIfGoingOnBatteries"), said("RunLevel")) == ("false", "LeastPrivilege")


@pytest.mark.slow
def test_one_that_does_not_start_is_taken_back(windows: Mine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon ends at once: what was registered is deleted, and its file is gone."""
    monkeypatch.setattr("pairproxy.service.plans.START_S", 3.0)
    (windows.home / "config.toml").write_text('[admin]\nlisten = "192.0.2.1:1"\n')
    windows.install()  # Windows tells no failure: it is told as still starting
    assert not windows.way.state().is_running


@pytest.mark.slow
def test_one_that_windows_lost_says_so(windows: Mine) -> None:
    """The file is there, and the task is not."""
    windows.install()
    windows.runner.do(["schtasks", "/End", "/TN", "pairproxy"])
    windows.runner.do(["schtasks", "/Delete", "/TN", "pairproxy", "/F"])
    assert "does not know the task" in (windows.way.state().problem or "")


def test_a_home_that_no_comment_can_hold_is_refused(windows: Mine) -> None:
    """Two dashes end a comment."""
    with pytest.raises(SetupError, match="plain name"):
        task_of(windows, Path("/a--b"))


def test_lingering_is_not_known_there(windows: Mine) -> None:
    """It is Linux's."""
    with pytest.raises(SetupError, match="for Linux"):
        windows.way.install(this_installation(windows.home, windows.runner), lingers_too=True)
