"""What a service runs is this installation, and one that stays."""

import sys
from pathlib import Path

import pytest

from pairproxy.core.errors import SetupError
from pairproxy.log_file import KEPT
from pairproxy.service.wanted import kept_logs, this_installation, unseen, user_of
from pairproxy.takeover.running import Runner


def test_it_is_this_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python that runs now, isolated from where the service starts, and the home as an absolute path."""
    monkeypatch.chdir(tmp_path)
    wanted = this_installation(Path("home"), Runner())
    assert wanted.up == (sys.executable, "-P", "-m", "pairproxy", "up", "--home", str(tmp_path / "home"))
    assert wanted.reload[-3:] == ("reload", "--home", str(tmp_path / "home"))


@pytest.mark.parametrize(
    "python",
    [
        "/root-of/.cache/uv/archive-v0/abc/bin/python",
        "/root-of/.cache/uv/environments-v2/abc/bin/python",
        "/root-of/.local/share/pipx/.cache/abc/bin/python",
    ],
)
def test_one_that_is_cleaned_away_is_refused(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvx and pipx run: the service would be gone some day."""
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(SetupError, match="uv tool install pairproxy"):
        this_installation(Path("/home"), Runner())


def test_a_tools_own_environment_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """uv tool install: its place stays the same at every upgrade."""
    python = "/somebody/.local/share/uv/tools/pairproxy/bin/python"
    monkeypatch.setattr(sys, "executable", python)
    assert this_installation(Path("/home"), Runner()).command[0] == python


def test_what_a_service_does_not_see_is_told() -> None:
    """Settings of this shell; the home is passed on."""
    given = {"PAIRPROXY_HOME": "x", "PAIRPROXY_LOG_LEVEL": "debug", "PATH": "x"}
    assert unseen(given) == ("PAIRPROXY_LOG_LEVEL",)


def test_the_person_has_a_name() -> None:
    """By the system's table of users, not by a variable that anybody sets."""
    if sys.platform != "win32":
        import os
        import pwd

        assert user_of({"USER": "somebody else"}) == pwd.getpwuid(os.getuid()).pw_name


def test_a_log_has_older_parts() -> None:
    """All of them go when the service goes."""
    names = [one.name for one in kept_logs(Path("/x/pairproxy.log"))]
    assert names == ["pairproxy.log", *(f"pairproxy.log.{number}" for number in range(1, KEPT + 1))]
