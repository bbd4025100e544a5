"""The service on a real systemd: installed, restarted and killed under load, upgraded, removed."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, CompletedProcess

import pytest

from tests.support.daemons import settings, until
from tests.support.systemd_lab import ROOT, SystemdLab

pytestmark = pytest.mark.slow

PORT = 11434  # of the lab's own network
UNIT = "pairproxy"
HOME = ".local/share/pairproxy"
USER_UNIT = ".config/systemd/user/pairproxy.service"
TREES = ("/etc", "/home", "/var/lib", "/usr/lib/systemd")


class Person:
    """Somebody at the lab's machine, with a paced engine in her settings."""

    def __init__(self, lab: SystemdLab) -> None:
        self.lab = lab
        self.home = lab.home / HOME
        text = settings(paced={"decode": 500.0}).replace(
            'listen = "127.0.0.1:0"\nslots', f'listen = "127.0.0.1:{PORT}"\nslots'
        )
        lab.write(self.home / "config.toml", text, user=lab.person)
        lab.run("chmod", "700", self.home)

    def pairproxy(self, *arguments: str, check: bool = True, **environment: str) -> "CompletedProcess[str]":
        """Run a command of pairproxy as her."""
        command = [sys.executable, "-P", "-m", "pairproxy", *arguments]
        given = {"NO_COLOR": "1", "COLUMNS": "100"} | environment
        return self.lab.run(*command, user=self.lab.person, environment=given, check=check)

    def systemctl(self, *words: str, check: bool = True) -> str:
        """Ask her own manager."""
        return self.lab.run("systemctl", "--user", *words, user=self.lab.person, check=check).stdout

    def status(self) -> dict[str, object]:
        """What `service status --json` tells of the one service."""
        said = json.loads(self.pairproxy("service", "status", "--json", check=False).stdout)
        (only,) = said["services"]
        assert isinstance(only, dict)
        return only


@pytest.fixture
def person(systemd_lab: SystemdLab) -> Person:
    """Somebody who has set pairproxy up."""
    return Person(systemd_lab)


@contextmanager
def hammered(lab: SystemdLab) -> Iterator[dict[str, float]]:
    """Clients come all the time inside of the block; the counts are there after it."""
    stop = lab.shared / "stop"
    counts: dict[str, float] = {}
    environment = {"PYTHONPATH": str(ROOT)}
    process = lab.popen(
        sys.executable, "-m", "tests.support.hammering", str(PORT), stop, environment=environment, stdout=PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        try:
            time.sleep(0.3)  # some come and go before anything happens
            yield counts
            time.sleep(0.3)
        finally:
            stop.touch()
        counts |= json.loads(process.stdout.read())
    stop.unlink()


def refused(lab: SystemdLab, port: int = PORT) -> bool:
    """Whether nobody listens on a port inside."""
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5).close()"
    done = lab.run(sys.executable, "-c", code, check=False)
    return "ConnectionRefusedError" in done.stderr


def test_a_service_of_ones_own_refuses_nobody(person: Person) -> None:
    """Restart, kill -9 and an installation over it: whoever comes waits a moment and is answered. F37."""
    lab = person.lab
    before = lab.tree(*TREES)
    said = person.pairproxy("service", "install", "--yes").stdout
    assert "The service runs, and starts when you log in." in said
    told = person.status()
    assert (told["is_running"], told["is_enabled"], told["manager"]) == (True, True, "systemd-user")
    assert f"paced on 127.0.0.1:{PORT}" in str(told["says"])
    with hammered(lab) as counts:
        person.systemctl("restart", UNIT)
    assert (counts["refused"], counts["broken"], counts["other"]) == (0, 0, 0), counts
    assert counts["whole"] > 20
    pid = person.status()["pid"]
    with hammered(lab) as counts:
        person.systemctl("kill", "--signal=KILL", UNIT)
        until(lambda: (now := person.status())["is_running"] and now["pid"] != pid, "it is back")
    assert (counts["refused"], counts["other"]) == (0, 0), counts
    assert counts["broken"] <= 4 * 2  # one for each client: what was under way is lost, and nothing else
    assert person.status()["restarts"] == 1
    with hammered(lab) as counts:
        person.pairproxy("service", "install", "--yes")
    assert (counts["refused"], counts["broken"], counts["other"]) == (0, 0, 0), counts
    person.systemctl("stop", UNIT)
    assert refused(lab)
    person.pairproxy("service", "uninstall", "--yes")
    left = {one for one in lab.tree(*TREES) - before if not one.startswith(f"{person.home}/")}
    assert not left
    assert refused(lab)
