"""Homebrew's service is moved by the file of variables that Homebrew reads for it."""

import plistlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pairproxy.takeover.homebrew import Homebrew, variables_file, with_variable
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.moving import CannotTake, Move, Owner, Plan
from pairproxy.takeover.running import Runner
from pairproxy.takeover.steps import WriteFile
from tests.support.moving_engines import Taking, front
from tests.support.stand_ins import StandIns


class Brewed(StandIns):
    """A machine with Homebrew, in whose Cellar Ollama is."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.prefix = directory / "homebrew"
        self.brew = self.prefix / "bin" / "brew"
        self.install(self.brew)
        keg = self.prefix / "opt" / "ollama" / "homebrew.mxcl.ollama.plist"
        keg.parent.mkdir(parents=True)
        keg.write_bytes(plistlib.dumps({"EnvironmentVariables": {"OLLAMA_FLASH_ATTENTION": "1"}}))
        self.variables = self.home / ".homebrew" / "services" / "ollama.env"
        self.plist = self.home / "Library" / "LaunchAgents" / "homebrew.mxcl.ollama.plist"

    def start(self) -> Owner:
        """Start the service; who has the port then."""
        self.run(str(self.brew), "services", "restart", "ollama")
        self.until_answers("ollama", self.usual)
        return self.owner()

    def owner(self, pid: int | None = None, hosts: tuple[str, ...] = ("127.0.0.1",)) -> Owner:
        """The service's process, as owning tells of it."""
        executable = f"{self.prefix}/Cellar/ollama/0.33.0/bin/ollama"
        pid = pid or self.pid("brew")
        return Owner("homebrew", self.usual, hosts, pid, "ollama", "me", "homebrew.mxcl.ollama", executable)

    def plan(self, owner: Owner) -> Plan:
        """What the mover wants to do."""
        move = Move("ollama", owner, self.usual, self.moved)
        assert Homebrew().applies(move)
        return Homebrew().plan(move, Machine(self.runner))


@pytest.fixture
def brewed(tmp_path: Path) -> Iterator[Brewed]:
    """One such machine."""
    with Brewed(tmp_path / "mac") as brewed:
        yield brewed


@pytest.mark.slow
def test_it_is_taken_over_and_released(brewed: Brewed, tmp_path: Path) -> None:
    """The file, and the directories made for it, go again; the service has its old plist."""
    owner, files = brewed.start(), brewed.files()
    with front(tmp_path / "daemon", brewed, "ollama") as node:
        taking = Taking(node, brewed, "ollama", Homebrew(), Machine(brewed.runner))
        taking.take(taking.plan(owner), owner)
        taking.check_served()
        assert brewed.variables.read_text() == f"OLLAMA_HOST=127.0.0.1:{brewed.moved}\n"
        assert brewed.variables.stat().st_mode & 0o777 == 0o600
        brewed.run(str(brewed.brew), "services", "restart", "ollama")  # as after `brew upgrade`
        brewed.until_answers("ollama", brewed.moved)
        taking.release()
        taking.check_back(files)


@pytest.mark.slow
def test_whatever_fails_it_is_put_back(brewed: Brewed, tmp_path: Path) -> None:
    """Each command of a takeover and of a release fails once, beside settings of the person's own."""
    brewed.variables.parent.mkdir(parents=True)
    brewed.variables.write_text("# mine\nOLLAMA_KEEP_ALIVE = 1h\n")
    brewed.variables.chmod(0o644)
    brewed.start()
    with front(tmp_path / "daemon", brewed, "ollama") as node:
        taking = Taking(node, brewed, "ollama", Homebrew(), Machine(brewed.runner))
        taking.check_interruptions(brewed.owner)


def test_what_a_person_wrote_there_stays(brewed: Brewed) -> None:
    """Only the line of the variable is another; a file that Homebrew would skip is closed to others."""
    brewed.variables.parent.mkdir(parents=True)
    brewed.variables.write_text("OLLAMA_KEEP_ALIVE=1h\n  OLLAMA_HOST = 0.0.0.0\n#OLLAMA_HOST=x")
    brewed.variables.chmod(0o666)
    step = brewed.plan(brewed.start()).steps[0]
    assert isinstance(step, WriteFile)
    told = f"OLLAMA_KEEP_ALIVE=1h\n#OLLAMA_HOST=x\nOLLAMA_HOST=127.0.0.1:{brewed.moved}\n"
    assert (step.content, step.mode) == (told, 0o644)


def test_the_first_line_of_an_empty_file_is_ours() -> None:
    """Homebrew reads NAME=value lines."""
    assert with_variable("", "127.0.0.1:1") == "OLLAMA_HOST=127.0.0.1:1\n"


def test_the_file_is_where_homebrew_looks() -> None:
    """Below XDG_CONFIG_HOME if that is set."""
    assert variables_file(Runner({"HOME": "/me"})) == Path("/me/.homebrew/services/ollama.env")
    told = variables_file(Runner({"HOME": "/me", "XDG_CONFIG_HOME": "/me/.config"}))
    assert told == Path("/me/.config/homebrew/services/ollama.env")


@pytest.mark.parametrize("version", ["6.0.14", "5.1.0-99-gabcdef", "unknown"])
def test_an_older_homebrew_cannot_keep_a_setting(brewed: Brewed, version: str) -> None:
    """Since 6.0.15 it can; numbers are compared as numbers."""
    owner = brewed.start()
    brewed.keep("brew", {"version": version})
    with pytest.raises(CannotTake, match=r"Run `brew update`"):
        brewed.plan(owner)
    brewed.keep("brew", {"version": "6.1.0"})
    assert brewed.plan(owner).steps


@pytest.mark.parametrize("told", [{"file": "/Library/LaunchDaemons/x.plist"}, {"user": "root"}], ids=str)
def test_a_service_of_root_is_left_alone(brewed: Brewed, told: dict[str, Any]) -> None:
    """Homebrew reads no such file for it."""
    owner = brewed.start()
    brewed.keep("brew", told)
    with pytest.raises(CannotTake, match="runs as root"):
        brewed.plan(owner)


def test_one_that_was_started_by_hand_is_left_alone(brewed: Brewed) -> None:
    """The same program in a terminal, beside the service or without it."""
    brewed.start()
    with pytest.raises(CannotTake, match="not started by `brew services`"):
        brewed.plan(brewed.owner(pid=1))


def test_a_plist_with_settings_by_hand_is_not_lost(brewed: Brewed) -> None:
    """A restart makes it anew; what came from the file of variables comes again."""
    owner = brewed.start()
    told = {"OLLAMA_FLASH_ATTENTION": "1", "OLLAMA_MODELS": "/big"}
    brewed.plist.write_bytes(plistlib.dumps({"EnvironmentVariables": told}))
    with pytest.raises(CannotTake, match="wrote OLLAMA_MODELS into the service's plist"):
        brewed.plan(owner)
    brewed.variables.parent.mkdir(parents=True)
    brewed.variables.write_text("OLLAMA_MODELS=/big\n")
    assert brewed.plan(owner).steps


def test_one_that_others_reach_needs_a_yes(brewed: Brewed) -> None:
    """Other machines lose it meanwhile."""
    brewed.start()
    assert "Other machines can reach" in brewed.plan(brewed.owner(hosts=("0.0.0.0",))).warnings[0]


@pytest.mark.parametrize("answer", ["", "[]", "no json", '{"a": 1}', "[7]"])
def test_a_homebrew_that_says_something_else_is_left_alone(brewed: Brewed, answer: str) -> None:
    """What is not understood is no reason to act."""
    owner = brewed.start()
    brewed.brew.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo Homebrew 6.0.15 || echo '{answer}'\n")
    with pytest.raises(CannotTake, match="as pairproxy knows it"):
        brewed.plan(owner)
