"""A program that is ended and started again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from pairproxy.takeover.machine import Machine, StepFailed, Stopped
from pairproxy.takeover.restarting import Restart, is_running
from pairproxy.takeover.running import CommandFailed, Runner
from pairproxy.takeover.steps import Step


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program of its own: a copy of the shell."""
    return Path(shutil.copy("/bin/bash", tmp_path / "engine"))


def note(path: Path, word: str, status: int = 0) -> tuple[str, ...]:
    """A command that writes a word down."""
    return ("sh", "-c", f"echo {word} >> {path}; exit {status}")


def test_it_is_ended_before_it_is_started(tmp_path: Path) -> None:
    """And to undo it, ended and started as it was."""
    log = tmp_path / "log"
    step = Restart(note(log, "stop"), note(log, "start"), note(log, "again"))
    step.do(Machine(Runner()))
    step.undo(Machine(Runner()))
    assert log.read_text().split() == ["stop", "start", "stop", "again"]


def test_what_cannot_be_ended_is_not_started(tmp_path: Path) -> None:
    """Two of them would fight for the port."""
    log = tmp_path / "log"
    with pytest.raises(CommandFailed):
        Restart(note(log, "stop", 1), note(log, "start"), note(log, "again")).do(Machine(Runner()))
    assert log.read_text().split() == ["stop"]


def test_undoing_starts_it_though_it_does_not_run(tmp_path: Path) -> None:
    """Ending what has ended says no: that is no reason to leave nobody on the port."""
    log = tmp_path / "log"
    for stop in (note(log, "stop", 1), ("no-such-command",)):
        Restart(stop, note(log, "start"), note(log, "again")).undo(Machine(Runner()))
    assert log.read_text().split() == ["stop", "again", "again"]


def test_undoing_tells_both_troubles(tmp_path: Path) -> None:
    """The first may be why the second came."""
    fails = ("sh", "-c", "echo not today >&2; exit 1")
    step = Restart(("sh", "-c", "echo locked >&2; exit 1"), fails, fails)
    with pytest.raises(StepFailed, match=r"not today.*Before it: locked"):
        step.undo(Machine(Runner()))


def test_it_waits_until_the_process_is_gone(tmp_path: Path, program: Path) -> None:
    """A command that only asks for the end returns before it."""
    running = subprocess.Popen([program, "-c", "trap 'sleep 0.3; exit' TERM; while :; do sleep 0.05; done"])
    try:
        stop, was_running = ("sh", "-c", f"kill {running.pid}"), tmp_path / "was-running"
        look = ("sh", "-c", f"grep -q ') Z ' /proc/{running.pid}/stat || touch {was_running}")
        assert is_running(str(program))
        Restart(stop, look, look, str(program)).do(Machine(Runner()))
        assert not was_running.exists()
    finally:
        running.kill()
        running.wait()


def test_one_that_does_not_end_is_left_running(program: Path) -> None:
    """It is never killed; a person is told what to do."""
    running = subprocess.Popen([program, "-c", "while :; do sleep 0.05; done"])
    try:
        nothing = ("true",)
        step = Restart(nothing, nothing, nothing, str(program), by_hand="Quit it yourself.", gone_s=0.2)
        for act in (step.do, step.undo):
            with pytest.raises(StepFailed, match=r"engine did not end in 0 s\. Quit it yourself\."):
                act(Machine(Runner()))
        assert running.poll() is None
        with pytest.raises(Stopped):
            step.do(Machine(Runner(), is_stopped=lambda: True))
        with pytest.raises(StepFailed):  # what undoes goes on though somebody asked for the end
            step.undo(Machine(Runner(), is_stopped=lambda: True))
    finally:
        running.kill()
        running.wait()


def test_a_program_that_was_removed_is_not_started_again(tmp_path: Path) -> None:
    """The person has no such engine any more: there is nothing left to put back."""
    log = tmp_path / "log"
    stop, gone = note(log, "stop"), str(tmp_path / "lms")
    for step in (Restart(stop, stop, (gone, "server", "start")), Restart(stop, stop, stop, executable=gone)):
        assert step.undo(Machine(Runner())) == (f"{gone} was removed since, so nothing is started again.",)
    assert not log.exists()


def test_it_says_what_it_does() -> None:
    """In the order in which it is done."""
    step = Restart(("stop", "it"), ("start", "it"), ("start", "it again"), "/bin/it", gone_s=3)
    told = ("run: stop it", "wait until /bin/it has ended (3 s at most)", "run: start it")
    assert step.describe(Runner()) == told
    assert step.describe_undo(Runner()) == ("run: stop it", "run: start 'it again'")


def test_a_record_gives_it_back_as_it_was() -> None:
    """It is written to the undo record."""
    step = Restart(("a",), ("b",), ("c",), "/d", "e", 2.0)
    assert msgspec.json.decode(msgspec.json.encode(step), type=Step) == step


def test_this_interpreter_runs_and_nothing_else_does(tmp_path: Path) -> None:
    """Compared by the whole path."""
    assert is_running(os.path.realpath(sys.executable))
    assert not is_running(str(tmp_path / "python"))
