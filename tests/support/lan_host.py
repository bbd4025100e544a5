"""One machine of a LAN in tests: its sockets, programs, cable and addresses. See tests.support.lan."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

MESSAGE_BYTES = 64 * 1024
POLL_S = 0.005
RUN_S = 30.0  # the longest that `ip`, `nft` and the like may take; they take milliseconds


class LanError(Exception):
    """The LAN could not be made or changed as a test asked for."""


class Inside:
    """A program in a host, to be used like a subprocess.Popen; it is no child of ours."""

    returncode: int | None = None

    def __init__(self, room: "Room", pid: int, stdin: IO[bytes] | None = None) -> None:
        self.pid = pid
        self.stdin = stdin
        self._room = room

    def poll(self) -> int | None:
        """Its exit status (minus the signal that killed it), None while it runs."""
        if self.returncode is None:
            self.returncode = self._room.how_ended(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises TimeoutExpired after ``timeout`` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"pid {self.pid}", timeout or 0.0)
            time.sleep(POLL_S)
        return status

    def send_signal(self, sig: int) -> None:
        """As Popen's: nothing happens to one that has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class Room:
    """The process that holds one set of namespaces, and the door through which it is asked. Thread-safe."""

    def __init__(self, name: str, pid: int, door: socket.socket) -> None:
        self.name = name
        self.pid = pid
        self._door = door
        self._lock = threading.Lock()

    def new_socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """A new socket of this room's network, for the test itself to use."""
        _, made = self._ask({"do": "socket", "family": family, "kind": kind})
        return socket.socket(fileno=made[0])

    def connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """A connection made from inside. Raises OSError as ``connect`` does."""
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = self.new_socket(family, kind)
        try:
            sock.settimeout(timeout_s)
            sock.connect(address)
        except OSError:
            sock.close()
            raise
        return sock

    def spawn(
        self,
        argv: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        environment: Mapping[str, str],
        is_pairproxy: bool = False,
    ) -> int:
        """Start a program inside; returns its pid. ``is_pairproxy``: ours, and ``argv`` is what follows."""
        order = {
            "do": "spawn",
            "argv": list(argv),
            "environment": dict(environment),
            "is_pairproxy": is_pairproxy,
        }
        answer, _ = self._ask(order, (stdin, stdout, stderr))
        return int(answer["pid"])

    def how_ended(self, pid: int) -> int | None:
        """The exit status of a program that was spawned here; None while it runs."""
        answer, _ = self._ask({"do": "ended", "pid": pid})
        status = answer["status"]
        return None if status is None else int(status)

    def run(self, *argv: str, text: str = "") -> str:
        """Run a small program inside and return what it said. Raises LanError if it fails."""
        reading, out = os.pipe()
        with open(reading, "rb") as said, _input(text) as given:  # noqa: PTH123
            try:
                environment = {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
                pid = self.spawn(argv, stdin=given, stdout=out, stderr=out, environment=environment)
            finally:
                os.close(out)
            words = said.read().decode()
        if status := Inside(self, pid).wait(RUN_S):
            raise LanError(f"{' '.join(argv)} in {self.name}: status {status}: {words.strip()}")
        return words

    def ip(self, *lines: str) -> None:
        """Change links and addresses: lines of ``ip -batch``."""
        self.run("ip", "-batch", "-", text="\n".join(lines) + "\n")

    def packets(self, interface: str) -> tuple[int, int]:
        """How many packets the interface (received, sent) since it was made, as the kernel counts."""
        for line in Path(f"/proc/{self.pid}/net/dev").read_text().splitlines():
            name, _, counts = line.partition(":")
            if name.strip() == interface:
                fields = counts.split()
                return int(fields[1]), int(fields[9])
        raise LanError(f"{self.name} has no interface {interface}")

    def pids(self) -> list[int]:
        """Every process inside but for the room's own."""
        own = _network_of(self.pid)
        running = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return [pid for pid in running if pid != self.pid and _network_of(pid) == own]

    def close(self) -> None:
        """Nothing more will be asked."""
        self._door.close()

    def _ask(self, order: Mapping[str, Any], given: Sequence[int] = ()) -> tuple[Any, list[int]]:
        with self._lock:
            socket.send_fds(self._door, [json.dumps(order).encode()], given)
            text, made, _, _ = socket.recv_fds(self._door, MESSAGE_BYTES, 4)
        answer = json.loads(text or b'{"error": "its process is gone"}')
        if "error" in answer:
            raise LanError(f"{self.name}: {answer['error']}")
        return answer, made


class Host(Room):
    """A machine on the LAN, whose ``eth0`` is plugged into the switch."""

    def __init__(self, room: Room, number: int, address: str, switch: Callable[..., None]) -> None:
        """``switch`` is Room.ip of the switch."""
        super().__init__(room.name, room.pid, room._door)
        self.number = number
        self.address = address
        self._switch = switch

    @property
    def port(self) -> str:
        """The end of its cable in the switch."""
        return f"p{self.number}"

    def unplug(self) -> None:
        """Pull the cable: the host sees that its carrier is gone."""
        self._switch(f"link set {self.port} down")

    def plug(self) -> None:
        """The cable again."""
        self._switch(f"link set {self.port} up")

    def cut(self) -> None:
        """Cut in silence: the carrier stays and every frame vanishes, as behind a switch that died."""
        self._switch(f"link set {self.port} nomaster")

    def heal(self, bridge: str = "br0") -> None:
        """Undo cut(), or plug into another bridge."""
        self._switch(f"link set {self.port} master {bridge}")

    def move_to(self, address: str, prefix: int = 24) -> None:
        """Another address in place of the old one, as after a renewal by DHCP."""
        self.ip(
            f"addr del {self.address}/{prefix} dev eth0",
            f"addr add {address}/{prefix} brd + dev eth0",
            f"route replace default via {address.rpartition('.')[0]}.254 dev eth0 onlink",
        )
        self.address = address

    def filter_in(self, *rules: str) -> None:
        """Rules of nft for what comes in, the only ones; none: everything passes."""
        body = "\n".join(rules)
        self.run(
            "nft",
            "-f",
            "-",
            text="table inet lan\ndelete table inet lan\ntable inet lan { chain into {\n"
            f"type filter hook input priority 0; policy accept;\n{body}\n}}\n}}\n",
        )

    def signal_all(self, number: signal.Signals) -> None:
        """A signal to every process of the host: SIGSTOP is a machine that hangs."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _network_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115 - it is a name, not a path
    except OSError:
        return None


@contextlib.contextmanager
def _input(text: str) -> Any:
    """A descriptor from which ``text`` can be read; shorter than a pipe holds (64 KiB)."""
    reading, writing = os.pipe()
    try:
        os.write(writing, text.encode())
        os.close(writing)
        yield reading
    finally:
        os.close(reading)
