import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pairproxy.takeover.machine import Machine, StepFailed, Stopped
from pairproxy.takeover.running import CommandFailed, Runner
from pairproxy.takeover.steps import (
    Run,
    SetVariable,
    Step,
    WaitForEngine,
    WaitForRefused,
    WriteFile,
    write_file,
)
from tests.support.engine_thread import in_thread
from tests.support.fake_ollama import ollama_surface
from tests.support.free_ports import free_port


class Registry:
    """Windows' place for a person's variables."""

    def __init__(self, **values: tuple[str, int]) -> None:
        self.values, self.announced = values, 0

    def get(self, name: str) -> tuple[str, int] | None:
        return self.values.get(name)

    def set(self, name: str, value: str, kind: int) -> None:
        self.values[name] = (value, kind)

    def delete(self, name: str) -> None:
        self.values.pop(name, None)

    def announce(self) -> None:
        self.announced += 1

    def of_machine(self, name: str) -> str | None:
        return None


@pytest.fixture
def machine() -> Machine:
    """This one, as root."""
    return Machine(Runner(as_root=True))


def test_a_new_file_comes_and_goes_with_its_directories(tmp_path: Path, machine: Machine) -> None:
    """Done twice and undone twice, nothing is left."""
    step = write_file(tmp_path / "x.d" / "zz.conf", "[Service]\n", machine.runner)
    step.do(machine)
    step.do(machine)
    assert (tmp_path / "x.d" / "zz.conf").read_text() == "[Service]\n"
    assert step.undo(machine) == step.undo(machine) == ()
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_comes_back_byte_for_byte(tmp_path: Path, machine: Machine) -> None:
    """With its mode and owner, whatever its bytes are."""
    path = tmp_path / "old"
    path.write_bytes(b"\xff\x00old\r\n")
    path.chmod(0o600)
    os.chown(path, 7, 8)
    step = write_file(path, "new", machine.runner)
    step.do(machine)
    assert path.read_bytes() == b"new"
    again: WriteFile = msgspec.json.decode(msgspec.json.encode(step), type=WriteFile)  # as from the record
    assert again.undo(machine) == ()
    status = path.stat()
    assert (path.read_bytes(), status.st_mode & 0o7777, status.st_uid, status.st_gid) == (
        b"\xff\x00old\r\n", 0o600, 7, 8,
    )  # fmt: skip


@pytest.mark.parametrize("had_one", [False, True], ids=["new", "replaced"])
def test_what_somebody_changed_since_stays(tmp_path: Path, machine: Machine, *, had_one: bool) -> None:
    """It is said, and not overwritten; neither is it done again over that."""
    path = tmp_path / "x"
    if had_one:
        path.write_text("before")
    step = write_file(path, "ours", machine.runner)
    step.do(machine)
    path.write_text("theirs")
    assert "changed by somebody else" in step.undo(machine)[0]
    assert path.read_text() == "theirs"
    with pytest.raises(StepFailed, match="changed by somebody else"):
        step.do(machine)


def test_what_somebody_removed_since_stays_away(tmp_path: Path, machine: Machine) -> None:
    """A file of ours that is gone is undone already; one that was there before is not made again."""
    path = tmp_path / "x"
    step = write_file(path, "ours", machine.runner)
    step.do(machine)
    path.unlink()
    assert step.undo(machine) == ()
    path.write_text("before")
    other = write_file(path, "ours", machine.runner)
    other.do(machine)
    path.unlink()
    assert "removed by somebody else" in other.undo(machine)[0]
    assert not path.exists()


def test_a_plan_shows_every_byte(tmp_path: Path, machine: Machine) -> None:
    """And what is put back."""
    step = write_file(tmp_path / "d" / "x", "one\ntwo\n", machine.runner, needs_root=True)
    assert step.describe(machine.runner) == (
        f"make the directory {tmp_path / 'd'} as root",
        f"write {tmp_path / 'd' / 'x'} as root (mode 0644):",
        "    one",
        "    two",
    )
    assert step.describe_undo(machine.runner) == (
        f"remove {tmp_path / 'd' / 'x'} as root",
        f"remove the directory {tmp_path / 'd'} as root, if it is empty",
    )


def test_commands_are_run_and_undone(tmp_path: Path, machine: Machine) -> None:
    """An attempt may fail, a step may not."""
    path = tmp_path / "x"
    step = Run(("touch", str(path)), ("rm", str(path)))
    step.do(machine)
    assert path.exists()
    step.undo(machine)
    assert not path.exists()
    with pytest.raises(CommandFailed):
        step.undo(machine)
    Run(("false",), ("false",), may_fail=True, undo_may_fail=True).do(machine)
    assert step.describe(machine.runner) == (f"run: touch {path}",)
    assert Run(undo_with=("true",)).describe(machine.runner) == ()


def test_a_variable_is_set_and_put_back_with_its_type() -> None:
    """And everybody is told."""
    for before in (None, ("%X%", 2)):
        registry = Registry(**({} if before is None else {"OLLAMA_HOST": before}))
        machine = Machine(Runner(as_root=True), registry)
        step = SetVariable("OLLAMA_HOST", "127.0.0.1:1", 1, before)
        step.do(machine)
        assert registry.get("OLLAMA_HOST") == ("127.0.0.1:1", 1)
        assert step.undo(machine) == ()
        assert registry.get("OLLAMA_HOST") == before
        assert registry.announced == 2


def test_a_variable_that_somebody_changed_stays() -> None:
    """In both directions."""
    registry = Registry(OLLAMA_HOST=("theirs", 1))
    machine, step = Machine(Runner(as_root=True), registry), SetVariable("OLLAMA_HOST", "ours", 1)
    assert "stays as it is" in step.undo(machine)[0]
    with pytest.raises(StepFailed):
        step.do(machine)
    assert registry.get("OLLAMA_HOST") == ("theirs", 1)


def test_it_waits_for_an_engine_and_for_a_free_port(machine: Machine) -> None:
    """And fails when the time is over."""
    with in_thread(ollama_surface()) as engine:
        WaitForEngine("ollama", engine.port).do(machine)
        with pytest.raises(StepFailed, match="did not become free"):
            WaitForRefused(engine.port, timeout_s=0.1).do(machine)
    WaitForRefused(engine.port).do(machine)
    with pytest.raises(StepFailed, match="did not answer"):
        WaitForEngine("ollama", engine.port, timeout_s=0.1).do(machine)


def test_a_wait_ends_when_somebody_asks_for_the_end() -> None:
    """At once, not after a minute."""
    machine = Machine(Runner(as_root=True), is_stopped=lambda: True)
    with pytest.raises(Stopped):
        WaitForEngine("ollama", free_port()).do(machine)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Run(("a",), ("b",), undo_in_order=True),
        lambda: SetVariable("A", "b", 1, ("c", 2)),
        lambda: WaitForEngine("lmstudio", 7),
        lambda: WaitForRefused(7),
        lambda: WriteFile("/x", "y", 0o644),
    ],
)
def test_a_step_comes_back_from_the_record_as_it_was(make: Callable[[], Step]) -> None:
    """It is all that is known after a crash."""
    step = make()
    assert msgspec.json.decode(msgspec.json.encode(step), type=Step) == step
