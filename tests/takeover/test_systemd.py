from pathlib import Path

import pytest
from msgspec import structs

from pairproxy.takeover.machine import Machine
from pairproxy.takeover.moving import CannotTake, Move, Owner, OwnerKind, Plan
from pairproxy.takeover.running import Runner
from pairproxy.takeover.steps import Run, WaitForEngine, WriteFile
from pairproxy.takeover.systemd import Systemd
from tests.support.stand_in_machine import UNIT, StandInMachine


def plan(machine: StandInMachine, *, hosts: tuple[str, ...] = ("127.0.0.1",)) -> Plan:
    """The plan for that machine's Ollama, as loaded now."""
    machine.systemctl("daemon-reload")
    kind: OwnerKind = "systemd-user" if machine.is_user else "systemd"
    owner = Owner(kind, machine.usual, hosts, 7, "ollama", unit=UNIT)
    move = Move("ollama", owner, machine.usual, machine.moved)
    assert Systemd().applies(move)
    return Systemd().plan(move, Machine(Runner(machine.environment())))


@pytest.fixture(params=[False, True], ids=["system", "user"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> StandInMachine:
    """One whose Ollama is a unit of the system, and one where it is the person's."""
    return StandInMachine(tmp_path, is_user=request.param)


def test_a_drop_in_a_reload_and_a_restart(machine: StandInMachine) -> None:
    """And nothing else; the unit's own file is left to its updates. As root only for the system's."""
    made = plan(machine)
    write, reload, restart, wait = made.steps
    assert isinstance(write, WriteFile)
    assert write.path == str(machine.drop_in)
    assert write.content.endswith(f'[Service]\nEnvironment="OLLAMA_HOST=127.0.0.1:{machine.moved}"\n')
    assert (write.mode, write.directories, write.before) == (0o644, (str(machine.drop_in.parent),), None)
    control = ("systemctl", *machine.user)
    assert isinstance(reload, Run)
    assert reload.argv == reload.undo_with == (*control, "daemon-reload")
    assert isinstance(restart, Run)
    assert restart.argv == restart.undo_with == (*control, "restart", UNIT)
    assert wait == WaitForEngine("ollama", machine.moved)
    assert {write.needs_root, reload.needs_root, restart.needs_root} == {not machine.is_user}
    assert made.warnings == ()


def test_an_exposed_engine_needs_a_yes(machine: StandInMachine) -> None:
    """Other machines lose it."""
    with (machine.units / UNIT).open("a") as unit:
        unit.write('Environment="OLLAMA_HOST=0.0.0.0"\n')
    (warning,) = plan(machine, hosts=("0.0.0.0",)).warnings
    assert "OLLAMA_HOST=0.0.0.0" in warning
    assert "Pair those machines" in warning


def test_an_environment_file_beats_a_drop_in(machine: StandInMachine) -> None:
    """So that is refused, unless it says nothing of the address."""
    path = machine.directory / "defaults"
    path.write_text("# OLLAMA_HOST=commented\nOLLAMA_MODELS=/x\n")
    with (machine.units / UNIT).open("a") as unit:
        unit.write(f"EnvironmentFile={path}\n")
    assert plan(machine).steps
    path.write_text("OLLAMA_HOST=0.0.0.0\n")
    with pytest.raises(CannotTake, match=f"reads OLLAMA_HOST from {path}.*127.0.0.1:{machine.moved}"):
        plan(machine)


def test_a_later_drop_in_beats_ours_and_an_earlier_does_not(machine: StandInMachine) -> None:
    """They apply in the order of their names; the directory is not ours to remove then."""
    machine.drop_in.parent.mkdir()
    text = '[Service]\nEnvironment="OLLAMA_HOST=0.0.0.0"\n'
    (machine.drop_in.parent / "override.conf").write_text(text)
    write = plan(machine).steps[0]
    assert isinstance(write, WriteFile)
    assert write.directories == ()
    (machine.drop_in.parent / "zzz.conf").write_text(text)
    with pytest.raises(CannotTake, match=r"zzz\.conf sets OLLAMA_HOST"):
        plan(machine)


def test_a_unit_that_is_not_ollamas_is_not_restarted(machine: StandInMachine) -> None:
    """A cron job's engine belongs to cron."""
    (machine.units / UNIT).write_text("[Service]\nExecStart=/usr/sbin/cron -f\n")
    with pytest.raises(CannotTake, match="not Ollama's own"):
        plan(machine)


def test_a_unit_that_systemd_does_not_know_is_left_alone(machine: StandInMachine) -> None:
    """It was removed while it ran."""
    (machine.units / UNIT).unlink()
    with pytest.raises(CannotTake, match="knows no unit"):
        plan(machine)


def test_a_drop_in_of_a_lost_record_is_not_restored(machine: StandInMachine) -> None:
    """Put back, it would keep the engine at its private port for ever; another port's has to go by hand."""
    write = plan(machine).steps[0]
    assert isinstance(write, WriteFile)
    machine.drop_in.parent.mkdir()
    machine.drop_in.write_text(write.content)
    again = plan(machine).steps[0]
    assert again == structs.replace(write, directories=())
    machine.drop_in.write_text(write.content.replace(str(machine.moved), "1"))
    with pytest.raises(CannotTake, match="left from an earlier takeover"):
        plan(machine)


def test_without_systemctl_it_is_said(tmp_path: Path) -> None:
    """Nothing is guessed."""
    owner = Owner("systemd", 1, ("127.0.0.1",), 7, "ollama", unit=UNIT)
    with pytest.raises(CannotTake, match="`systemctl` is not installed"):
        Systemd().plan(Move("ollama", owner, 1, 2), Machine(Runner({"PATH": str(tmp_path)})))
