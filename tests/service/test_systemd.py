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
SUDO = """\
#!/usr/local/lib/suid-python -I
import os, sys
os.setgid(0)
os.setuid(0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
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

    def has_sudo(self) -> None:
        """Give her the right to be root: by a stand-in that asks nothing."""
        self.lab.run("install", "--mode=4755", "/usr/bin/python3", "/usr/local/lib/suid-python")
        self.lab.write("/usr/local/bin/sudo", SUDO, 0o755)

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


def test_a_service_of_the_system_has_walls(person: Person) -> None:
    """Installed by a person through sudo, it runs as she, writes to her home only, and refuses nobody."""
    lab = person.lab
    person.has_sudo()
    before = lab.tree(*TREES)
    said = person.pairproxy("service", "install", "--system", "--yes").stdout
    assert "starts when the machine starts" in said
    told = lab.properties(UNIT, "User", "ProtectSystem", "CapabilityBoundingSet", "MainPID")
    assert (told["User"], told["ProtectSystem"], told["CapabilityBoundingSet"]) == (lab.person, "strict", "")
    with hammered(lab) as counts:
        lab.run("systemctl", "restart", UNIT)
    assert (counts["refused"], counts["broken"], counts["other"]) == (0, 0, 0), counts
    seen = ["nsenter", f"--target={lab.properties(UNIT, 'MainPID')['MainPID']}", "--mount", "touch"]
    lab.run(*seen, person.home / "x")
    assert "Read-only file system" in lab.run(*seen, lab.home / "x", check=False).stderr
    assert f"paced on 127.0.0.1:{PORT}" in lab.journal(UNIT)
    exposure = lab.run("systemd-analyze", "security", UNIT, "--no-pager").stdout.splitlines()[-1]
    assert float(exposure.split(": ")[1].split()[0]) < 3.0, exposure
    person.pairproxy("service", "uninstall", "--yes")
    assert not {one for one in lab.tree(*TREES) - before if not one.startswith(f"{person.home}/")}


def test_lingering_goes_as_it_came(person: Person) -> None:
    """Asked for, it lets the service start with the machine; the removal switches it off again."""
    lab = person.lab
    person.has_sudo()
    assert "starts when you log in" in person.pairproxy("service", "install", "--yes").stdout
    assert (
        "starts when the machine starts" in person.pairproxy("service", "install", "--yes", "--linger").stdout
    )
    assert "Linger=yes" in lab.run("loginctl", "show-user", lab.person, "--property=Linger").stdout
    person.pairproxy("service", "uninstall", "--yes")
    assert not (lab.root / "var/lib/systemd/linger" / lab.person).exists()


def test_one_that_does_not_start_leaves_nothing(person: Person) -> None:
    """Its port is taken: the sentence says by whom, and neither file nor unit is left."""
    lab = person.lab
    before = lab.tree("/etc", str(lab.home / ".config"))
    code = (
        "import socket as s, time; a = s.create_server(('127.0.0.1', {})); print(flush=True); time.sleep(9)"
    )
    with lab.popen(sys.executable, "-c", code.format(PORT), stdout=PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        done = person.pairproxy("service", "install", "--yes", check=False)
        holder.kill()
    assert done.returncode == 1
    assert f"does not start, so everything is as it was. It said: Port {PORT} is taken" in done.stderr
    assert lab.tree("/etc", str(lab.home / ".config")) == before
    assert "not-found" in person.systemctl("show", UNIT, "--property=LoadState")


def test_one_that_fails_later_says_why_and_comes_back(person: Person) -> None:
    """A fault in the settings: the status has the daemon's sentence; mended, it runs."""
    lab = person.lab
    person.pairproxy("service", "install", "--yes")
    good = (lab.root / str(person.home / "config.toml").lstrip("/")).read_text()
    lab.write(person.home / "config.toml", "[node]\nnme = 1\n", user=lab.person)
    assert person.pairproxy("reload", check=False).returncode == 1
    person.systemctl("restart", "--no-block", UNIT)
    until(lambda: "Did you mean node.name?" in str(person.status()["problem"]), "the status says why")
    assert person.pairproxy("service", "status", check=False).returncode == 3
    lab.write(person.home / "config.toml", good, user=lab.person)
    until(lambda: person.status()["is_running"], "it runs again")


def test_what_is_left_of_an_uninstalled_one_gives_up(person: Person) -> None:
    """The program is gone: systemd stops trying within seconds, and installing again mends it."""
    lab = person.lab
    person.pairproxy("service", "install", "--yes")
    unit = (lab.root / str(lab.home / USER_UNIT).lstrip("/")).read_text()
    lab.write(lab.home / USER_UNIT, unit.replace("-m pairproxy", "-m no_such_module"), user=lab.person)
    person.systemctl("daemon-reload")
    person.systemctl("restart", "--no-block", UNIT)
    until(lambda: str(person.status()["state"]).startswith("failed"), "it gave up")
    assert "Its log says why" in str(person.status()["problem"])
    person.pairproxy("service", "install", "--yes")
    assert person.status()["is_running"]


def test_a_hung_daemon_is_started_again(person: Person) -> None:
    """The loop gives no sign of life: systemd ends it and starts another one; the port stays."""
    lab = person.lab
    person.pairproxy("service", "install", "--yes")
    drop_in = lab.home / f"{USER_UNIT}.d" / "hung.conf"
    lab.write(drop_in, "[Service]\nWatchdogSec=1\n", user=lab.person)
    person.systemctl("daemon-reload")
    person.systemctl("restart", UNIT)
    pid = person.status()["pid"]
    person.systemctl("kill", "--signal=STOP", UNIT)
    until(
        lambda: (now := person.status())["is_running"] and now["pid"] not in (pid, None), "another one runs"
    )
    assert "Watchdog timeout" in lab.journal(UNIT, is_user=True)
    assert not refused(lab)


def test_the_wrong_uses_say_what_to_do(person: Person) -> None:
    """No session, sudo, somebody else's unit, a daemon in a terminal, another kind of service."""
    lab, unit = person.lab, person.lab.home / USER_UNIT

    def said(*arguments: str, **environment: str) -> str:
        done = person.pairproxy("service", *arguments, check=False, **environment)
        assert done.returncode == 1, done.stdout
        return done.stderr

    assert "loginctl enable-linger ann" in said("install", "--yes", XDG_RUNTIME_DIR="/nowhere")
    assert "Run it again with --yes" in said("install")
    assert "No service is installed here" in said("uninstall", "--yes")
    lab.write(unit, "[Service]\nExecStart=/bin/true\n", user=lab.person)
    assert "was not written by pairproxy, so it is left alone" in said("install", "--yes")
    assert (lab.root / str(unit).lstrip("/")).read_text() == "[Service]\nExecStart=/bin/true\n"
    lab.run("rm", unit)
    command = [sys.executable, "-P", "-m", "pairproxy", "up"]
    with lab.popen(*command, user=lab.person, stderr=PIPE) as daemon:
        assert daemon.stderr is not None
        daemon.stderr.readline()
        assert "runs with the home" in said("install", "--yes")
        daemon.kill()
    lab.run("chmod", "755", person.home)
    assert "Run: chmod 700" in said("install", "--yes")
