"""Keeps the namespaces of a LAN: one room for the switch, one for each host. See tests.support.lan.

A process of its own, started by Nursery: it imports what programs in hosts will need, and forks a keeper for
each LAN, with as many rooms as it is given sockets. Nobody names the namespaces, so that they last exactly as
long as the processes in them. A room hands out sockets of its network, starts programs in it and says how
they ended. When the other end of the keeper's socket is closed, or its parent is gone, every process that is
in one of the rooms is killed, and with them go interfaces, rules and mounts.
"""

import contextlib
import ctypes
import errno
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x4000000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 1 << 18  # <linux/mount.h>; the lines above: <linux/sched.h>
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
MESSAGE_BYTES = 64 * 1024  # a command with its environment
MOST_ROOMS = 16  # descriptors in one message
SWEEPS = 200  # of 5 ms: a process that was killed is gone within a few

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _enter_new_room(name: str) -> None:
    """Leave for a network, a host name and mounts that nobody else has."""
    _checked(_libc.unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS), "unshare")
    encoded = name.encode()
    _checked(_libc.sethostname(encoded, len(encoded)), "sethostname")
    _checked(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
    _checked(_libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, b"mode=755"), "tmpfs on /run")
    # Looking up a name fails at once instead of after ten seconds.
    files = {
        "hosts": f"127.0.0.1 localhost {name}\n::1 localhost\n",
        "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
    }
    for file, text in files.items():
        Path("/run", file).write_text(text)
        real = os.path.realpath(f"/etc/{file}")
        if Path(real).exists():
            _checked(_libc.mount(f"/run/{file}".encode(), real.encode(), None, MS_BIND, None), file)


def _enter_own_users() -> None:
    """Become root of a user namespace, as anybody may where the kernel allows it."""
    user, group = os.getuid(), os.getgid()
    _checked(_libc.unshare(CLONE_NEWUSER), "unshare users")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


class _Room:
    """What a room's process does: answers one request at a time until nobody is left to ask."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._ended: dict[int, int] = {}

    def serve(self) -> None:
        """Answer until the other end of the door is closed."""
        do: dict[str, Callable[[dict[str, Any], list[int]], tuple[Any, list[int]]]] = {
            "socket": self._socket,
            "spawn": self._spawn,
            "ended": self._how_ended,
        }
        while True:
            text, given, _, _ = socket.recv_fds(self._door, MESSAGE_BYTES, 4)
            if not text:
                return
            made: list[int] = []
            try:
                order = json.loads(text)
                answer, made = do[order["do"]](order, given)
            except OSError as error:
                answer = {"error": f"{error.strerror} ({error.errno})"}
            socket.send_fds(self._door, [json.dumps(answer).encode()], made)
            for descriptor in (*given, *made):
                os.close(descriptor)

    def _socket(self, order: dict[str, Any], given: list[int]) -> tuple[Any, list[int]]:
        return {}, [socket.socket(order["family"], order["kind"]).detach()]

    def _spawn(self, order: dict[str, Any], given: list[int]) -> tuple[Any, list[int]]:
        pid = os.fork()
        if pid == 0:
            self._become(order, given)
        return {"pid": pid}, []

    def _become(self, order: dict[str, Any], given: list[int]) -> None:
        """In the child: take the three descriptors, be the program, never return."""
        status = 127
        try:
            os.setsid()
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for place, descriptor in enumerate(given):
                os.dup2(descriptor, place)
            os.closerange(3, 256)
            if order["is_pairproxy"]:
                status = _run_pairproxy(order["argv"], order["environment"])
            else:
                os.execvpe(order["argv"][0], order["argv"], order["environment"])  # noqa: S606
        except BaseException:  # noqa: BLE001 - told where the program's own words go
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _how_ended(self, order: dict[str, Any], given: list[int]) -> tuple[Any, list[int]]:
        pid = order["pid"]
        if pid not in self._ended:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self._ended[pid] = os.waitstatus_to_exitcode(status)
        return {"status": self._ended.get(pid)}, []


def _run_pairproxy(arguments: list[str], environment: dict[str, str]) -> int:
    """Be the pairproxy command, with everything imported already: half of a start is importing."""
    from pairproxy import cli

    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["pairproxy", *arguments]
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    try:
        cli.main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _network_of(pid: int | str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115 - it is a name, not a path
    except OSError:
        return None


def _sweep(rooms: set[str]) -> None:
    """Kill everything that is in one of these networks, but for this process."""
    own = os.getpid()
    for _ in range(SWEEPS):
        inside = [int(one) for one in os.listdir("/proc") if one.isdigit() and _network_of(one) in rooms]  # noqa: PTH208
        for pid in inside:
            if pid != own:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        if not set(inside) - {own}:
            return
        time.sleep(0.005)


def _make_room(name: str, number: int, others: list[int]) -> int:
    """Fork a room's process and wait until it is inside; returns its id."""
    ready, told = os.pipe()
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        os.close(told)
        with open(ready, "rb") as pipe:  # noqa: PTH123
            if (words := pipe.read()) != b"ready":
                raise OSError(errno.EPERM, words.decode() or "the room's process died")
        return pid
    try:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)
        for descriptor in (ready, *others):
            os.close(descriptor)
        _enter_new_room(name)
        os.write(told, b"ready")
        os.close(told)
        _Room(socket.socket(fileno=number)).serve()
    except OSError as error:
        os.write(told, str(error).encode())
    finally:
        os._exit(1)


def _keep(order: dict[str, Any], life: socket.socket, doors: list[int]) -> None:
    """Make the rooms, say where they are, wait until ``life`` ends, and leave nothing."""
    parent = os.getppid()
    try:
        if order["has_own_users"]:
            _enter_own_users()
        rooms = {
            name: _make_room(name, door, [life.fileno(), *(one for one in doors if one != door)])
            for name, door in zip(order["names"], doors, strict=True)
        }
    except OSError as error:
        life.send(json.dumps({"error": str(error)}).encode())
        return
    for door in doors:
        os.close(door)
    networks = {network for pid in rooms.values() if (network := _network_of(pid))}
    networks.discard(str(_network_of(parent)))
    life.send(json.dumps({"keeper": os.getpid(), "rooms": rooms}).encode())
    while os.getppid() == parent:
        readable, _, _ = select.select([life], [], [], 0.5)
        if readable and not life.recv(16):
            break
    _sweep(networks)


def main() -> None:
    """Import what is named, then make a LAN whenever asked to, until nobody is left to ask."""
    control = socket.socket(fileno=0)
    for module in sys.argv[1:]:
        importlib.import_module(module)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        text, given, _, _ = socket.recv_fds(control, MESSAGE_BYTES, MOST_ROOMS + 1)
        if not text:
            return
        if os.fork() == 0:
            control.detach()  # its descriptor is 0
            try:
                os.close(0)
                _keep(json.loads(text), socket.socket(fileno=given[0]), given[1:])
            except BaseException:  # noqa: BLE001 - told where pytest shows it
                traceback.print_exc()
            finally:
                os._exit(0)
        for descriptor in given:
            os.close(descriptor)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


if __name__ == "__main__":
    main()
