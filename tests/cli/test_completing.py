"""The shells' completion: installed by typer's own option, and names that only this home knows."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pairproxy.cli import completing
from pairproxy.security.client_keys import ClientKeys
from pairproxy.security.identity import load_or_create
from tests.cli.test_trusting import befriend
from tests.support.command import TIMEOUT_S, environment
from tests.support.daemons import Node

SHELLS = ["bash", "zsh", "fish"]
PRESS_TAB = """
. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_pairproxy_completion pairproxy
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def named(home: Path, tmp_path: Path) -> Path:
    """A home with a key and a paired machine."""
    befriend(home, load_or_create(tmp_path / "ben"), "ben-ws")
    ClientKeys(home).add("web-ui")
    ClientKeys(home).add("ci")
    return home


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """The command ``pairproxy``, as an installation has it: the shells know it by this name."""
    if sys.platform == "win32":
        pytest.skip("a script with a head is no command of Windows")
    directory = tmp_path / "bin"
    directory.mkdir()
    file = directory / "pairproxy"
    file.write_text(f"#!{sys.executable}\nfrom pairproxy.cli import main\nmain()\n")
    file.chmod(0o755)
    return file


def asked(command: Path, shell: str, line: str, **more: str) -> list[str]:
    """What a shell that completes ``line`` is answered, by the protocol of its own script."""
    words = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    surroundings = environment(_PAIRPROXY_COMPLETE=f"complete_{shell}", **words, **more)
    done = subprocess.run(
        [str(command)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=surroundings,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash_completes_what_was_installed(named: Path, command: Path, tmp_path: Path) -> None:
    """A real bash, with the script that --install-completion put there: commands, options, names."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    surroundings = environment(
        HOME=str(tmp_path),
        PATH=f"{command.parent}:{os.environ['PATH']}",
        _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1",
    )
    install = [str(command), "--install-completion", "bash"]
    assert subprocess.run(install, capture_output=True, timeout=TIMEOUT_S, env=surroundings).returncode == 0
    (script,) = (tmp_path / ".bash_completions").iterdir()
    assert str(script) in (tmp_path / ".bashrc").read_text()

    def pressed(*words: str) -> list[str]:
        line = [bash, "-c", PRESS_TAB, "bash", str(script), "pairproxy", *words]
        done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_S, env=surroundings)
        assert done.stderr == ""
        return done.stdout.split()

    assert pressed("stat") == ["status"]
    assert pressed("up", "--en") == ["--engine"]
    assert pressed("keys", "revoke", "--home", str(named), "") == ["ci", "web-ui"]
    assert pressed("forget", "--home", str(named), "b") == ["ben-ws"]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(shell: str, command: Path) -> None:
    """That calls the command by its name."""
    done = subprocess.run(
        [str(command), "--show-completion", shell],
        capture_output=True, text=True, timeout=TIMEOUT_S,
        env=environment(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "_PAIRPROXY_COMPLETE" in done.stdout


@pytest.mark.parametrize("shell", SHELLS[1:])
def test_other_shells_are_answered_in_their_way(shell: str, named: Path, command: Path) -> None:
    """No zsh and no fish are needed for it: what their scripts ask is asked."""
    found = "\n".join(asked(command, shell, "pairproxy keys revoke ", PAIRPROXY_HOME=str(named)))
    assert "ci" in found
    assert "web-ui" in found
    assert "status" in "\n".join(asked(command, shell, "pairproxy stat"))


def test_a_home_that_cannot_be_read_completes_nothing_and_says_nothing(named: Path, command: Path) -> None:
    """The command itself will say what is wrong."""
    (named / "client_keys.json").write_text("{")
    assert asked(command, "zsh", "pairproxy keys revoke ", PAIRPROXY_HOME=str(named)) == ["_files"]
    assert asked(command, "zsh", "pairproxy rights x --model ", PAIRPROXY_HOME=str(named)) == ["_files"]


def test_models_are_those_that_the_daemon_knows(live: list[Node], command: Path) -> None:
    """It is asked for a moment only."""
    found = asked(command, "zsh", "pairproxy rights x --model pac", PAIRPROXY_HOME=str(live[0].home))
    assert "paced:1b" in "\n".join(found).replace("\\", "")
    assert completing.ANSWER_S <= 1.0
