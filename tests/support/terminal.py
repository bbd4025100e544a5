"""A program on a terminal in memory: a real pty, and pyte, which draws what comes of it.

with Terminal([sys.executable, "-m", "pairproxy", "status", "--watch"], columns=80, lines=24) as terminal:
    terminal.until(lambda: "waiting" in terminal.text, "it draws")
    terminal.type("q")
    assert terminal.wait() == 0
"""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from typing import Any

import pyte

DEADLINE_S = 20.0
LOOK_S = 0.02
SETTLED_S = 0.05  # nothing more came for so long: what is there is a whole picture; they are 0.25 s apart
ENTERS, LEAVES = b"\x1b[?1049h", b"\x1b[?1049l"
HIDES, SHOWS = b"\x1b[?25l", b"\x1b[?25h"


class Terminal:
    """The program, what it wrote, and the screen."""

    def __init__(
        self,
        command: list[str],
        *,
        columns: int,
        lines: int,
        env: Mapping[str, str],
        stdin: int | None = None,
    ) -> None:
        """``stdin``: another standard input than the terminal."""
        self.screen = pyte.HistoryScreen(columns, lines, history=1000)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._master, slave = pty.openpty()
        self.resize(columns, lines, tell=False)
        self.modes_before = termios.tcgetattr(slave)
        self._slave = slave  # kept open, so that its modes can be asked for after the program
        self.process = subprocess.Popen(
            command,
            stdin=slave if stdin is None else stdin,
            stdout=slave,
            stderr=slave,
            env=dict(env),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one thread here
        )

    def resize(self, columns: int, lines: int, *, tell: bool = True) -> None:
        """Give it another size, as dragging a window does."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if tell:
            self.screen.resize(lines, columns)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen, without blanks at the right."""
        self._read()
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def scrolled(self) -> int:
        """How many lines went out at the top."""
        self._read()
        return len(self.screen.history.top)

    @property
    def modes(self) -> list[Any]:
        """The terminal's modes now."""
        return termios.tcgetattr(self._slave)

    def until(self, ask: Callable[[], object], what: str) -> None:
        """Read on until it is true of a whole picture; fails the test at the deadline."""
        end = time.monotonic() + DEADLINE_S
        while not ask() or self._read(SETTLED_S):
            assert time.monotonic() < end, f"not within {DEADLINE_S:.0f} s: {what}\n{self.text}"
            self._read(LOOK_S)

    def wait(self) -> int:
        """Read on until the program ends; its exit status."""
        self.until(lambda: self.process.poll() is not None, "it ends")
        self._read()
        assert self.process.returncode is not None
        return self.process.returncode

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does."""
        os.close(self._slave)
        os.close(self._master)
        self._slave = self._master = -1

    def _read(self, wait_s: float = 0.0) -> bool:
        """Whether anything came."""
        has_read = False
        while self._master >= 0 and select.select([self._master], [], [], wait_s)[0]:
            try:
                some = os.read(self._master, 65536)
            except OSError:
                break
            has_read = True
            self.raw += some
            self._stream.feed(some)
            wait_s = 0.0
        return has_read

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait(DEADLINE_S)
        for descriptor in (self._slave, self._master):
            if descriptor >= 0:
                os.close(descriptor)
