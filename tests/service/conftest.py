"""A person of a system that has no systemd: a home, and stand-ins for its service manager on PATH."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pairproxy.api.service import ServiceState
from pairproxy.service.changes import perform
from pairproxy.service.wanted import this_installation
from pairproxy.service.ways import Way, ways
from pairproxy.takeover.running import Runner
from tests.support import stand_in_services
from tests.support.daemons import settings


@dataclass
class Mine:
    """Her home, and how she installs."""

    person: Path  # her home directory
    stand_ins: Path
    runner: Runner
    way: Way

    @property
    def home(self) -> Path:
        """The home of pairproxy."""
        return self.person / "pairproxy"

    def install(self) -> ServiceState:
        """Carry out what installing needs."""
        plan = self.way.install(this_installation(self.home, self.runner))
        perform(plan.changes, self.runner, plan.undone)
        return self.way.state()

    def uninstall(self) -> None:
        """Carry out what removing needs."""
        perform(self.way.uninstall().changes, self.runner)

    def files(self) -> set[str]:
        """Every file and directory of hers, but for the home of pairproxy."""
        found = {str(one.relative_to(self.person)) for one in self.person.rglob("*")}
        return {one for one in found if not one.startswith("pairproxy/")}


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Callable[[str], Mine]]:
    """Makes one of a platform, with a paced engine in her settings; what she started is ended."""
    person, stand_ins = tmp_path / "person", tmp_path / "stand-ins"
    home = person / "pairproxy"
    home.mkdir(parents=True, mode=0o700)
    (home / "config.toml").write_text(settings(paced={"decode": 500.0}))

    def make(platform: str) -> Mine:
        path = stand_in_services.install(stand_ins, "launchctl", "schtasks")
        given = {
            "PATH": path,
            "HOME": str(person),
            "LOCALAPPDATA": str(person / "AppData"),
            "USERDOMAIN": "PC",
        }
        runner = Runner({**os.environ, **given})
        return Mine(person, stand_ins, runner, ways(runner, platform)[0])

    yield make
    stand_in_services.end(stand_ins)
