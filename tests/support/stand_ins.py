"""Stand-ins for what other systems bring: lms, launchctl, osascript, open, brew, taskkill and powershell.

    with StandIns(tmp_path, "lms") as system:
        system.run("lms", "server", "start", "--port", str(system.usual))
        machine = Machine(system.runner)

They are real programs on a PATH of their own, with real files in a home of their own, and they start and end
real engines. ``fail(n)`` lets the n-th call from now on fail, before it did anything or after. What they do
stands in stand_in_programs.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import psutil

from pairproxy.takeover.asking import answers, is_refused
from pairproxy.takeover.running import Runner
from tests.support.free_ports import free_port

ROOT = Path(__file__).parents[2]
USUAL = "FAKE_USUAL_PORT"
"""The port of an Ollama that is told none: tests leave the real one alone."""
STATE = "STAND_INS"
"""Names the directory in which the stand-ins keep what the system would know."""
DEADLINE_S = 20.0
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {root!r})
from tests.support.stand_in_programs import main
main({name!r})
"""


class StandIns:
    """One system of them."""

    def __init__(self, directory: Path, *names: str, ports: tuple[int, ...] | None = None) -> None:
        """``names`` of the programs that are on PATH; ``ports``: usual and private, None: any."""
        self.directory = directory
        self.home = directory / "home"
        self.state = directory / "state"
        self.usual, self.moved = ports or (free_port(), free_port())
        for one in (self.home, self.state, directory / "bin"):
            one.mkdir(parents=True, exist_ok=True)
        for name in names:
            self.install(directory / "bin" / name)
        self.environment = {
            "PATH": os.pathsep.join([str(directory / "bin"), "/usr/bin", "/bin"]),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            STATE: str(self.state),
            USUAL: str(self.usual),
        }
        self.runner = Runner(self.environment, may_ask=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """End all that they started, and what that started."""
        with contextlib.suppress(OSError):
            pids = [int(line) for line in (self.state / "pids").read_text().split()]
            for pid in pids:
                with contextlib.suppress(psutil.Error):
                    _end(psutil.Process(pid))

    def install(self, path: Path) -> None:
        """Put the stand-in of that name there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROGRAM.format(python=sys.executable, root=str(ROOT), name=path.name))
        path.chmod(0o755)

    def app(self, path: Path) -> Path:
        """An app's own program: a copy of bash, so that the system names it by this path."""
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/bash", path)
        return path

    def run(self, *argv: str) -> str:
        """Run one of them."""
        return self.runner.do(argv).out

    @property
    def calls(self) -> list[list[str]]:
        """All calls so far: name and arguments."""
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in (self.state / "calls").read_text().splitlines()]
        return []

    def fail(self, number: int, how: Literal["before", "after"] = "before") -> None:
        """Let the ``number``-th call from now on say no, before it did anything, or after."""
        self.keep("fail", {"call": len(self.calls) + number, "how": how})

    def fail_none(self) -> None:
        """From now on all do what they are told."""
        (self.state / "fail").unlink(missing_ok=True)

    def keep(self, name: str, told: Any) -> None:
        """What the system knows: ``launchd``, ``brew``, ..."""
        (self.state / name).write_text(json.dumps(told))

    def known(self, name: str) -> Any:
        """The same, read."""
        return json.loads((self.state / name).read_text())

    def pid(self, name: str) -> int:
        """The process of what was started under that name."""
        return int((self.state / f"{name}.pid").read_text())

    def until_answers(self, kind: str, port: int) -> None:
        """Wait for an engine; fails the test if it does not come."""
        self._until(lambda: answers(kind, port), f"{kind} at port {port}")

    def until_refused(self, port: int) -> None:
        """Wait until nobody listens there."""
        self._until(lambda: is_refused(port), f"port {port} free")

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Every file and directory of the home: mode and content; not what names a process."""
        return {
            str(path.relative_to(self.home)): (
                path.stat().st_mode & 0o7777,
                b"" if path.is_dir() else path.read_bytes(),
            )
            for path in sorted(self.home.rglob("*"))
            if path.name != "ollama.pid"
        }

    def _until(self, is_so: Any, what: str) -> None:
        end = time.monotonic() + DEADLINE_S
        while not is_so():
            assert time.monotonic() < end, f"not within {DEADLINE_S} s: {what}; calls: {self.calls}"
            time.sleep(0.01)


def _end(process: psutil.Process) -> None:
    children = process.children(recursive=True)
    for one in (process, *children):
        with contextlib.suppress(psutil.Error):
            one.send_signal(signal.SIGKILL)
