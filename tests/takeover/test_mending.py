"""An engine that is back on its old port, mended with real steps on a stand-in machine."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pairproxy.takeover import record
from pairproxy.takeover.asking import answers
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.mending import EVERY_S, LOOK_EVERY_S, MOST_TRIES, Mending
from pairproxy.takeover.moving import Move, Owner
from pairproxy.takeover.record import Record, Taken
from pairproxy.takeover.running import Runner
from pairproxy.takeover.systemd import Systemd
from tests.support.running import run_async
from tests.support.stand_in_machine import UNIT, StandInMachine


class Daemon:
    """What a Mending needs of one: a clock, tasks, a front."""

    def __init__(self, home: Path, box: StandInMachine, *, as_root: bool = True) -> None:
        self.now, self.wanted, self.is_idle = 0.0, list[str](), True
        self._tasks: set[asyncio.Task[Any]] = set()
        machine = Machine(Runner(box.environment(), as_root=as_root, may_ask=False))
        self.mending = Mending(
            home, lambda: self.now, self._spawn, self.wanted.append, lambda _: self.is_idle, machine
        )

    def _spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(work, name=name))

    async def back(self) -> str:
        """Tell that the engine is back, as a front does; what is said when that was looked at."""
        self.mending.back("ollama")
        await asyncio.gather(*self._tasks)
        self._tasks.clear()
        said = self.mending.back("ollama")
        self.now += LOOK_EVERY_S
        return said


@pytest.fixture
def box(tmp_path: Path) -> Iterator[StandInMachine]:
    """A machine whose Ollama is at its usual port."""
    with StandInMachine(tmp_path / "box") as machine:
        machine.start()
        yield machine


def remember(home: Path, box: StandInMachine, **changes: Any) -> None:
    """A record that says that it was taken over."""
    owner = Owner("systemd", box.usual, ("127.0.0.1",), box.pid(), "ollama", unit=UNIT)
    machine = Machine(Runner(box.environment()))
    steps = Systemd().plan(Move("ollama", owner, box.usual, box.moved), machine).steps
    taken = Taken("ollama", box.usual, box.moved, "systemd", "ollama", steps, len(steps), is_done=True)
    record.write(home, Record((structs.replace(taken, **changes),)))


def test_what_was_not_taken_over_is_not_its_affair(home: Path, box: StandInMachine) -> None:
    """Nor is a takeover that is still going on."""

    async def scene() -> None:
        daemon = Daemon(home, box)
        assert await daemon.back() == ""
        remember(home, box, is_done=False)
        assert await daemon.back() == ""
        assert daemon.wanted == []

    run_async(scene())


def test_the_steps_are_done_again(home: Path, box: StandInMachine) -> None:
    """The front is told before; the engine is at its private port afterwards."""

    async def scene() -> None:
        remember(home, box)
        daemon = Daemon(home, box)
        said = await daemon.back()
        assert said.startswith(f"Ollama is back on port {box.usual}")
        assert said.endswith("It was moved again just now.")
        assert daemon.wanted == ["ollama"]
        assert await asyncio.to_thread(answers, "ollama", box.moved)
        assert box.drop_in.exists()

    run_async(scene())


def test_without_root_it_says_what_a_person_can_do(home: Path, box: StandInMachine) -> None:
    """A daemon never asks for a password."""

    async def scene() -> None:
        remember(home, box)
        daemon = Daemon(home, box, as_root=False)
        box.fail(None)
        assert "Run `pairproxy takeover` to move it again." in await daemon.back()
        assert box.calls() == []
        assert daemon.wanted == []

    run_async(scene())


def test_it_tries_three_times_a_minute_apart_and_then_only_says(home: Path, box: StandInMachine) -> None:
    """Each try restarts the engine; when the engine was well in between it counts anew."""

    async def scene() -> None:
        remember(home, box)
        daemon = Daemon(home, box)
        (box.bin / "systemctl").unlink()
        (box.bin / "systemctl").symlink_to("/bin/false")
        for number in range(MOST_TRIES):
            assert "Moving it again failed" in await daemon.back()
            assert len(daemon.wanted) == number + 1
            assert "Moving it again failed" in await daemon.back(), "within a minute it stays said"
            daemon.now += EVERY_S
        assert "Run `pairproxy takeover` to move it again." in await daemon.back()
        assert len(daemon.wanted) == MOST_TRIES
        daemon.mending.well("ollama")
        assert "Moving it again failed" in await daemon.back()

    run_async(scene())


def test_an_engine_in_use_is_left_until_it_is_not(home: Path, box: StandInMachine) -> None:
    """Whoever uses it is not broken off: a program here, and a paired machine through the daemon."""

    async def scene() -> None:
        remember(home, box)
        daemon = Daemon(home, box)
        daemon.is_idle = False
        assert "as soon as nobody uses it" in await daemon.back()
        assert daemon.wanted == []
        daemon.is_idle = True
        assert "moved again just now" in await daemon.back()

    run_async(scene())


def test_a_record_that_cannot_be_read_is_said(home: Path, box: StandInMachine) -> None:
    """It does not end the daemon."""

    async def scene() -> None:
        (home / record.RECORD_FILE).write_text("{")
        (home / record.RECORD_FILE).chmod(0o600)
        assert "cannot be read as an undo record" in await Daemon(home, box).back()

    run_async(scene())
