"""What doctor says of the service, on a real systemd: healthy, disabled, stopped; and its log in a bundle."""

import json

import pytest

from tests.service.test_systemd import Person
from tests.support.systemd_lab import SystemdLab

pytestmark = pytest.mark.slow


def found(person: Person, *flags: str) -> list[str]:
    """The kinds of what doctor finds as her."""
    said = person.pairproxy("doctor", "--json", *flags, check=False)
    return [one["id"] for one in json.loads(said.stdout)["findings"]]


def test_a_service_that_is_well_disabled_stopped_and_of_another_home(systemd_lab: SystemdLab) -> None:
    """Silent, a warning, a problem, and a note for who asks with the wrong home."""
    person = Person(systemd_lab)
    assert found(person) == ["no-daemon"]
    person.pairproxy("service", "install", "--yes")
    assert found(person) == []
    systemd_lab.run("journalctl", "--sync")
    systemd_lab.run("chmod", "-R", "a+rX", "/run/log/journal")  # as people may who are in the group for it
    bundle = person.home / "report.zip"
    person.pairproxy("doctor", "--bundle", str(bundle))
    listing = "import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).read('log.txt').decode())"
    log = systemd_lab.run("/usr/bin/python3", "-c", listing, bundle).stdout
    assert "serves" in log
    assert systemd_lab.person not in log
    other = str(person.home.parent / "other")
    assert found(person, "--home", other) == ["other-home"]
    person.systemctl("disable", "pairproxy")
    assert found(person) == ["service-not-enabled"]
    person.systemctl("stop", "pairproxy")
    assert found(person) == ["service-stopped"]
