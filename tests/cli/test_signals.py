"""SIGHUP with and without a terminal: in a process of its own, whose terminal the test takes away."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.cli.signals import has_terminal

PROGRAM = """
import asyncio, os, sys
from pairproxy.cli.signals import on_signals

async def main():
    stopped = asyncio.Event()
    on_signals(stopped.set, lambda: os.write(1, b"reread;"))
    os.write(1, b"ready;")
    await stopped.wait()
    os.write(1, b"stopped;")

asyncio.run(main())
"""
DEADLINE_S = 30.0


class Program:
    """It says on a pipe what it is told; with a terminal it is the leader of that terminal's session."""

    def __init__(self, *, with_terminal: bool, nohup: bool = False) -> None:
        self.master, slave = pty.openpty()
        number = slave if with_terminal else None

        def prepare() -> None:
            if number is not None:
                fcntl.ioctl(number, termios.TIOCSCTTY, 0)
            if nohup:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)

        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=slave,
            stdout=subprocess.PIPE,
            start_new_session=True,
            pass_fds=(slave,),
            preexec_fn=prepare,  # noqa: PLW1509 - only so it gets a terminal of its own
        )
        os.close(slave)
        self.says("ready")

    def says(self, word: str) -> None:
        """It has said this word next."""
        assert self.process.stdout is not None
        said = b""
        while not said.endswith(b";"):
            part = os.read(self.process.stdout.fileno(), 1)
            assert part, f"it ended instead of saying {word}"
            said += part
        assert said == f"{word};".encode()

    def lose_terminal(self) -> None:
        """Close the window that it runs in."""
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        """End it, however the test ended."""
        if self.master >= 0:
            os.close(self.master)
        self.process.kill()
        self.process.wait(DEADLINE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    """Those that the test started are ended after it."""
    started: list[Program] = []
    yield started
    for one in started:
        one.close()


def test_hang_up_rereads_while_the_terminal_lives_and_stops_when_it_went(programs: list[Program]) -> None:
    """kill -HUP from elsewhere is a wish to reread; the window that closes ends what runs in it."""
    programs.append(program := Program(with_terminal=True))
    program.process.send_signal(signal.SIGHUP)
    program.says("reread")
    program.lose_terminal()
    program.says("stopped")
    assert program.process.wait(DEADLINE_S) == 0


def test_without_a_terminal_hang_up_always_rereads(programs: list[Program]) -> None:
    """A service has no window that could close."""
    programs.append(program := Program(with_terminal=False))
    for _ in range(2):
        program.process.send_signal(signal.SIGHUP)
        program.says("reread")
    program.process.send_signal(signal.SIGTERM)
    program.says("stopped")


def test_under_nohup_the_window_that_closes_ends_nothing(programs: list[Program]) -> None:
    """Who asked to survive the terminal does; SIGTERM still stops it."""
    programs.append(program := Program(with_terminal=True, nohup=True))
    program.lose_terminal()
    program.says("reread")  # the kernel's SIGHUP, to the leader of the session
    program.process.send_signal(signal.SIGTERM)
    program.says("stopped")


def test_asking_for_the_terminal_takes_none(programs: list[Program]) -> None:
    """Looking for one, twice, gives the same answer and leaves no descriptor open."""
    before = len(list(Path("/dev/fd").iterdir()))
    assert has_terminal() == has_terminal()
    assert len(list(Path("/dev/fd").iterdir())) == before
