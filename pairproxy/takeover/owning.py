"""Who holds a port of loopback: which process, and what started it. Looks only; nothing is ended here."""

import contextlib
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from pairproxy.proxy.listening import is_pairproxy
from pairproxy.security.peer_record import printable
from pairproxy.takeover import cgroups, elsewhere
from pairproxy.takeover.moving import Owner
from pairproxy.takeover.running import CommandFailed, Runner

_LOOPBACK_OR_ALL = ("127.", "::1", "0.0.0.0", "::")
_UNITS_ASKED = ("ollama.service",)  # asked for their main process where the cgroup of one tells nothing
_PUBLISHERS = (
    "docker-proxy",
    "rootlessport",
    "slirp4netns",
    "pasta",
    "conmon",
    "gvproxy",
    "com.docker.backend",
)
"""Processes that listen for a container."""


@dataclass(frozen=True, slots=True)
class Process:
    """What the system tells of a process; empty where it does not."""

    pid: int | None
    name: str = ""
    executable: str = ""
    command: tuple[str, ...] = ()
    uid: int | None = None
    user: str = ""
    cgroup: str = ""  # the text of /proc/PID/cgroup
    has_terminal: bool = False
    ancestors: tuple[int, ...] = ()
    started_by: tuple[str, ...] = ()  # the names of its parent, of that one's parent, ...


def owner_of(port: int, runner: Runner) -> Owner | None:
    """Who listens on ``port`` of 127.0.0.1, ::1 or every address; None if nobody does."""
    listening = _listening(port)
    if not listening:
        return None
    hosts = tuple(dict.fromkeys(str(one.laddr.ip) for one in listening))
    pid = next((one.pid for one in listening if one.pid), None)
    process = process_of(pid) if pid is not None else _hidden(port)
    return classify(process, port, hosts, runner, _own_cgroup(), _own_uid())


def classify(
    process: Process, port: int, hosts: tuple[str, ...], runner: Runner, own_cgroup: str, own_uid: int | None
) -> Owner:
    """Which kind of owner a process is."""

    def owner(kind: Any, unit: str = "") -> Owner:
        return Owner(
            kind, port, hosts, process.pid, printable(process.name), printable(process.user), unit,
            process.executable, process.command,
        )  # fmt: skip

    if is_pairproxy(process.command):
        return owner("pairproxy")
    if process.name in _PUBLISHERS:
        return owner("container", _container_at(port, runner))
    where = cgroups.read(process.cgroup, own_cgroup)
    if where.kind == "container":
        return owner("container", _container_at(port, runner) or where.unit[:12])
    if where.kind != "":
        is_other = where.kind == "systemd-user" and None not in (own_uid, where.uid) and where.uid != own_uid
        return owner("other-user" if is_other else where.kind, where.unit)
    by_path = elsewhere.of(process.executable, process.has_terminal, process.started_by)
    if by_path is not None:
        return owner(*by_path)
    asked = _unit_with(process, runner)
    if asked is not None:
        return owner(*asked)
    if process.uid is not None and own_uid is not None and process.uid != own_uid and own_uid != 0:
        return owner("other-user")
    if Path(process.executable or process.name).name in ("ollama", "ollama.exe") or process.has_terminal:
        return owner("terminal")
    return owner("unknown")


def process_of(pid: int) -> Process:
    """What the system tells of a process."""
    told: dict[str, Any] = {}
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        told["name"] = process.name()
        for key, look in (
            ("executable", process.exe),
            ("command", lambda: tuple(process.cmdline())),
            ("user", process.username),
            ("ancestors", lambda: tuple(one.pid for one in process.parents())),
            ("started_by", lambda: tuple(one.name() for one in process.parents())),
            ("has_terminal", lambda: getattr(process, "terminal", lambda: None)() is not None),
            ("uid", lambda: getattr(process, "uids", lambda: (None,))()[0]),
        ):
            with contextlib.suppress(psutil.Error, OSError, AttributeError):
                told[key] = look()
    return Process(pid, cgroup=_text(Path(f"/proc/{pid}/cgroup")), **told)


def clients_of(port: int, without: Iterable[int]) -> tuple[str, ...]:
    """Who is connected to ``port`` now, each in a few words; processes ``without`` do not count.

    A connection may be kept open with nothing asked on it: that cannot be told from outside.
    """
    left_out = {*without, os.getpid()}
    connections = [one for one in _connections() if one.status == psutil.CONN_ESTABLISHED and one.raddr]
    ends = {(one.laddr.ip, one.laddr.port): one.pid for one in connections if one.raddr.port == port}
    told = []
    for one in connections:
        if one.laddr.port != port:
            continue
        pid = ends.get((one.raddr.ip, one.raddr.port))
        if (
            pid is None
            and (one.raddr.ip, one.raddr.port) not in ends
            and one.raddr.ip.startswith(("127.", "::1"))
        ):
            continue  # its client is gone already
        if pid not in left_out:
            told.append(_named(pid, one.raddr.ip))
    return tuple(told)


def _named(pid: int | None, host: str) -> str:
    if pid is None:
        return "a program of another user" if host.startswith(("127.", "::1")) else f"{host}"
    with contextlib.suppress(psutil.Error):
        return f"{printable(psutil.Process(pid).name())} (pid {pid})"
    return f"pid {pid}"


def _listening(port: int) -> list[Any]:
    return [
        one
        for one in _connections()
        if one.status == psutil.CONN_LISTEN
        and one.laddr.port == port
        and str(one.laddr.ip).startswith(_LOOPBACK_OR_ALL)
    ]


def _connections() -> list[Any]:
    """Every TCP connection that the system shows; on macOS only root sees those of others."""
    with contextlib.suppress(psutil.Error, OSError):
        return list(psutil.net_connections(kind="tcp"))
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            found += [one._replace(pid=process.pid) if hasattr(one, "pid") else _with_pid(one, process.pid)
                      for one in process.net_connections(kind="tcp")]  # fmt: skip
    return found


@dataclass(frozen=True, slots=True)
class _Connection:
    status: str
    laddr: Any
    raddr: Any
    family: int
    pid: int


def _with_pid(one: Any, pid: int) -> _Connection:
    return _Connection(one.status, one.laddr, one.raddr, one.family, pid)


def _hidden(port: int) -> Process:
    """The process behind a socket whose owner the kernel does not tell us: by the socket's user.

    /proc/net/tcp names the user; the processes of that user whose program is an engine are few.
    """
    uid = _uid_of(port)
    if uid is None:
        return Process(None)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.uids()[0] == uid and (
                process.name() == "ollama" or _publishes(process.name(), process.cmdline(), port)
            ):
                return process_of(process.pid)
    return Process(None, uid=uid, user=_user(uid))


def _publishes(name: str, command: list[str], port: int) -> bool:
    """Whether a process listens on that port for a container."""
    return name in _PUBLISHERS and any(str(port) in re.split(r"\D+", word) for word in command)


def _uid_of(port: int) -> int | None:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _text(Path(table)).splitlines()[1:]:
            words = line.split()
            if len(words) > 7 and words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                return int(words[7])
    return None


def _user(uid: int) -> str:
    if sys.platform == "win32":
        return ""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _unit_with(process: Process, runner: Runner) -> tuple[str, str] | None:
    """The unit whose main process it is, or an ancestor of it, where the cgroup tells nothing."""
    if process.pid is None or runner.which("systemctl") is None:
        return None
    for kind, flags in (("systemd", ()), ("systemd-user", ("--user",))):
        for unit in _UNITS_ASKED:
            with contextlib.suppress(CommandFailed, ValueError):
                argv = ["systemctl", *flags, "show", unit, "--property=MainPID", "--value"]
                main = int(runner.do(argv, timeout_s=10.0).out.strip() or 0)
                if main and main in (process.pid, *process.ancestors):
                    return kind, unit
    return None


def _container_at(port: int, runner: Runner) -> str:
    """The name of the container that publishes a port; empty if nobody tells."""
    for program in ("docker", "podman"):
        if runner.which(program) is None:
            continue
        with contextlib.suppress(CommandFailed):
            argv = [program, "ps", "--filter", f"publish={port}", "--format", "{{.Names}}"]
            names = runner.do(argv, timeout_s=10.0).out.split()
            if names:
                return printable(names[0])
    return ""


def _own_cgroup() -> str:
    return _text(Path("/proc/self/cgroup"))


def _own_uid() -> int | None:
    return None if sys.platform == "win32" else os.getuid()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
