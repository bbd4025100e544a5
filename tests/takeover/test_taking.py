"""A takeover of systemd's units and its release, with every interruption, on real files, ports and processes.

The port is answered by somebody at the end, and an undoing is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from msgspec import structs

from pairproxy.api.commands import MovedPort
from pairproxy.api.ports import PortStatus
from pairproxy.loading import load
from pairproxy.takeover import acting, record
from pairproxy.takeover.asking import answers, ask
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.running import Runner
from pairproxy.takeover.steps import Run, WriteFile
from pairproxy.takeover.taking import undo_order
from tests.support.daemons import Daemons, Node, until
from tests.support.stand_in_machine import UNIT, StandInMachine

HOW = ("before", "after", "killed")
CALLS = 12  # more than a takeover or a release makes; that it does is seen to below


@dataclass
class Taking:
    """A machine with an engine and a daemon."""

    box: StandInMachine
    node: Node
    told: list[str] = field(default_factory=list)

    def machine(self, *, is_stopped: bool = False) -> Machine:
        return Machine(Runner(self.box.environment()), is_stopped=lambda: is_stopped)

    def take(self, *, is_stopped: bool = False) -> MovedPort:
        """As the command does it; a plan that says no counts as a problem."""
        settings = load(self.node.home / "config.toml", {}, {})
        machine = self.machine(is_stopped=is_stopped)
        (one,) = acting.look(self.node.home, settings, machine)
        return acting.take_one(self.node.home, one, machine, self.told.append)

    def release(self) -> tuple[MovedPort, ...]:
        return acting.release_all(self.node.home, self.machine(), self.told.append)

    def front(self) -> PortStatus:
        (port,) = self.node.status().ports
        return port

    def check_taken(self) -> None:
        """The engine is at its private port, the daemon answers on the usual one, the record is finished."""
        assert answers("ollama", self.box.moved)
        assert ask(self.box.usual, "/api/tags") is not None
        assert self.front().state == "open"
        (taken,) = record.read(self.node.home).taken
        assert taken.is_done
        assert taken.begun == len(taken.steps)

    def check_free(self, tree: dict[str, tuple[int, int, int, bytes]]) -> None:
        """The engine is on its usual port, every file is as it was, nothing is recorded."""
        assert answers("ollama", self.box.usual)
        assert not answers("ollama", self.box.moved)
        assert self.box.tree() == tree
        assert record.read(self.node.home).taken == ()
        until(lambda: self.front().state in ("held", "closed"), "the daemon leaves the port to the engine")


KINDS = [pytest.param(False, id="system"), pytest.param(True, id="user", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=KINDS)
def taking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Taking]:
    """One that stays for all tests; each leaves it released."""
    directory = tmp_path_factory.mktemp("taking")
    with StandInMachine(directory / "box", is_user=request.param) as box, Daemons(directory) as daemons:
        box.start()
        daemons.home("A", box.config())
        (node,) = daemons.start("A")
        yield Taking(box, node)


def test_an_engine_is_taken_over_and_released(taking: Taking) -> None:
    """Clients of the usual port notice a restart; afterwards nothing is left of it."""
    tree = taking.box.tree()
    taken = taking.take()
    assert (taken.problem, taken.notes) == (None, ())
    assert taken.gap_s is not None
    taking.check_taken()
    assert taking.front().hosts == ("127.0.0.1", "::1")
    assert ask(taking.box.usual, "/", host="::1") is not None
    (released,) = taking.release()
    assert (released.problem, released.notes) == (None, ())
    taking.check_free(tree)


def test_it_does_what_the_dry_run_shows(taking: Taking) -> None:
    """Each command in its order, and nothing of it before."""
    taking.box.fail(None)
    settings = load(taking.node.home / "config.toml", {}, {})
    (one,) = acting.look(taking.node.home, settings, taking.machine())
    shown = acting.shown(one, taking.machine())
    asked = len(taking.box.calls())
    assert all(" show " in call for call in taking.box.calls())
    taking.take()
    done = [call for call in taking.box.calls()[asked:] if " show " not in call]
    assert done == [line.removeprefix("run: ") for line in shown.changes if line.startswith("run: ")]
    (back,) = acting.releasing(taking.node.home, taking.machine())
    taking.box.fail(None)
    taking.release()
    done = [call for call in taking.box.calls() if " show " not in call]
    assert done == [line.removeprefix("run: ") for line in back.changes if line.startswith("run: ")]


def test_a_second_takeover_changes_nothing(taking: Taking) -> None:
    """The engine is where it belongs."""
    taking.take()
    pid = taking.box.pid()
    assert taking.take() == MovedPort("ollama", None)
    assert taking.box.pid() == pid
    taking.release()


def test_whoever_asks_for_the_end_gets_it_undone(taking: Taking) -> None:
    """Ctrl-C and SIGTERM, at a step."""
    tree = taking.box.tree()
    moved = taking.take(is_stopped=True)
    assert moved.problem is not None
    assert "Stopped" in moved.problem
    taking.check_free(tree)


@pytest.mark.parametrize("how", [HOW[0], *(pytest.param(how, marks=pytest.mark.slow) for how in HOW[1:])])
def test_a_restart_that_fails_is_undone(taking: Taking, how: str) -> None:
    """The step at which the engine may be down."""
    tree = taking.box.tree()
    taking.box.fail(None)
    taking.take()
    number = 1 + next(index for index, call in enumerate(taking.box.calls()) if f"restart {UNIT}" in call)
    taking.release()
    taking.box.fail(number, how)
    moved = taking.take()
    taking.box.fail(None)
    assert moved.problem is not None
    assert "restart" in moved.problem
    assert "Everything was put back." in moved.problem
    taking.check_free(tree)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
def test_whatever_fails_somebody_answers_and_the_undo_is_exact(taking: Taking, how: str) -> None:
    """Every command of a takeover fails once, and every command of a release."""
    tree = taking.box.tree()
    for number in range(1, CALLS + 1):
        taking.box.fail(number, how)
        moved = taking.take()
        has_failed = len(taking.box.calls()) >= number
        taking.box.fail(None)
        if moved.problem is not None:
            taking.check_free(tree)
            continue
        taking.check_taken()
        taking.box.fail(number, how)
        (released,) = taking.release()
        taking.box.fail(None)
        assert released.problem is None, "one failure of a command is not the end of an undoing"
        taking.check_free(tree)
    assert not has_failed


@pytest.mark.slow
def test_an_undo_that_fails_stays_in_the_record(taking: Taking) -> None:
    """The daemon has the port as long as the engine is away; a later release does the rest."""
    tree = taking.box.tree()
    taking.take()
    systemctl = taking.box.bin / "systemctl"
    systemctl.rename(taking.box.bin / "kept")
    (released,) = taking.release()
    assert released.problem is not None
    assert "run `pairproxy release` to try again" in released.problem
    assert record.read(taking.node.home).taken != ()
    until(lambda: taking.front().state == "open", "the daemon has the port")
    (taking.box.bin / "kept").rename(systemctl)
    (released,) = taking.release()
    assert released.problem is None
    taking.check_free(tree)


def test_what_others_changed_is_left_and_the_rest_is_undone(taking: Taking) -> None:
    """An update rewrote the unit; somebody put a line into the drop-in."""
    box, tree = taking.box, taking.box.tree()
    taking.take()
    unit = box.units / UNIT
    was, theirs = unit.read_text(), f'[Service]\nEnvironment="OLLAMA_HOST=127.0.0.1:{box.usual}"\n# mine\n'
    unit.write_text(was + "# rewritten by an update\n")
    box.drop_in.write_text(theirs)
    (released,) = taking.release()
    assert released.problem is None
    assert "changed by somebody else since" in released.notes[0]
    assert box.drop_in.read_text() == theirs
    assert unit.read_text().endswith("# rewritten by an update\n")
    assert answers("ollama", box.usual)
    box.drop_in.unlink()
    box.drop_in.parent.rmdir()
    unit.write_text(was)
    box.systemctl("daemon-reload")
    taking.check_free(tree)


@pytest.mark.slow
def test_an_engine_that_was_removed_is_released_all_the_same(taking: Taking) -> None:
    """Nothing of ours stays, and the record does not wait for an engine that cannot come back."""
    box, tree = taking.box, taking.box.tree()
    taking.take()
    unit = box.units / UNIT
    was = unit.read_text()
    box.systemctl("stop", UNIT)
    unit.unlink()
    (released,) = taking.release()
    assert released.problem is None
    assert "removed since" in " ".join(released.notes)
    assert record.read(taking.node.home).taken == ()
    assert not box.drop_in.exists()
    unit.write_text(was)
    box.systemctl("daemon-reload")
    box.systemctl("start", UNIT)
    box.until_at(box.usual)
    taking.check_free(tree)


@pytest.mark.slow
def test_an_engine_that_an_update_put_back_is_moved_again(taking: Taking) -> None:
    """`pairproxy takeover` again is the repair; the release then is as exact as ever."""
    box, tree = taking.box, taking.box.tree()
    taking.take()
    box.drop_in.unlink()
    box.drop_in.parent.rmdir()
    box.systemctl("daemon-reload")
    box.systemctl("stop", UNIT)
    until(lambda: taking.front().state == "closed", "the front closes")
    box.systemctl("start", UNIT)
    box.until_at(box.usual)
    assert taking.take().problem is None
    taking.check_taken()
    taking.release()
    taking.check_free(tree)


def test_steps_that_say_so_are_undone_last_and_in_order() -> None:
    """A restart has to come after the file is back."""
    first, second = (Run((word,), (word,), undo_in_order=True) for word in "ab")
    file = WriteFile("/x", "", 0o644)
    other = structs.replace(file, path="/y")
    assert undo_order((file, other, first, second)) == (other, file, first, second)
