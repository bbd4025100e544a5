"""Takeover on a real systemd: a unit of the system through sudo, a unit of the person's own, an update."""

import json
import sys

import pytest

from tests.service.test_systemd import TREES, Person
from tests.support.daemons import until
from tests.support.systemd_lab import ROOT, SystemdLab

pytestmark = pytest.mark.slow

USUAL, MOVED = 11434, 11534  # of the lab's own network
CONFIG = '[peers]\nlisten = "127.0.0.1:0"\ndiscovery = false\n'
ENGINE = f"""\
[Unit]
Description=Ollama Service

[Service]
ExecStart=/usr/local/bin/ollama -m tests.support.ollama_process serve
Environment="PYTHONPATH={ROOT}"
Restart=always
RestartSec=3
{{user}}
[Install]
WantedBy=default.target
"""
ASK = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=5)
connection.request("GET", sys.argv[2])
print(connection.getresponse().read().decode())
"""


class Machine:
    """The lab with an Ollama, and somebody who has pairproxy installed as a service of her own."""

    def __init__(self, lab: SystemdLab, *, is_user: bool) -> None:
        self.lab, self.is_user, self.person = lab, is_user, Person(lab)
        lab.run("ln", "-s", sys.executable, "/usr/local/bin/ollama")
        self.unit = (
            f"{lab.home}/.config/systemd/user/ollama.service"
            if is_user
            else "/etc/systemd/system/ollama.service"
        )
        self.write_unit()
        if not is_user:
            self.person.has_sudo()
        self.control("daemon-reload")
        self.control("start", "ollama")
        lab.write(self.person.home / "config.toml", CONFIG, user=lab.person)

    def write_unit(self) -> None:
        """As the installer does, at first and with every update."""
        text = ENGINE.format(user="" if self.is_user else "User=nobody\n")
        self.lab.write(self.unit, text, user=self.lab.person if self.is_user else None)

    def control(self, *words: str) -> None:
        if self.is_user:
            self.person.systemctl(*words)
        else:
            self.lab.run("systemctl", *words)

    def ask(self, port: int, path: str) -> str:
        """The body of an answer; "" if nobody answers."""
        return self.lab.run(sys.executable, "-c", ASK, str(port), path, check=False).stdout.strip()

    def until_at(self, port: int) -> None:
        until(lambda: self.ask(port, "/") == "Ollama is running", f"an answer at port {port}")


@pytest.fixture(params=[False, True], ids=["system", "user"])
def machine(request: pytest.FixtureRequest, systemd_lab: SystemdLab) -> Machine:
    """Its Ollama answers."""
    made = Machine(systemd_lab, is_user=request.param)
    made.until_at(USUAL)
    return made


def test_taken_over_updated_and_released(machine: Machine) -> None:
    """What is left is what was; in between the tools of port 11434 ask pairproxy."""
    lab, person = machine.lab, machine.person
    person.pairproxy("service", "install", "--yes")
    before = lab.tree(*TREES)
    planned = person.pairproxy("takeover", "--dry-run").stdout
    assert f"{machine.unit}.d" in planned.replace("\n", "")
    assert ("sudo systemctl restart ollama.service" in planned) is not machine.is_user
    assert lab.tree(*TREES) == before

    done = person.pairproxy("takeover", "--yes", "--json")
    (moved,) = [one for one in json.loads(done.stdout)["moved"] if one["kind"] == "ollama"]
    assert moved["problem"] is None
    told = f"the port had nobody for {moved['gap_s']:.2f} s\n{done.stderr}"
    assert machine.ask(MOVED, "/") == "Ollama is running", told
    assert "fake:1b" in machine.ask(USUAL, "/api/tags"), told
    status = json.loads(person.pairproxy("status", "--json").stdout)
    assert {port["port"]: port["state"] for port in status["ports"]}[USUAL] == "open"

    machine.write_unit()
    machine.control("daemon-reload")
    machine.control("restart", "ollama")
    machine.until_at(MOVED)
    person.systemctl("restart", "pairproxy")
    until(lambda: "fake:1b" in machine.ask(USUAL, "/api/tags"), "the daemon answers again")
    assert "taken over already" in person.pairproxy("takeover").stdout

    person.pairproxy("release", "--yes")
    assert machine.ask(USUAL, "/") == "Ollama is running"
    assert machine.ask(MOVED, "/") == ""
    assert lab.tree(*TREES) - before <= {f"{person.home}/takeover.lock"}
    assert before <= lab.tree(*TREES)


def test_released_with_the_service_gone(machine: Machine) -> None:
    """Ended first, in the wrong order; before, a takeover starts a service that does not run."""
    person = machine.person
    person.pairproxy("service", "install", "--yes")
    person.systemctl("stop", "pairproxy")
    assert "it is started" in person.pairproxy("takeover", "--yes").stderr
    assert "fake:1b" in machine.ask(USUAL, "/api/tags")
    person.systemctl("stop", "pairproxy")
    assert machine.ask(USUAL, "/") == ""
    person.pairproxy("release", "--yes")
    assert machine.ask(USUAL, "/") == "Ollama is running"


def test_a_drop_in_that_an_update_removed_is_noticed(machine: Machine) -> None:
    """The engine is back on its port: said, and mended where no root is needed; else by the command."""
    person = machine.person
    person.pairproxy("service", "install", "--yes")
    person.pairproxy("takeover", "--yes")
    machine.lab.run("rm", "-r", f"{machine.unit}.d")
    machine.control("daemon-reload")
    machine.control("restart", "ollama")

    def said() -> str:
        return machine.lab.journal("pairproxy", is_user=True)

    until(lambda: f"Ollama is back on port {USUAL}" in said(), "the daemon says so", 60.0)
    if not machine.is_user:
        assert "Run `pairproxy takeover` to move it again" in said()
        person.pairproxy("takeover", "--yes")
    machine.until_at(MOVED)
    until(lambda: "fake:1b" in machine.ask(USUAL, "/api/tags"), "the daemon has the port again")
    person.pairproxy("release", "--yes")
    assert machine.ask(MOVED, "/") == ""
