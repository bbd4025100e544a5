"""The ways to be a service that this system knows, and which of them are in use."""

import os
import sys
from pathlib import Path
from typing import Protocol

from pairproxy.api.service import ManagerName, ServiceState
from pairproxy.core.errors import SetupError
from pairproxy.service.changes import perform
from pairproxy.service.launchd import Launchd
from pairproxy.service.plans import Plan
from pairproxy.service.systemd import Systemd
from pairproxy.service.wanted import Wanted
from pairproxy.service.windows import WindowsTask
from pairproxy.takeover.running import Runner


class Way(Protocol):
    """One of them. What it cannot do it says in a SetupError."""

    @property
    def name(self) -> ManagerName:
        """How JSON calls it."""

    def install(self, wanted: Wanted, *, lingers_too: bool = False) -> Plan:
        """What installing it changes; also in place of one of ours that is there."""

    def uninstall(self) -> Plan:
        """What removing it changes."""

    def start(self, home: Path) -> Plan:
        """What starts one that is installed and does not run."""

    def state(self) -> ServiceState:
        """What the system tells of it now."""


def ways(runner: Runner, platform: str = sys.platform) -> tuple[Way, ...]:
    """The ways of this system; the first is the usual one."""
    if platform == "darwin":
        return (Launchd(runner),)
    if platform == "win32":
        return (WindowsTask(runner),)
    _find_session(runner)
    return Systemd(runner, is_system=False), Systemd(runner, is_system=True)


def wanted_way(runner: Runner, *, is_system: bool, platform: str = sys.platform) -> Way:
    """The one to install. Raises SetupError where the system has no services of that kind."""
    known = ways(runner, platform)
    if not is_system:
        return known[0]
    if len(known) == 1:
        raise SetupError("--system is for Linux. Here a service starts when you log in: leave --system away.")
    return known[1]


def installed(runner: Runner, platform: str = sys.platform) -> tuple[Way, ...]:
    """Those that are installed here by us."""
    return tuple(way for way in ways(runner, platform) if way.state().is_installed)


def states(runner: Runner, platform: str = sys.platform) -> tuple[ServiceState, ...]:
    """Those that are installed; and those that are not, if there is something to say of them."""
    told = (way.state() for way in ways(runner, platform))
    return tuple(one for one in told if one.is_installed or one.problem)


def start_installed(home: Path, runner: Runner, platform: str = sys.platform) -> bool:
    """Start the service of this home if it is installed and does not run; False if there is none.

    Raises SetupError if it does not start.
    """
    for way in ways(runner, platform):
        told = way.state()
        if told.is_installed and not told.is_running and told.home == os.path.abspath(home):  # noqa: PTH100
            perform(way.start(home).changes, runner)
            return True
    return False


def refuse_sudo(runner: Runner) -> None:
    """Raise SetupError for a command under sudo: home and service would be root's, not the person's."""
    who = runner.environment.get("SUDO_USER", "")
    if runner.is_root and who and who != "root":
        raise SetupError(
            "Run it without sudo: it asks for root itself where it needs it, so that the service stays yours."
        )


def _find_session(runner: Runner) -> None:
    """Let systemctl find the person's own manager also from a shell that knows none (ssh, cron)."""
    if not runner.environment.get("XDG_RUNTIME_DIR"):
        usual = Path(f"/run/user/{os.getuid()}")
        if usual.is_dir():
            runner.environment["XDG_RUNTIME_DIR"] = str(usual)
