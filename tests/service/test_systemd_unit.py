"""The unit's text: systemd itself says that it holds no mistake."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pairproxy.core.errors import SetupError
from pairproxy.service.systemd_unit import DIRECTORIES, LINGERS, UNIT, directories_made, lingers, text
from pairproxy.service.wanted import Wanted

PLAIN = Wanted(("/bin/true",), Path("/srv/ann"), "daemon")


@pytest.mark.parametrize("is_system", [False, True])
@pytest.mark.parametrize("home", ["/srv/plain", "/srv/a b/100%/$HOME/\"quoted\" \\ 'one'", "/srv/Ünïcode"])
def test_systemd_finds_no_mistake_in_it(tmp_path: Path, home: str, is_system: bool) -> None:
    """systemd-analyze reads it without a word, whatever the home is called."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here (Debian: systemd)")
    unit = tmp_path / UNIT
    wanted = Wanted(("/bin/true",), Path(home), "daemon")
    writes = (Path(home),)
    unit.write_text(
        text(wanted, is_system=is_system, writable=writes, cache=Path(home, "cache"), notes=(LINGERS,))
    )
    scope = [] if is_system else ["--user"]
    done = subprocess.run(
        ["systemd-analyze", *scope, "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True, text=True, timeout=30,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    said = [line for line in (done.stdout + done.stderr).splitlines() if UNIT in line]
    assert not said, said


def test_a_home_that_no_line_can_hold_is_refused() -> None:
    """A new line would begin a setting of its own."""
    with pytest.raises(SetupError, match="plain name"):
        text(Wanted(("/bin/true",), Path("/a\nUser=root"), "ann"), is_system=False)


def test_only_the_systems_has_walls() -> None:
    """What needs mounts of its own is not in a person's unit: there it fails or means nothing."""
    own, system = text(PLAIN, is_system=False), text(PLAIN, is_system=True, writable=(Path("/w"),))
    assert "ProtectSystem" not in own
    assert "User=" not in own
    assert "WantedBy=default.target" in own
    assert {
        "User=daemon",
        "ProtectSystem=strict",
        'ReadWritePaths="-/w"',
        "WantedBy=multi-user.target",
    } <= set(system.splitlines())


@pytest.mark.parametrize(
    ("program", "home", "has_its_own"),
    [
        ("/opt/pairproxy/bin/python", "/srv/ann", True),
        ("/tmpfiles/python", "/srv/ann", True),  # noqa: S108
        ("/tmp/try/bin/python", "/srv/ann", False),  # noqa: S108 the directory that systemd means
        ("/opt/python", "/var/tmp/ann", False),  # noqa: S108
    ],
)
def test_a_program_in_the_temporary_directory_is_seen(program: str, home: str, has_its_own: bool) -> None:
    """With a /tmp of its own the service would not find it."""
    unit = text(Wanted((program,), Path(home), "daemon"), is_system=True)
    assert ("PrivateTmp=yes" in unit.splitlines()) is has_its_own


def test_what_else_was_done_stands_in_it() -> None:
    """So that uninstalling takes back exactly that."""
    unit = text(PLAIN, is_system=False, notes=(f"{DIRECTORIES}2", LINGERS))
    assert (lingers(unit), directories_made(unit)) == (True, 2)
    assert (lingers(text(PLAIN, is_system=False)), directories_made("")) == (False, 0)
    assert directories_made(f"{DIRECTORIES}many\n") == 0
    assert directories_made(f"{DIRECTORIES}99\n") == 4
