"""A real systemd as pid 1, in namespaces of this machine; it boots in 0.1 s and leaves no trace.

    with SystemdLab(tmp_path) as lab:                      # or the fixture systemd_lab of tests/conftest.py
        lab.write("/etc/systemd/system/x.service", text)   # any file of its root, an overlay in memory
        lab.run("systemctl", "daemon-reload")
        lab.run("systemctl", "--user", "start", "y", user=lab.person)   # she has a manager of her own
        lab.journal("x")

Inside, everything of this machine is seen and nothing of it is changed; only ``shared`` is the same directory
inside and outside. The network is one of its own (loopback), so that all ports are free: programs that call
them run inside. Needs root on Linux with cgroup2 and overlayfs, and the packages systemd and dbus: missing()
says what is not there.
"""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
BOOT = Path(__file__).with_name("systemd_boot.sh")
BOOT_S = 20.0  # it takes 0.1 s
RUN_S = 60.0
PROGRAMS = {
    "dbus-daemon": "dbus",
    "loginctl": "libpam-systemd",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
"""And the Debian package that has each; systemd itself is no program on PATH."""
SYSTEMD = "/lib/systemd/systemd"
CGROUP = "pairproxy-lab-"
DROPPED = (
    "sys_time",
    "sys_module",
    "sys_boot",
    "syslog",
    "sys_rawio",
    "wake_alarm",
    "mac_admin",
    "mac_override",
)
"""Capabilities that nothing inside has: they are about the kernel, which is this machine's."""
UID = 4242


class LabError(AssertionError):
    """The lab does not start, or a command in it failed."""


@cache
def missing() -> str | None:
    """Why there can be no systemd of our own here, as a sentence; None if there can."""
    if reason := _refused():
        return reason
    lacking = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    lacking += [] if Path(SYSTEMD).exists() else ["systemd"]
    if lacking:
        return f"a systemd of our own needs the packages {' and '.join(sorted(set(lacking)))}"
    with tempfile.TemporaryDirectory() as directory:
        try:
            SystemdLab(Path(directory)).start().stop()
        except LabError as error:
            return f"systemd does not boot in namespaces here ({error})"
    return None


def may_be_skipped(environment: Mapping[str, str]) -> bool:
    """Whether it is no fault that there is none: in CI only where the kernel or the user is why."""
    return environment.get("CI") != "true" or _refused() is not None


@cache
def _refused() -> str | None:
    """What no package can mend: the system, the user, the kernel or the container around all of it."""
    if sys.platform != "linux":
        return "a systemd of our own needs Linux"
    if os.geteuid() != 0:
        return "a systemd of our own needs root"
    known = Path("/proc/filesystems").read_text(encoding="ascii").split()
    absent = [one for one in ("overlay", "cgroup2") if one not in known]
    if absent:
        return f"this kernel ({platform.release()}) has no {' and no '.join(absent)}"
    if shutil.which("unshare") is None:
        return None  # a package is missing
    with tempfile.TemporaryDirectory() as place:
        probe = 'mount -t cgroup2 none "$1" && mkdir "$1/pairproxy-probe" && rmdir "$1/pairproxy-probe"'
        spaces = ["--mount", "--pid", "--fork", "--uts", "--ipc", "--net"]
        line = ["unshare", *spaces, "sh", "-c", probe, "sh", place]
        done = subprocess.run(line, capture_output=True, text=True, timeout=RUN_S)
    if done.returncode:
        return f"root may make no namespaces and control groups here ({done.stderr.strip()})"
    return None


class SystemdLab:
    """One booted systemd; a context manager. ``person`` is somebody who has a home and a manager of units."""

    def __init__(self, shared: Path) -> None:
        """``shared``: a directory that is seen inside at the same path, and can be written there."""
        self.shared = shared
        self.person = "ann"
        self.home = Path("/home/ann")
        self._process: subprocess.Popen[bytes]
        self._directory: tempfile.TemporaryDirectory[str]
        self._pid1 = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def root(self) -> Path:
        """The lab's file system, seen from here. Absolute links in it lead astray."""
        return Path(f"/proc/{self._pid1}/root")

    def start(self) -> Self:
        """Boot it, and the person's manager. Raises LabError, and leaves nothing behind."""
        _sweep()
        self._directory = tempfile.TemporaryDirectory(prefix=".lab-", dir=self.shared)
        log = Path(self._directory.name, "boot.log")
        mounted = Path(self._directory.name, "mounted")
        mounted.mkdir()
        given = {
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin",
            "LAB": str(mounted),
            "LAB_SHARE": str(self.shared),
            "LAB_OPEN": " ".join({str(ROOT), sys.prefix, os.path.realpath(sys.base_prefix)}),
            "LAB_USER": self.person,
            "LAB_UID": str(UID),
            "LAB_BOUND": ",".join(f"-{one}" for one in DROPPED),
        }
        with log.open("wb") as stream:
            # Its life is bound to ours: setpriv has it killed when this process is, and pid 1 goes with it.
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "bash", str(BOOT)],
                env=given, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True,
            )  # fmt: skip
        try:
            self._until_booted(log)
            self.run("systemctl", "start", f"user@{UID}.service")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill pid 1, and with it everything inside; returns when all is gone."""
        self._process.kill()
        self._process.wait(BOOT_S)
        end = time.monotonic() + BOOT_S
        while self._pid1 and _is_alive(self._pid1) and time.monotonic() < end:
            time.sleep(0.005)
        _sweep()
        self._directory.cleanup()

    def run(
        self,
        *argv: str | Path,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        text: str | None = None,
        check: bool = True,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program inside, as root or as ``user``. Raises LabError with its words where it fails."""
        command, given = self._inside(argv, user, environment)
        done = subprocess.run(
            command, env=given, input=text or "", capture_output=True, text=True, timeout=RUN_S
        )
        if check and done.returncode != 0:
            words = f"{done.stdout}{done.stderr}".strip()
            raise LabError(f"`{' '.join(map(str, argv))}` ended with {done.returncode}: {words}")
        return done

    def popen(
        self,
        *argv: str | Path,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        **how: Any,
    ) -> "subprocess.Popen[str]":
        """Start a program inside and do not wait for it: to kill() it does. ``how``: as for Popen."""
        command, given = self._inside(argv, user, environment)
        return subprocess.Popen(command, env=given, text=True, **how)

    def write(self, path: str | Path, text: str, mode: int = 0o644, user: str | None = None) -> None:
        """Write a file inside, with the directories above it."""
        file = self.root / str(path).lstrip("/")
        made = [one for one in file.parents if not one.exists()]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)
        for one in [file, *made] if user == self.person else []:
            os.chown(one, UID, UID)

    def journal(self, unit: str, *, is_user: bool = False) -> str:
        """The lines of the journal about a unit, of the system or of the person's manager."""
        self.run("journalctl", "--sync")
        # Of a person's units root is shown nothing by --user-unit, which adds the asker's own number.
        which = [f"_SYSTEMD_USER_UNIT={unit}.service", "+", f"USER_UNIT={unit}.service"]
        asked = which if is_user else [f"--unit={unit}"]
        return self.run("journalctl", "--no-pager", "--output=short-precise", *asked).stdout

    def properties(self, unit: str, *names: str, user: str | None = None) -> dict[str, str]:
        """What `systemctl show` says of a unit."""
        scope = ["--user"] if user else []
        asked = ["systemctl", *scope, "show", unit, *(f"--property={name}" for name in names)]
        said = self.run(*asked, user=user).stdout
        return dict(line.partition("=")[::2] for line in said.splitlines())

    def tree(self, *paths: str) -> set[str]:
        """Every file and directory below these paths, as their names inside."""
        found = set()
        for path in paths:
            for directory, names, files in os.walk(self.root / path.lstrip("/")):
                inside = directory.removeprefix(str(self.root))
                found |= {f"{inside}/{name}" for name in (*names, *files)}
        return found

    def _inside(
        self, argv: Sequence[str | Path], user: str | None, environment: Mapping[str, str] | None
    ) -> tuple[list[str], dict[str, str]]:
        into = ["nsenter", f"--target={self._pid1}", "--all", "--wdns=/", "setpriv", "--pdeathsig=KILL"]
        given = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        if user is not None:
            given |= {"HOME": str(self.home), "USER": user, "XDG_RUNTIME_DIR": f"/run/user/{UID}"}
            into += [f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        return [*into, *map(str, argv)], given | dict(environment or {})

    def _until_booted(self, log: Path) -> None:
        end = time.monotonic() + BOOT_S
        while True:
            if self._process.poll() is not None or time.monotonic() > end:
                raise LabError(log.read_text(errors="replace").strip() or "no word of why")
            self._pid1 = _child_of(self._process.pid)
            if self._pid1 and self._is_running():
                return
            time.sleep(0.01)

    def _is_running(self) -> bool:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{self._pid1}/comm").read_text() == "systemd\n":
                done = self.run("systemctl", "is-active", "lab.target", check=False)
                return done.stdout == "active\n"
        return False


def _child_of(pid: int) -> int:
    """The process that ``unshare --fork`` forked, if the script came so far: it is pid 1 inside."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        if Path(f"/proc/{pid}/comm").read_text() == "unshare\n":
            return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    return 0


def _is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


_SWEEP = r"""
mount -t cgroup2 none "$1" || exit 0
for lab in "$1"/pairproxy-lab-*; do
  [ -d "/proc/${lab##*-}" ] || find "$lab" -depth -type d -exec rmdir {} + 2>/dev/null
done
"""


def _sweep() -> None:
    """Remove the control groups of labs that are gone; a killed one leaves empty ones behind."""
    with tempfile.TemporaryDirectory() as place:
        command = ["unshare", "--mount", "sh", "-c", _SWEEP, "sh", place]
        for _ in range(50):
            subprocess.run(command, capture_output=True, timeout=RUN_S)
            if not _left():
                return
            time.sleep(0.01)


def _left() -> list[str]:
    """Control groups of labs whose process is gone, as far as this machine shows them."""
    shown = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")]
    labs = [one for place in shown if place.is_dir() for one in place.glob(f"{CGROUP}*")]
    return [one.name for one in labs if not Path("/proc", one.name.removeprefix(CGROUP)).exists()]
