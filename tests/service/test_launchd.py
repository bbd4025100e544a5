"""The launch agent, against a stand-in for launchctl that runs the real daemon."""

import os
import plistlib
from collections.abc import Callable

import pytest

from pairproxy.core.errors import SetupError
from pairproxy.service.launchd import LABEL, Launchd
from pairproxy.service.wanted import Wanted, this_installation
from pairproxy.service.ways import start_installed
from tests.service.conftest import Mine
from tests.support.stand_in_services import calls


@pytest.fixture
def mac(mine: Callable[[str], Mine]) -> Mine:
    """A person of a Mac."""
    return mine("darwin")


@pytest.mark.slow
def test_it_is_installed_runs_and_leaves_nothing(mac: Mine) -> None:
    """The agent is loaded and serves, logs where macOS keeps logs, and is gone afterwards without a trace."""
    before = mac.files()
    state = mac.install()
    assert (state.is_installed, state.is_running, state.problem) == (True, True, None)
    assert state.home == str(mac.home)
    log = mac.person / "Library" / "Logs" / "pairproxy" / "pairproxy.log"
    assert "serves paced" in log.read_text()
    again = mac.install()  # an upgrade: another life, the same agent
    assert again.is_running
    assert again.pid != state.pid
    mac.uninstall()
    assert not mac.way.state().is_installed
    assert {one for one in mac.files() - before if not one.startswith("Library")} == set()
    assert not list((mac.person / "Library").rglob("*pairproxy*"))


def test_the_agent_is_what_launchd_reads(mac: Mine) -> None:
    """A property list with our mark: at log-in, again after a failure, not throttled."""
    assert isinstance(mac.way, Launchd)
    text = mac.way.plist(this_installation(mac.home, mac.runner))
    job = plistlib.loads(text.encode())
    assert job["Label"] == LABEL
    assert job["ProgramArguments"][1:6] == ["-P", "-m", "pairproxy", "up", "--home"]
    assert (job["RunAtLoad"], job["KeepAlive"], job["ProcessType"]) == (
        True,
        {"SuccessfulExit": False},
        "Interactive",
    )
    assert "pairproxy service install" in text


@pytest.mark.slow
def test_one_that_does_not_start_is_taken_back(mac: Mine) -> None:
    """Settings that the daemon refuses: its words are told, and nothing is left."""
    (mac.home / "config.toml").write_text('[admin]\nlisten = "192.0.2.1:1"\n')
    before = mac.files()
    with pytest.raises(
        SetupError, match=r"does not start, so everything is as it was\. It said: .*admin.listen"
    ):
        mac.install()
    assert not {one for one in mac.files() - before if "LaunchAgents" in one}
    assert not mac.way.state().is_installed


def test_without_a_session_it_says_where_to_run_it(mac: Mine) -> None:
    """Over ssh there is no launchd of a session."""
    (mac.stand_ins / "no session").touch()
    with pytest.raises(SetupError, match="Log in at the Mac's own screen"):
        mac.install()
    assert [call.split()[1] for call in calls(mac.stand_ins)] == ["print"]


@pytest.mark.slow
def test_one_that_was_not_loaded_says_so(mac: Mine) -> None:
    """The file is there, and launchd does not know it."""
    mac.install()
    mac.runner.do(["launchctl", "bootout", f"gui/{os.getuid()}/{LABEL}"])
    state = mac.way.state()
    assert not state.is_running
    assert "not loaded" in (state.problem or "")
    assert not start_installed(mac.person / "another home", mac.runner, "darwin")
    assert start_installed(mac.home, mac.runner, "darwin")
    assert mac.way.state().is_running
    assert not start_installed(mac.home, mac.runner, "darwin")  # it runs


def test_a_home_that_no_comment_can_hold_is_refused(mac: Mine) -> None:
    """Two dashes end a comment."""
    assert isinstance(mac.way, Launchd)
    with pytest.raises(SetupError, match="plain name"):
        mac.way.plist(Wanted(("python",), mac.person / "a--b", "ann"))


def test_lingering_is_not_known_there(mac: Mine) -> None:
    """It is Linux's."""
    with pytest.raises(SetupError, match="for Linux"):
        mac.way.install(this_installation(mac.home, mac.runner), lingers_too=True)
