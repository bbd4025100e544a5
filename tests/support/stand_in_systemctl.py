"""What the stand-ins for systemctl and sudo run: as much of systemd as a takeover sees, on real files."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from typing import Any

TOP = pathlib.Path(os.environ["STAND_IN"])
RUN = TOP / "run"
SLOW_S = 2.0
Unit = dict[str, list[str]]


def main() -> int:
    """Count the call, fail if it is its turn, do it."""
    name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
    how = "" if os.environ.get("STAND_IN_UNCOUNTED") else counted(f"{name} {shlex.join(words)}")
    slow = RUN / "slow"
    if slow.exists() and slow.read_text() in words:
        time.sleep(SLOW_S)
    if how == "before":
        say(f"{name}: it is its turn to fail", sys.stderr)
        return 1
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "kills":
        os.kill(os.getppid(), signal.SIGKILL)
        return 1
    status = subprocess.run(words).returncode if name == "sudo" else systemctl(words)
    if how == "after":
        say(f"{name}: it is done, and fails all the same", sys.stderr)
        return 1
    return status


def say(text: str, where: Any = sys.stdout) -> None:
    """One line."""
    where.write(f"{text}\n")


def counted(call: str) -> str:
    """Write the call down; return how it is to fail, "" if it is not."""
    with (RUN / "calls").open("a") as file:
        file.write(call + "\n")
    number = len((RUN / "calls").read_text().splitlines())
    told = json.loads((RUN / "fail").read_text()) if (RUN / "fail").exists() else {}
    return told.get("how", "") if told.get("at") == number else ""


def systemctl(words: list[str]) -> int:
    """Do one command; returns its exit status."""
    is_user = "--user" in words
    units = TOP / ("person/.config/systemd/user" if is_user else "etc/systemd/system")
    words = [word for word in words if word != "--user"]
    flags = [word for word in words if word.startswith("--")]
    verb, *names = [word for word in words if not word.startswith("--")]
    if verb == "daemon-reload":
        loaded = {path.name: read(path) for path in units.glob("*.service")}
        (RUN / f"loaded{is_user}").write_text(json.dumps(loaded))
        return 0
    if verb == "show" and not names:
        say(f"/run/systemd/system.control {units} /usr/lib/systemd/system")
        return 0
    unit = json.loads((RUN / f"loaded{is_user}").read_text()).get(names[0])
    if unit is None:
        if verb != "show":
            say(f"Failed to {verb} {names[0]}: Unit {names[0]} not found.", sys.stderr)
            return 5
        unit = {"LoadState": ["not-found"]}
    if verb == "show":
        told = {**unit, "MainPID": [str(running(names[0]))]}
        for name in [flag.partition("=")[2] for flag in flags if flag.startswith("--property=")]:
            for value in told.get(name, [""]):
                say(value if "--value" in flags else f"{name}={value}")
        return 0
    if verb in ("stop", "restart"):
        stop(names[0])
    if verb in ("start", "restart"):
        start(names[0], unit)
    return 0


def read(path: pathlib.Path) -> Unit:
    """A unit with its drop-ins, as `systemctl show` has it."""
    drop_ins = sorted(pathlib.Path(f"{path}.d").glob("*.conf"), key=lambda one: one.name)
    unit = {
        "LoadState": ["loaded"],
        "FragmentPath": [str(path)],
        "DropInPaths": [" ".join(map(str, drop_ins))],
    }
    environment: list[str] = []
    for file in (path, *drop_ins):
        for line in file.read_text().splitlines():
            key, _, value = line.partition("=")
            if key == "Environment":
                environment.append(value.strip('"'))
            elif key == "EnvironmentFile":
                unit.setdefault("EnvironmentFiles", []).append(f"{value} (ignore_errors=no)")
            elif key == "ExecStart":
                unit["ExecStart"] = [f"{{ path={value.split()[0]} ; argv[]={value} ; pid=0 }}"]
                unit["command"] = shlex.split(value)
    unit["Environment"] = [" ".join(environment)]
    unit["variables"] = environment
    return unit


def running(name: str) -> int:
    """The main process of a unit; 0 if it does not run."""
    path = RUN / f"{name}.pid"
    pid = int(path.read_text()) if path.exists() else 0
    try:
        if pid and pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            return pid
    except OSError:
        pass
    return 0


def stop(name: str) -> None:
    """End it, and wait for that."""
    pid = running(name)
    if pid:
        os.kill(pid, signal.SIGTERM)
    while running(name):
        time.sleep(0.005)


def start(name: str, unit: Unit) -> None:
    """Start it as it was loaded last."""
    if running(name):
        return
    settings = dict(one.partition("=")[::2] for one in unit["variables"])
    late = RUN / "late"
    if late.exists():
        time.sleep(float(late.read_text()))
    for line in unit.get("EnvironmentFiles", []):
        lines = pathlib.Path(line.partition(" ")[0]).read_text().splitlines()
        settings.update(one.partition("=")[::2] for one in lines)
    process = subprocess.Popen(
        unit["command"],
        env={**os.environ, **settings},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (RUN / f"{name}.pid").write_text(str(process.pid))


sys.exit(main())
