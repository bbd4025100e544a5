"""The service and ports that were taken over, on a real systemd."""

import pytest

from tests.doctor.test_on_systemd import found
from tests.service.test_systemd import TREES, UNIT
from tests.support.systemd_lab import SystemdLab
from tests.takeover.test_live_systemd import MOVED, USUAL, Machine

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("is_user", [False, True], ids=["system", "user"])
def test_uninstalling_puts_the_engine_back_first(systemd_lab: SystemdLab, is_user: bool) -> None:
    """Ollama answers at its usual port again, and neither the service nor the takeover left a file."""
    machine = Machine(systemd_lab, is_user=is_user)
    machine.until_at(USUAL)
    lab, person = machine.lab, machine.person
    before = lab.tree(*TREES)
    person.pairproxy("service", "install", "--yes")
    person.pairproxy("takeover", "--yes")
    assert machine.ask(MOVED, "/") == "Ollama is running"
    planned = person.pairproxy("service", "uninstall", "--dry-run").stdout
    assert "they are put back first" in planned
    assert "Nothing was changed." in planned
    assert machine.ask(MOVED, "/") == "Ollama is running"
    said = person.pairproxy("service", "uninstall", "--yes").stdout
    assert "Ollama is back on its port." in said
    assert machine.ask(USUAL, "/") == "Ollama is running"
    assert machine.ask(MOVED, "/") == ""
    assert not {one for one in lab.tree(*TREES) - before if not one.startswith(f"{person.home}/")}


def test_takeover_starts_a_service_that_was_stopped(systemd_lab: SystemdLab) -> None:
    """It is installed, so nobody has to be asked how pairproxy is to run."""
    machine = Machine(systemd_lab, is_user=True)
    machine.until_at(USUAL)
    person = machine.person
    person.pairproxy("service", "install", "--yes")
    person.systemctl("stop", UNIT)
    done = person.pairproxy("takeover", "--yes")
    assert "the service was installed and did not run: it is started" in done.stderr
    assert machine.ask(MOVED, "/") == "Ollama is running"
    assert person.status()["is_running"]


@pytest.mark.parametrize("is_user", [False, True], ids=["system", "user"])
def test_doctor_is_silent_where_all_is_set_up(systemd_lab: SystemdLab, is_user: bool) -> None:
    """Service, takeover, usual ports; after the release the engine has its port, which is told."""
    machine = Machine(systemd_lab, is_user=is_user)
    machine.until_at(USUAL)
    person = machine.person
    person.pairproxy("service", "install", "--yes")
    person.pairproxy("takeover", "--yes")
    assert found(person) == []
    person.pairproxy("release", "--yes")
    assert found(person) == ["port-held"]
