"""A machine whose Ollama is run by a stand-in systemd: real files, real ports, a real process as the engine.

    machine = StandInMachine(tmp_path)
    machine.systemctl("start", "ollama.service")     # answers at machine.usual
    runner = Runner(machine.environment())           # what pairproxy.takeover runs commands through

`systemctl` and `sudo` are scripts in machine.bin, made of stand_in_systemctl.py. Every call of either is
counted; ``fail(at, how)`` lets one of them fail: "before" it does anything, "after" it has done all of it,
"killed" as by a signal; "kills" ends who called it, as a power cut would.
"""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil

from pairproxy.takeover.asking import answers
from tests.support.daemons import until
from tests.support.free_ports import free_port

ROOT = Path(__file__).parents[2]
UNIT = "ollama.service"
SCRIPT = Path(__file__).with_name("stand_in_systemctl.py")


class StandInMachine:
    """See above. ``is_user``: the unit is one of the person's own."""

    def __init__(self, directory: Path, *, is_user: bool = False) -> None:
        self.directory = directory
        self.bin, self.run = directory / "bin", directory / "run"
        self.usual, self.moved = free_port(), free_port()
        self.is_user = is_user
        self.units = directory / ("person/.config/systemd/user" if is_user else "etc/systemd/system")
        for one in (self.bin, self.run, self.units):
            one.mkdir(parents=True)
        (self.units / UNIT).write_text(
            "[Unit]\nDescription=Ollama Service\n\n[Service]\n"
            f"ExecStart={sys.executable} -m tests.support.ollama_process serve\n"
            f'Environment="OLLAMA_HOST=127.0.0.1:{self.usual}"\n'
        )
        script = f"#!{sys.executable} -SE\n" + SCRIPT.read_text()
        for name in ("systemctl", "sudo"):
            path = self.bin / name
            path.write_text(script)
            path.chmod(0o755)

    @property
    def drop_in(self) -> Path:
        return self.units / f"{UNIT}.d" / "zz-pairproxy.conf"

    @property
    def user(self) -> tuple[str, ...]:
        return ("--user",) if self.is_user else ()

    def environment(self) -> dict[str, str]:
        """For commands that are to find the stand-ins first."""
        return {
            **os.environ,
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "STAND_IN": str(self.directory),
        }

    def systemctl(self, *words: str) -> str:
        """Call it as a person would; not counted."""
        done = subprocess.run(
            [self.bin / "systemctl", *self.user, *words],
            env=self.environment() | {"STAND_IN_UNCOUNTED": "1"},
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def config(self) -> str:
        """The config.toml of a daemon whose front stands for this engine."""
        return (
            '[peers]\nlisten = "127.0.0.1:0"\nloopback = true\n[admin]\nlisten = "127.0.0.1:0"\n'
            f'[[engines]]\nkind = "ollama"\nurl = "http://127.0.0.1:{self.moved}"\n'
            f'listen = "127.0.0.1:{self.usual}"\n'
        )

    def start(self) -> None:
        """Boot: the unit is loaded and started, and answers."""
        self.systemctl("daemon-reload")
        self.systemctl("start", UNIT)
        self.until_at(self.usual)

    def until_at(self, port: int) -> None:
        """Wait until the engine, or who speaks as it, answers there."""
        until(lambda: answers("ollama", port), f"an answer on port {port}")

    def fail(self, at: int | None, how: str = "before") -> None:
        """Let the call number ``at`` (from 1) from now on fail; None: none."""
        (self.run / "calls").write_text("")
        (self.run / "fail").write_text(json.dumps({"at": at, "how": how}))

    def slow(self, verb: str) -> None:
        """Let calls with that word take two seconds."""
        (self.run / "slow").write_text(verb)

    def calls(self) -> list[str]:
        """Every counted call since fail()."""
        path = self.run / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def pid(self) -> int | None:
        """The engine's process; None if it does not run."""
        path = self.run / f"{UNIT}.pid"
        pid = int(path.read_text()) if path.exists() else 0
        return pid if pid and _runs(pid) else None

    def tree(self) -> dict[str, tuple[int, int, int, bytes]]:
        """Every file and directory below etc and the person's home: mode, owner, content."""
        found = {}
        for top in ("etc", "person"):
            for path in sorted((self.directory / top).rglob("*")):
                status = path.lstat()
                content = path.read_bytes() if path.is_file() else b""
                found[str(path)] = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, content)
        return found

    def __enter__(self) -> "StandInMachine":
        return self

    def __exit__(self, *_: object) -> None:
        pid = self.pid()
        if pid is not None:
            psutil.Process(pid).kill()
            until(lambda: not _runs(pid), "the engine ends")


def _runs(pid: int) -> bool:
    """Whether a process does; one that ended and is not yet buried does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
