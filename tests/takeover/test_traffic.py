"""What `ollama run` asks, before, during and after a takeover and a release."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import ollama
import pytest

from pairproxy.loading import load
from pairproxy.takeover import acting
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.running import Runner
from tests.support.daemons import Daemons, until
from tests.support.fake_ollama_reply import MODEL
from tests.support.stand_in_machine import StandInMachine

AROUND_S = 0.3  # between two looks of whoever measures the gap, on a machine that is busy


@dataclass
class Person:
    """Runs `ollama run` again and again, each time as a new program."""

    port: int
    rounds: int = 0
    refused: list[tuple[float, float]] = field(default_factory=list)
    """When a call that was refused began, and when that was known."""
    broken: list[tuple[float, str]] = field(default_factory=list)
    """When a call failed that was not refused, and why."""

    def __post_init__(self) -> None:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="person", daemon=True)

    @contextmanager
    def at_work(self) -> Iterator["Person"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._end.set()
            self._thread.join(30)

    def several_rounds(self) -> None:
        """Wait until some more are over."""
        now = self.rounds
        until(lambda: self.rounds >= now + 3, "calls succeed")

    def _go_on(self) -> None:
        while not self._end.is_set():
            asked_at = time.monotonic()
            try:
                self._run()
                self.rounds += 1
            except (ConnectionError, httpx.ConnectError):
                self.refused.append((asked_at, time.monotonic()))
                time.sleep(0.005)
            except Exception as error:  # noqa: BLE001 whatever it is, it is judged below
                self.broken.append((time.monotonic(), repr(error)))

    def _run(self) -> None:
        """The calls of cmd/cmd.go, in their order: HEAD /, show, load, chat."""
        host = f"http://127.0.0.1:{self.port}"
        httpx.head(host).raise_for_status()
        with ollama.Client(host) as client:
            assert client.show(MODEL).details is not None
            client.generate(MODEL, "")
            parts = list(client.chat(MODEL, [{"role": "user", "content": "hello"}], stream=True))
            assert parts[-1].done


def test_a_person_notices_the_restart_and_nothing_else(tmp_path: Path) -> None:
    """Refused only within the printed gap; broken off at most what was in flight; no call fails later."""
    with StandInMachine(tmp_path / "box") as box, Daemons(tmp_path) as daemons:
        box.start()
        daemons.home("A", box.config())
        (node,) = daemons.start("A")
        machine = Machine(Runner(box.environment()))
        with Person(box.usual).at_work() as person:
            person.several_rounds()
            assert (person.refused, person.broken) == ([], [])
            (one,) = acting.look(node.home, load(node.home / "config.toml", {}, {}), machine)
            taken = acting.take_one(node.home, one, machine, print, is_now=True)
            assert taken.problem is None
            _check(person, taken.gap_s)
            person.several_rounds()
            _check(person, taken.gap_s)
            person.refused.clear()
            person.broken.clear()
            (released,) = acting.release_all(node.home, machine, print)
            assert released.problem is None
            person.several_rounds()
            _check(person, released.gap_s)


def _check(person: Person, gap_s: float | None) -> None:
    assert gap_s is not None
    span = person.refused[-1][0] - person.refused[0][1] if person.refused else 0.0
    assert span <= gap_s + AROUND_S, f"refused for {span:.2f} s, and {gap_s:.2f} s are told"
    assert len(person.broken) <= 1, person.broken


@pytest.mark.slow
def test_requests_that_come_in_the_middle_wait_for_the_engine(tmp_path: Path) -> None:
    """The engine takes two seconds to be restarted after the port is pairproxy's: nobody gets an error."""
    with StandInMachine(tmp_path / "box") as box, Daemons(tmp_path) as daemons:
        box.start()
        daemons.home("A", box.config())
        (node,) = daemons.start("A")
        machine = Machine(Runner(box.environment()))
        settings = load(node.home / "config.toml", {}, {})
        (one,) = acting.look(node.home, settings, machine)
        (box.run / "late").write_text("2")
        thread = threading.Thread(target=lambda: acting.take_one(node.home, one, machine, print), daemon=True)
        thread.start()
        until(lambda: node.status().ports[0].state == "open", "the port is had before the engine is up")
        with ollama.Client(f"http://127.0.0.1:{box.usual}") as client:
            assert client.generate(MODEL, "hello").done
        thread.join(30)
        acting.release_all(node.home, machine, print)
