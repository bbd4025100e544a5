"""What commands do, from outside: also killed in the middle, and with the daemon gone."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.api.commands import MovedPort
from pairproxy.config import Settings
from pairproxy.takeover import acting, record
from pairproxy.takeover.asking import answers
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.plan import Pair, Planned
from pairproxy.takeover.running import Runner
from tests.support.daemons import Daemons, Node, until
from tests.support.stand_in_machine import StandInMachine

CALLS = 5  # of a takeover that change something, or after which something is changed; looked at below


@pytest.fixture
def box(tmp_path: Path) -> Iterator[StandInMachine]:
    """A machine whose Ollama runs."""
    with StandInMachine(tmp_path / "box") as machine:
        machine.start()
        yield machine


@pytest.fixture
def node(tmp_path: Path, box: StandInMachine) -> Iterator[Node]:
    """A daemon there."""
    with Daemons(tmp_path) as daemons:
        daemons.home("A", box.config())
        (started,) = daemons.start("A")
        yield started


def command(box: StandInMachine, home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """`pairproxy WORDS`, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pairproxy", *words, "--home", str(home)],
        env=box.environment() | {"NO_COLOR": "1", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def machine_of(box: StandInMachine) -> Machine:
    """It, as steps act on it."""
    return Machine(Runner(box.environment()))


def test_nothing_taken_over_is_nothing_to_release(home: Path) -> None:
    """No plan, nothing done, no file."""
    machine = Machine(Runner({"PATH": ""}))
    assert acting.releasing(home, machine) == ()
    assert acting.release_all(home, machine, print) == ()
    assert acting.where_engines_are(home) == ()
    assert acting.daemon_pid(home) is None


def test_both_kinds_are_looked_at(home: Path) -> None:
    """Each with its own answer; the usual ports of this machine are only looked at."""
    looked = acting.look(home, Settings(), Machine(Runner({"PATH": ""})))
    assert [one.pair.kind for one in looked] == ["ollama", "lmstudio"]


def test_an_engine_that_nobody_has_is_named_only_where_there_is_no_other() -> None:
    """Who has Ollama alone does not want to read of LM Studio; who has none wants to know what was meant."""
    ollama, lmstudio = Pair("ollama", 11434, 11534), Pair("lmstudio", 1234, 12340)
    nobody = (Planned(ollama, "none", "Nobody."), Planned(lmstudio, "none", "Nobody."))
    assert acting.told(nobody) == nobody
    for found in (Planned(ollama, "cannot", "No."), Planned(ollama, "none", "There.", is_there=True)):
        assert acting.told((found, nobody[1])) == (found,)


@pytest.mark.slow
def test_with_the_daemon_gone_it_is_released_all_the_same(box: StandInMachine, node: Node) -> None:
    """The port has the engine again, and no file tells of what was."""
    tree = box.tree()
    assert command(box, node.home, "takeover", "--yes").returncode == 0
    assert node.stop() == 0
    assert f"Ollama stays at its private port {box.moved}" in node.log
    assert not answers("ollama", box.usual)
    asked = command(box, node.home, "status")
    assert asked.returncode == 3
    assert f"Ollama stays at its private port {box.moved}" in asked.stderr
    assert "`pairproxy release` puts it back" in asked.stderr
    done = command(box, node.home, "release", "--yes")
    assert done.returncode == 0, done.stderr
    assert answers("ollama", box.usual)
    assert box.tree() == tree
    assert not (node.home / record.RECORD_FILE).exists()


@pytest.mark.slow
def test_killed_at_any_command_it_can_be_undone(box: StandInMachine, node: Node) -> None:
    """By `pairproxy release`, exactly, with the engine back on its port."""
    tree, killed = box.tree(), 0
    for number in range(1, 9):
        box.fail(number, "kills")
        done = command(box, node.home, "takeover", "--yes")
        box.fail(None)
        killed += done.returncode == -9
        back = command(box, node.home, "release", "--yes")
        assert back.returncode == 0, back.stderr
        assert answers("ollama", box.usual)
        assert box.tree() == tree
        assert record.read(node.home).taken == ()
    assert killed >= CALLS


@pytest.mark.slow
def test_killed_in_the_middle_a_takeover_goes_on_from_the_record(box: StandInMachine, node: Node) -> None:
    """What was broken off is undone first; so is a release that was killed."""
    tree = box.tree()
    calls = 1 + len(_reads(box, node))
    box.fail(calls, "kills")
    assert command(box, node.home, "takeover", "--yes").returncode == -9
    box.fail(None)
    (taken,) = record.read(node.home).taken
    assert not taken.is_done
    assert box.drop_in.exists()
    done = command(box, node.home, "takeover", "--yes")
    assert done.returncode == 0, done.stderr
    assert "was broken off" in done.stdout
    assert answers("ollama", box.moved)
    box.fail(1, "kills")
    assert command(box, node.home, "release", "--yes").returncode == -9
    box.fail(None)
    assert command(box, node.home, "release", "--yes").returncode == 0
    assert box.tree() == tree


def _reads(box: StandInMachine, node: Node) -> list[str]:
    """The commands that a takeover runs before it changes anything."""
    box.fail(None)
    command(box, node.home, "takeover", "--dry-run")
    return box.calls()


@pytest.mark.slow
def test_an_engine_in_use_is_moved_only_when_told_to(box: StandInMachine, node: Node) -> None:
    """Who uses it is named; a moment is waited for the end of that."""
    code = (
        f"import socket; s = socket.create_connection(('127.0.0.1', {box.usual})); print(flush=True); input()"
    )
    client = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdout is not None
    client.stdout.readline()
    try:
        done = command(box, node.home, "takeover", "--yes")
        assert done.returncode == 1
        assert f"Ollama is being used: python (pid {client.pid})" in done.stdout
        assert "--now" in done.stdout
        assert answers("ollama", box.usual)
        assert command(box, node.home, "takeover", "--yes", "--now").returncode == 0
    finally:
        client.communicate(b"\n")
    assert command(box, node.home, "release", "--yes").returncode == 0


@pytest.mark.slow
def test_what_is_done_for_one_run_is_undone_alone(box: StandInMachine, node: Node) -> None:
    """A takeover that a person made stays when a daemon of the foreground ends."""
    machine = machine_of(box)
    settings = _settings(node)
    (one,) = acting.look(node.home, settings, machine)
    assert acting.take_one(node.home, one, machine, print, is_for_one_run=True).problem is None
    (taken,) = record.read(node.home).taken
    assert taken.is_for_one_run
    (moved,) = acting.release_all(node.home, machine, print, only_for_one_run=True)
    assert isinstance(moved, MovedPort)
    assert acting.take_one(node.home, one, machine, print).problem is None
    assert acting.release_all(node.home, machine, print, only_for_one_run=True) == ()
    acting.release_all(node.home, machine, print)
    until(lambda: answers("ollama", box.usual), "the engine is back")


def _settings(node: Node) -> Settings:
    from pairproxy.loading import load

    return load(node.home / "config.toml", {}, {})
