"""Stand-ins for launchctl and schtasks: programs on PATH that run the real daemon as its definition says.

    install(directory, "launchctl")  -> PATH to give to who calls it

What a definition starts is a child of a process of its own, as it is there; end(directory) ends all of it.
They know the words that pairproxy says, and no others. calls(directory) tells what they were asked.
"""

import json
import os
import plistlib
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
TASKS = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


def install(directory: Path, *names: str) -> str:
    """Put the stand-ins there; the PATH that finds them first."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        script = directory / name
        line = shlex.join([sys.executable, "-m", "tests.support.stand_in_services", str(directory), name])
        script.write_text(f'#!/bin/sh\ncd {shlex.quote(str(ROOT))} && exec {line} "$@"\n')
        script.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def calls(directory: Path) -> list[str]:
    """What was asked for, one line each."""
    file = directory / "calls"
    return file.read_text().splitlines() if file.exists() else []


def end(directory: Path) -> None:
    """End whatever was started; as a log-out does."""
    for file in directory.glob("*.pid"):
        _end(file)


def main() -> int:
    """Be one of them."""
    directory, name, words = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    with (directory / "calls").open("a") as file:
        file.write(f"{name} {' '.join(words)}\n")
    return (launchctl if name == "launchctl" else schtasks)(directory, words)


def launchctl(directory: Path, words: list[str]) -> int:
    """As much of launchd as a service sees."""
    verb, *rest = words
    domain = f"gui/{os.getuid()}"
    if verb == "bootstrap":
        job = plistlib.loads(Path(rest[1]).read_bytes())
        (directory / f"{job['Label']}.job").write_text(json.dumps(job))
        _start(directory, job["Label"], job["ProgramArguments"], job.get("StandardErrorPath"))
        return 0
    label = rest[0].removeprefix(domain).strip("/")
    pid = directory / f"{label}.pid"
    if verb == "print" and not label:
        return 0 if not (directory / "no session").exists() else _say("Could not find domain", 113)
    if verb == "print":
        if not (directory / f"{label}.job").exists():
            return _say(f'Could not find service "{label}" in domain', 113)
        running = _pid(pid)
        state = f"running\n\tpid = {running}" if running else "not running"
        sys.stdout.write(
            f"{rest[0]} = {{\n\tstate = {state}\n\truns = 1\n\tlast exit code = {_ended(pid)}\n}}\n"
        )
        return 0
    if verb == "bootout":
        if not (directory / f"{label}.job").exists():
            return _say("Boot-out failed: 3: No such process", 3)
        _end(pid)
        (directory / f"{label}.job").unlink()
        return 0
    return 0 if verb == "enable" else _say(f"what is {verb}?", 64)


def schtasks(directory: Path, words: list[str]) -> int:
    """As much of the Task Scheduler as a service sees; its words are not English."""
    verb = words[0]
    name = words[words.index("/TN") + 1]
    kept, pid = directory / f"{name}.xml", directory / f"{name}.pid"
    if verb == "/Create":
        text = Path(words[words.index("/XML") + 1]).read_bytes().decode("utf-16")
        ElementTree.fromstring(text.partition("?>")[2])  # noqa: S314 our own
        kept.write_text(text.partition("?>")[2])
        return 0
    if not kept.exists():
        return _say("FEHLER: Das System kann die angegebene Datei nicht finden.", 1)
    if verb == "/Run":
        task = ElementTree.parse(kept).getroot()  # noqa: S314
        command = task.findtext(f".//{TASKS}Command") or ""
        arguments = task.findtext(f".//{TASKS}Arguments") or ""
        _start(directory, name, [command, *shlex.split(arguments)], None)
    elif verb == "/End":
        _end(pid)
    elif verb == "/Delete":
        kept.unlink()
    return 0


def _start(directory: Path, name: str, command: list[str], errors: str | None) -> None:
    if errors is not None:
        Path(errors).parent.mkdir(parents=True, exist_ok=True)
    with open(errors or os.devnull, "ab") as log:  # noqa: PTH123
        us = [sys.executable, "-m", "tests.support.stand_in_services", "--run"]
        process = subprocess.Popen(
            [*us, str(directory), name, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
        )  # fmt: skip
    file = directory / f"{name}.pid"
    until = time.monotonic() + 10
    while not file.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)


def run(directory: Path, name: str, command: list[str]) -> int:
    """Run the daemon, and write down its number and how it ended."""
    os.chdir("/")
    (directory / f"{name}.ended").unlink(missing_ok=True)
    process = subprocess.Popen(command)
    (directory / f"{name}.pid").write_text(str(process.pid))
    status = process.wait()
    (directory / f"{name}.ended").write_text(str(status))
    (directory / f"{name}.pid").unlink()
    return 0


def _pid(file: Path) -> int | None:
    return int(file.read_text()) if file.exists() else None


def _ended(pid: Path) -> str:
    file = pid.with_suffix(".ended")
    return file.read_text() if file.exists() else "(never exited)"


def _end(file: Path) -> None:
    pid, until = _pid(file), time.monotonic() + 15
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
    while file.exists() and time.monotonic() < until:
        time.sleep(0.01)


def _say(text: str, status: int) -> int:
    sys.stderr.write(f"{text}\n")
    return status


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        sys.exit(run(Path(sys.argv[2]), sys.argv[3], sys.argv[4:]))
    sys.exit(main())
