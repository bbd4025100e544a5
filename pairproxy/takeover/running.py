"""Running the commands of the system: an argument list, found on PATH, bounded in time and output.

The only place from which systemctl, launchctl, lms, sudo and their like are called.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from pairproxy.core.errors import SetupError

TIMEOUT_S = 120.0  # systemd gives a unit 90 s to stop before it kills it; everything else takes a moment
OUTPUT_BYTES = 1024 * 1024  # of each stream; `docker ps` of a thousand containers has a tenth
DRAIN_S = 0.5  # after its end: a child that it left behind may keep the pipe open for ever
SAID_CHARACTERS = 300  # of a failed command's words, in a sentence


class CommandFailed(SetupError):
    """A command of the system is missing, took too long or said no; the sentence tells which and why."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a command answered. ``status``: its exit status."""

    argv: tuple[str, ...]
    status: int
    out: str
    err: str

    @property
    def is_ok(self) -> bool:
        """Whether it said yes."""
        return self.status == 0

    @property
    def why(self) -> str:
        """Its last words, for a sentence: one line, printable, bounded."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        words = " / ".join(lines[-3:]) or f"exit status {self.status}"
        return "".join(one for one in words if one.isprintable())[:SAID_CHARACTERS]


def _joined(argv: Sequence[str]) -> str:
    """A command as a person would type it."""
    if sys.platform == "win32":
        return subprocess.list2cmdline(argv)
    else:
        return shlex.join(argv)


def is_root() -> bool:
    """Whether this process may change what belongs to the system; on Windows it is never asked."""
    return True if sys.platform == "win32" else os.geteuid() == 0


class Runner:
    """Runs commands. ``environment``: theirs, PATH included; None: that of this process.

    ``may_ask``: whether sudo may ask for a password, on this process's terminal.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        as_root: bool | None = None,
        may_ask: bool = True,
    ) -> None:
        """``as_root``: whether this process is root already; None: asked of the system."""
        self.environment = dict(os.environ if environment is None else environment)
        self.is_root = is_root() if as_root is None else as_root
        self._may_ask = may_ask

    def which(self, name: str) -> str | None:
        """The program of that name on PATH (or the path itself, if it may be run); None if there is none."""
        return shutil.which(name, path=self.environment.get("PATH", os.defpath))

    def shown(self, argv: Sequence[str], *, needs_root: bool = False) -> str:
        """A command as a person would type it."""
        return _joined(["sudo", *argv] if needs_root and not self.is_root else argv)

    def run(
        self,
        argv: Sequence[str],
        *,
        needs_root: bool = False,
        text: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Done:
        """Run it to its end, ``text`` as its input.

        Raises CommandFailed if it is missing or takes too long.
        """
        words = self._with_sudo(argv) if needs_root and not self.is_root else list(argv)
        program = self.which(words[0])
        if program is None:
            raise CommandFailed(
                f"`{words[0]}` is not installed, or not on PATH: `{_joined(argv)}` cannot be run."
            )
        try:
            process = subprocess.Popen(
                [program, *words[1:]],
                stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self.environment,
            )
        except OSError as error:
            raise CommandFailed(f"`{_joined(argv)}` cannot be run: {error.strerror}.") from None
        return _finished(process, tuple(argv), None if text is None else text.encode(), timeout_s)

    def do(
        self,
        argv: Sequence[str],
        *,
        needs_root: bool = False,
        text: str | None = None,
        timeout_s: float = TIMEOUT_S,
        accepted: int | None = None,
    ) -> Done:
        """run(), and CommandFailed also if it says no, with another exit status than ``accepted``."""
        done = self.run(argv, needs_root=needs_root, text=text, timeout_s=timeout_s)
        if done.status not in (0, accepted):
            raise CommandFailed(f"`{self.shown(argv, needs_root=needs_root)}` failed: {done.why}.")
        return done

    def _with_sudo(self, argv: Sequence[str]) -> list[str]:
        if self.which("sudo") is None:
            raise CommandFailed(
                f"`{_joined(argv)}` needs root, and there is no sudo here. Install sudo, or do as root "
                "what --dry-run shows, by hand: the daemon follows an engine that has moved."
            )
        return ["sudo", *([] if self._may_ask else ["-n"]), *argv]


def _finished(
    process: "subprocess.Popen[bytes]", argv: tuple[str, ...], text: bytes | None, timeout_s: float
) -> Done:
    """Read what it says until it ends. Its pipes may outlive it: they are given half a second more."""
    assert process.stdout is not None and process.stderr is not None  # noqa: S101 PT018 both are pipes
    readers = [_Reader(process.stdout), _Reader(process.stderr)]
    if text is not None and process.stdin is not None:
        with contextlib.suppress(OSError):  # it ended without reading: its status says why
            process.stdin.write(text)
            process.stdin.close()
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):  # of root, behind sudo: then it goes on
            process.kill()
        raise CommandFailed(f"`{_joined(argv)}` did not end within {timeout_s:.0f} s.") from None
    until = time.monotonic() + DRAIN_S
    out, err = (reader.text(until) for reader in readers)
    return Done(argv, status, out, err)


class _Reader:
    """Takes everything from a pipe, keeps the beginning."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, name="command's output", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._pipe:
            while part := os.read(self._pipe.fileno(), 65536):
                self._kept += part[: max(0, OUTPUT_BYTES - len(self._kept))]

    def text(self, until: float) -> str:
        """What came by ``until``."""
        self._thread.join(max(0.0, until - time.monotonic()))
        return bytes(self._kept).decode(errors="replace")
