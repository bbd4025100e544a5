"""Which service managers a system has, and which of them is meant."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pairproxy.core.errors import SetupError
from pairproxy.service.ways import installed, refuse_sudo, states, wanted_way, ways
from pairproxy.takeover.running import Runner
from tests.service.conftest import Mine


def test_each_system_has_its_own() -> None:
    """Linux has two; elsewhere there is one, of the person."""
    names = {one: [way.name for way in ways(Runner(), one)] for one in ("linux", "darwin", "win32")}
    assert names == {
        "linux": ["systemd-user", "systemd"],
        "darwin": ["launchd"],
        "win32": ["windows-task"],
    }
    assert wanted_way(Runner(), is_system=True, platform="linux").name == "systemd"
    with pytest.raises(SetupError, match="leave --system away"):
        wanted_way(Runner(), is_system=True, platform="darwin")


def test_nothing_is_installed_in_an_empty_home(tmp_path: Path) -> None:
    """Nor is there anything to say of it."""
    runner = Runner({"HOME": str(tmp_path), "PATH": str(tmp_path)})
    for platform in ("darwin", "win32"):
        assert (installed(runner, platform), states(runner, platform)) == ((), ())


def test_a_file_of_somebody_else_is_told(mine: Callable[[str], Mine]) -> None:
    """It is not installed by us, and a person should know that it is there."""
    mac = mine("darwin")
    agent = mac.person / "Library" / "LaunchAgents" / "pairproxy.daemon.plist"
    agent.parent.mkdir(parents=True)
    agent.write_text("<plist/>")
    (told,) = states(mac.runner, "darwin")
    assert (told.is_installed, "left alone" in (told.problem or "")) == (False, True)


def test_sudo_is_refused() -> None:
    """The service would be root's; root itself is not under sudo."""
    with pytest.raises(SetupError, match="without sudo"):
        refuse_sudo(Runner({"SUDO_USER": "ann"}, as_root=True))
    refuse_sudo(Runner({"SUDO_USER": "root"}, as_root=True))
    refuse_sudo(Runner({}, as_root=True))
    refuse_sudo(Runner({"SUDO_USER": "ann"}, as_root=False))


@pytest.mark.skipif(sys.platform != "linux", reason="sessions of systemd are Linux's")
def test_a_session_that_is_told_is_kept(tmp_path: Path) -> None:
    """Only who knows none is led to the usual one."""
    runner = Runner({"XDG_RUNTIME_DIR": str(tmp_path)})
    ways(runner, "linux")
    assert runner.environment["XDG_RUNTIME_DIR"] == str(tmp_path)
