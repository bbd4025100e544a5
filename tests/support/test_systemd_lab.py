"""The lab is what other tests take it for: a real systemd, and nothing of this machine is touched by it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.daemons import until
from tests.support.systemd_lab import ROOT, SystemdLab, may_be_skipped

UNIT = "[Service]\nExecStart=/bin/sh -c 'echo hello from $$PPID; exec sleep 60'\n"


def test_it_is_a_real_systemd(systemd_lab: SystemdLab) -> None:
    """Units of the system and of a person run, and the journal has their lines."""
    lab = systemd_lab
    lab.write("/etc/systemd/system/hello.service", UNIT)
    lab.run("systemctl", "daemon-reload")
    lab.run("systemctl", "start", "hello")
    assert lab.properties("hello", "ActiveState") == {"ActiveState": "active"}
    until(lambda: "hello from 1" in lab.journal("hello"), "the journal has it")
    lab.write(lab.home / ".config/systemd/user/mine.service", UNIT, user=lab.person)
    lab.run("systemctl", "--user", "start", "mine", user=lab.person)
    assert lab.properties("mine", "ActiveState", user=lab.person) == {"ActiveState": "active"}
    until(lambda: "hello from" in lab.journal("mine", is_user=True), "the journal has hers")


def test_nothing_of_this_machine_is_touched(systemd_lab: SystemdLab) -> None:
    """What is written inside is seen inside only, but for the shared directory; the kernel cannot be set."""
    lab = systemd_lab
    lab.run("sh", "-c", "echo here >/etc/pairproxy-lab; rm /etc/passwd; mkdir /var/lib/pairproxy-lab")
    assert (lab.root / "etc/pairproxy-lab").read_text() == "here\n"
    assert not Path("/etc/pairproxy-lab").exists()
    assert not Path("/var/lib/pairproxy-lab").exists()
    assert Path("/etc/passwd").exists()
    lab.run("sh", "-c", f"echo both >{lab.shared}/file")
    assert (lab.shared / "file").read_text() == "both\n"
    assert lab.run("sh", "-c", "echo 1 >/proc/sys/vm/overcommit_memory", check=False).returncode != 0
    assert "lo" in (told := lab.run("cat", "/proc/net/dev").stdout)
    assert len(told.splitlines()) == 3


OPEN_AND_HANG = """
import sys, time
from pathlib import Path
from tests.support.systemd_lab import SystemdLab
lab = SystemdLab(Path(sys.argv[1])).start()
print(lab._pid1, lab._process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [subprocess.Popen.kill, subprocess.Popen.terminate])
def test_nothing_is_left_of_a_test_run_that_is_killed(
    systemd_lab: SystemdLab, tmp_path: Path, end: Callable[["subprocess.Popen[str]"], None]
) -> None:
    """kill -9 of the process that made a lab takes pid 1 with it; the next lab sweeps what remains."""
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN_AND_HANG, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        pid1, keeper = map(int, process.stdout.readline().split())
        os.kill(pid1, 0)
        end(process)
        process.wait(10)
    until(lambda: not _lives(pid1) and not Path(f"/proc/{keeper}").exists(), "pid 1 inside is gone")
    assert systemd_lab.run("true").returncode == 0


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_in_ci_only_the_kernel_or_the_user_excuses(systemd_lab: SystemdLab) -> None:
    """Where a lab can be, a missing package is a failure in CI."""
    assert not may_be_skipped({"CI": "true"})
    assert may_be_skipped({})
