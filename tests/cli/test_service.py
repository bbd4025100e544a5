"""pairproxy service where there is no service manager; on a real one: tests/service/test_systemd.py."""

import json
import sys
from pathlib import Path

import pytest

from pairproxy.service.wanted import MARK
from pairproxy.takeover.record import RECORD_FILE
from tests.support.command import here, sentence

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks systemd's way of being a service")


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """A person on a machine without systemd: nothing but her home."""
    (tmp_path / "bin").mkdir()
    return {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin"), "XDG_CONFIG_HOME": "", "SUDO_USER": ""}


def systemctl(tmp_path: Path, text: str) -> None:
    """A systemctl that does this."""
    script = tmp_path / "bin" / "systemctl"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)


def test_without_systemd_it_says_how_to_go_on(alone: dict[str, str], tmp_path: Path) -> None:
    """No systemctl at all, or one that reaches nobody."""
    done = here("service", "install", "--yes", **alone)
    assert (done.returncode, "no systemd" in sentence(done), "pairproxy up" in done.stderr) == (1, True, True)
    systemctl(tmp_path, "echo 'System has not been booted with systemd' >&2; exit 1")
    done = here("service", "install", "--yes", "--system", **alone)
    assert "does not run on this machine (System has not been booted with systemd)" in sentence(done)


def test_nothing_installed_is_status_3(alone: dict[str, str], tmp_path: Path) -> None:
    """In words and as JSON, with and without a manager."""
    done = here("service", "status", **alone)
    assert (done.returncode, done.stdout) == (
        3,
        "No service is installed here. `pairproxy service install` installs it.\n",
    )
    done = here("service", "status", "--json", "--home", tmp_path / "home", **alone)
    assert (done.returncode, json.loads(done.stdout)) == (3, {"services": [], "has_daemon": False})
    done = here("service", "uninstall", "--yes", **alone)
    assert (done.returncode, "No service is installed" in sentence(done)) == (1, True)


def test_a_dry_run_changes_nothing(alone: dict[str, str], tmp_path: Path) -> None:
    """Every change is printed, and the documents are those that are told; a variable is warned of."""
    systemctl(tmp_path, f'echo "$*" >>{tmp_path}/calls; echo Version=252')
    before = sorted(tmp_path.rglob("*"))
    home = tmp_path / "home"
    command = ("service", "install", "--dry-run", "--home", home)
    done = here(*command, PAIRPROXY_LOG_LEVEL="debug", **alone)
    assert done.returncode == 0, done.stderr
    assert f"  write {tmp_path}/.config/systemd/user/pairproxy.service\n" in done.stdout
    assert "Nothing was changed." in done.stdout
    assert "does not see PAIRPROXY_LOG_LEVEL of this shell" in done.stdout
    told = json.loads(here(*command, "--json", **alone).stdout)
    assert (told["is_dry_run"], told["services"], len(told["changes"])) == (True, [], 5)
    assert set(tmp_path.rglob("*")) - set(before) == {tmp_path / "calls"}
    asked = {line.split()[1] for line in (tmp_path / "calls").read_text().splitlines()}
    assert asked == {"show"}


def test_what_fails_is_taken_back(alone: dict[str, str], tmp_path: Path) -> None:
    """The manager refuses to enable it: nothing is left, and the sentence is the manager's."""
    systemctl(
        tmp_path, 'case "$*" in *enable*) echo "Access denied" >&2; exit 1;; *show*) echo Version=252;; esac'
    )
    done = here("service", "install", "--yes", "--home", tmp_path / "home", **alone)
    assert done.returncode == 1
    assert "Access denied" in done.stderr
    assert not (tmp_path / ".config").exists()


def test_engines_are_put_back_first_or_the_service_stays(alone: dict[str, str], tmp_path: Path) -> None:
    """An undo record that cannot be used: nothing is removed, for nobody would know the engine's port."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / RECORD_FILE).write_text("no record")
    (home / RECORD_FILE).chmod(0o600)
    unit = tmp_path / ".config" / "systemd" / "user" / "pairproxy.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(f"# {MARK}\n# Home: {home}\n")
    systemctl(tmp_path, "echo LoadState=loaded")
    done = here("service", "uninstall", "--yes", **alone)
    assert (done.returncode, "cannot be read as an undo record" in sentence(done)) == (1, True)
    assert unit.exists()


def test_settings_with_a_fault_are_told_before_anything_is_done(
    alone: dict[str, str], tmp_path: Path
) -> None:
    """The service would not start."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("[node]\nnme = 1\n")
    done = here("service", "install", "--yes", "--home", home, **alone)
    assert "Did you mean node.name?" in sentence(done)
