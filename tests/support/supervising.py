"""A small service manager for tests: speaks systemd's protocol with one daemon, and restarts it.

    with Supervisor(command, environment) as supervisor:
        supervisor.until_ready()
        supervisor.kill()          # the next life gets the sockets that the last one gave to be kept
        supervisor.until_ready()

It keeps what comes with FDSTORE=1, passes it as LISTEN_FDS, and forgets it when it is told to, or stops.
"""

import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Self

END_S = 15.0
READY_S = 30.0

# Moves the sockets to 3, 4, ... and becomes the daemon, so that LISTEN_PID is right.
_BECOME = """
import os, sys
given, command = [int(one) for one in sys.argv[1].split(",") if one], sys.argv[2:]
high = [os.dup2(one, 100 + place) for place, one in enumerate(given)]
os.closerange(3, 100)
for place, one in enumerate(high):
    os.dup2(one, 3 + place, inheritable=True)
os.closerange(3 + len(high), 300)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execvpe(command[0], command, os.environ)
"""


def become(given: Sequence[int], command: Sequence[str]) -> list[str]:
    """A command line that runs ``command`` with these descriptors as 3, 4, ... and LISTEN_PID right."""
    return [sys.executable, "-c", _BECOME, ",".join(map(str, given)), *command]


class Supervisor:
    """Starts ``command``, again whenever it ends, until the block is left; a context manager."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        log: IO[bytes] | None = None,
        watchdog_s: float | None = None,
        is_abstract: bool = False,
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._log = log
        self._watchdog_s = watchdog_s
        self._directory = tempfile.TemporaryDirectory()
        path = f"{self._directory.name}/notify"
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._door.bind(f"\0{path}" if is_abstract else path)
        self._told_at = f"@{path}" if is_abstract else path
        self._lock = threading.Condition()
        self._is_ending = False
        self.kept: dict[str, socket.socket] = {}
        self.said: list[dict[str, str]] = []
        """Every message, as its words."""
        self.lives = 0
        self.pid = 0
        self._ready_of = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._look_after, daemon=True),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for sock in (self._door, *self.kept.values()):
            sock.close()
        self._directory.cleanup()

    def until_ready(self, life: int | None = None) -> None:
        """Return when the daemon of this life (the first: 1; None: of the present one) said READY=1."""
        with self._lock:
            wanted = life or max(self.lives, 1)
            assert self._lock.wait_for(lambda: self._ready_of >= wanted, READY_S), self.said

    def until_said(self, key: str, value: str = "1", count: int = 1) -> None:
        """Return when this was said so often."""

        def often() -> bool:
            return sum(one.get(key) == value for one in self.said) >= count

        with self._lock:
            assert self._lock.wait_for(often, READY_S), self.said

    def kill(self) -> None:
        """kill -9; returns when it is dead. It is started again."""
        process = self._process
        assert process is not None
        process.kill()
        process.wait(END_S)

    def restart(self) -> None:
        """SIGTERM; it is started again when it has ended."""
        assert self._process is not None
        self._process.terminate()

    def stop(self) -> int | None:
        """End the daemon for good and close what was kept; its exit status."""
        with self._lock:
            self._is_ending = True
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        self._threads[1].join(END_S)
        with self._lock:
            for sock in self.kept.values():
                sock.close()
            self.kept.clear()
        return self._process.returncode if self._process is not None else None

    def _look_after(self) -> None:
        while True:
            with self._lock:
                if self._is_ending:
                    return
                self._process = self._start()
                self.lives += 1
                self.pid = self._process.pid
            self._process.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        environment = self._environment | {"NOTIFY_SOCKET": self._told_at}
        if self._watchdog_s is not None:
            environment["WATCHDOG_USEC"] = str(int(self._watchdog_s * 1e6))
        descriptors = [sock.fileno() for sock in self.kept.values()]
        if self.kept:
            environment |= {"LISTEN_FDS": str(len(self.kept)), "LISTEN_FDNAMES": ":".join(self.kept)}
        return subprocess.Popen(
            become(descriptors, self._command),
            env=environment,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def _listen(self) -> None:
        while True:
            try:
                select.select([self._door], [], [], 0.2)
                self._door.setblocking(False)
                text, given, _, _ = socket.recv_fds(self._door, 8192, 8)
            except BlockingIOError:
                continue
            except (OSError, ValueError):
                return
            words = dict(line.partition("=")[::2] for line in text.decode().splitlines())
            with self._lock:
                self._hear(words, given)
                self._lock.notify_all()

    def _hear(self, words: dict[str, str], given: Sequence[int]) -> None:
        self.said.append(words)
        name = words.get("FDNAME", "stored")
        if words.get("FDSTORE") == "1":
            for one in given:
                if name in self.kept or self._is_ending:
                    os.close(one)
                else:
                    self.kept[name] = socket.socket(fileno=one)
        if words.get("FDSTOREREMOVE") == "1" and name in self.kept:
            self.kept.pop(name).close()
        if words.get("READY") == "1":
            self._ready_of = self.lives
