"""Faults planted one by one on a real set-up: doctor finds exactly that one, and none on a healthy one."""

import re
from pathlib import Path

import pytest

from tests.lan.test_doctor import ON_A_LAN
from tests.support.doctored import ROOT, SetUp
from tests.support.planted import RUNNING
from tests.support.planted_anew import ENDING


def test_it_is_silent_on_a_healthy_set_up(tmp_path: Path) -> None:
    """Two daemons, two engines: nothing to mend, everything looked at but what this system does not show."""
    with SetUp(tmp_path) as rig:
        rig.start()
        found = rig.examined()
    assert (found.findings, found.is_ok, found.has_daemon) == ((), True, True)
    assert {one.what for one in found.not_looked_at} <= {"firewall", "descriptors"}
    assert len(found.looked_at) >= 20


@pytest.mark.slow
def test_each_fault_is_found_and_nothing_else(tmp_path: Path) -> None:
    """Planted on one running set-up, one after another, and taken away: then it is silent again."""
    with SetUp(tmp_path) as rig:
        rig.start()
        for what, (finding, plant) in RUNNING.items():
            with plant(rig) as found:
                assert [one.id for one in found.findings] == [finding], what
                assert found.findings[0].mend or finding == "peers-unreadable"
        assert rig.examined().findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("what", ENDING)
def test_what_cannot_be_undone_is_found(tmp_path: Path, what: str) -> None:
    """Each on a set-up of its own: that finding, and nothing else."""
    finding, plant = ENDING[what]
    with SetUp(tmp_path) as rig, plant(rig) as found:
        assert [one.id for one in found.findings] == [finding], what


def test_what_is_planted_and_what_can_be_found_stands_in_the_documentation() -> None:
    """docs/doctor.md has each fault of these tests, and each kind of finding with its level."""
    page = (ROOT / "docs" / "doctor.md").read_text()
    faults = {what: finding for what, (finding, _) in (RUNNING | ENDING).items()} | ON_A_LAN
    assert len(faults) >= 20
    planted_there = page.partition("| planted | found as |")[2]
    assert re.findall(r"^\| (.+) \| `([a-z-]+)` \|$", planted_there, re.MULTILINE) == [*faults.items()]
    sources = "".join(file.read_text() for file in (ROOT / "pairproxy/doctor/checks").glob("*.py"))
    known = set(re.findall(r'(?:Finding\(|kind =)\s*"([a-z-]+)"', sources)) | {"clients-bypass"}
    assert set(re.findall(r"^\| `([a-z-]+)` \| (?:problem|warning|note) \|", page, re.MULTILINE)) == known
