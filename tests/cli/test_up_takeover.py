"""A daemon in the foreground that takes over for as long as it runs."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.api.client import NoDaemon, get_status
from pairproxy.takeover import record
from pairproxy.takeover.asking import answers
from tests.support.daemons import until
from tests.support.stand_in_machine import StandInMachine

WRITTEN = "Written by `pairproxy takeover`"  # the first line of the file that the plan shows


class Foreground:
    """`pairproxy up --takeover` in a process of its own."""

    def __init__(self, box: StandInMachine, home: Path) -> None:
        self.log = home.parent / "up.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pairproxy", "up", "--takeover", "--yes", "--home", str(home)],
                env=box.environment() | {"NO_COLOR": "1", "COLUMNS": "200"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def end(self, number: signal.Signals) -> str:
        """Send it a signal, wait for its end; what it said."""
        self.process.send_signal(number)
        self.process.wait(40)
        return self.log.read_text()


@pytest.fixture
def box(tmp_path: Path, home: Path) -> Iterator[StandInMachine]:
    """A machine whose Ollama runs, and the settings for it."""
    with StandInMachine(tmp_path / "box") as machine:
        machine.start()
        (home / "config.toml").write_text(machine.config())
        yield machine


def until_taken(home: Path) -> None:
    """Wait until the takeover is done and the front answers."""

    def is_taken() -> bool:
        try:
            (port,) = get_status(home).ports
        except NoDaemon:
            return False
        taken = record.read(home).of("ollama")
        return taken is not None and taken.is_done and port.state == "open"

    until(is_taken, "the port is taken over")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_when_it_ends_the_engine_is_back_on_its_port(
    box: StandInMachine, home: Path, number: signal.Signals
) -> None:
    """F38: whoever asks for its end, nothing is left of the takeover."""
    tree, running = box.tree(), Foreground(box, home)
    until_taken(home)
    assert answers("ollama", box.moved)
    said = running.end(number)
    assert running.process.returncode == 0, said
    assert "Ollama is back on its port" in said
    assert "`pairproxy takeover`" not in said.replace(WRITTEN, ""), "what is being done is no advice"
    assert answers("ollama", box.usual)
    assert box.tree() == tree
    assert not (home / record.RECORD_FILE).exists()


@pytest.mark.slow
def test_killed_it_goes_on_from_the_record(box: StandInMachine, home: Path) -> None:
    """The next one finds the engine moved already, and puts it back at its end."""
    tree, first = box.tree(), Foreground(box, home)
    until_taken(home)
    first.end(signal.SIGKILL)
    second = Foreground(box, home)
    until_taken(home)
    until(lambda: answers("ollama", box.usual), "the front answers")
    said = second.end(signal.SIGTERM)
    assert "taken over already" in said
    assert answers("ollama", box.usual)
    assert box.tree() == tree


@pytest.mark.slow
def test_asked_to_end_while_it_takes_over_it_undoes_that(box: StandInMachine, home: Path) -> None:
    """With the daemon's help, before the daemon ends."""
    tree = box.tree()
    box.slow("restart")
    running = Foreground(box, home)
    until(lambda: (taken := record.read(home).of("ollama")) is not None and taken.begun >= 3, "it restarts")
    said = running.end(signal.SIGTERM)
    assert "Everything was put back." in said
    assert answers("ollama", box.usual)
    assert box.tree() == tree
    assert not (home / record.RECORD_FILE).exists()


def test_what_needs_a_yes_is_not_done_without(box: StandInMachine, home: Path) -> None:
    """Nobody can be asked here, and root is needed: it says so and does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "pairproxy", "up", "--takeover", "--home", str(home)],
        env=box.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert "Run it again with --yes" in done.stderr
    assert str(box.drop_in) in done.stderr
    assert answers("ollama", box.usual)
