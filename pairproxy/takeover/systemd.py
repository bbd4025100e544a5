"""Moving an engine that systemd runs, by a drop-in: every update rewrites the unit itself, never a drop-in.

The drop-in's name begins with zz: drop-ins apply in the order of their names, and `systemctl edit` writes
override.conf. A file named by EnvironmentFile= beats them all, and so do later names: those are refused.
"""

import re
import shlex
from pathlib import Path

from msgspec import structs

from pairproxy.takeover.asking import HOST
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.moving import CannotTake, Move, Plan
from pairproxy.takeover.running import CommandFailed, Runner
from pairproxy.takeover.steps import Run, WaitForEngine, WriteFile, write_file

DROP_IN = "zz-pairproxy.conf"
VARIABLE = "OLLAMA_HOST"
MARK = "# Written by `pairproxy takeover`; `pairproxy release` removes it."
NOT_THERE = 5  # systemctl's exit status for a unit that there is not (its manual, "Exit status")
_PROPERTIES = ("LoadState", "FragmentPath", "DropInPaths", "Environment", "EnvironmentFiles", "ExecStart")


class Systemd:
    """Units of the system, and of this person."""

    name = "systemd"

    def applies(self, move: Move) -> bool:
        """Whether systemd runs it."""
        return move.kind == "ollama" and move.owner.kind in ("systemd", "systemd-user")

    def plan(self, move: Move, machine: Machine) -> Plan:
        """Write the drop-in, restart the unit. Raises CannotTake."""
        unit, is_user, runner = move.owner.unit, move.owner.kind == "systemd-user", machine.runner
        control = ("systemctl", "--user") if is_user else ("systemctl",)
        told = _show(control, unit, runner)
        _refuse_other_programs(unit, told)
        path = _directory(control, runner) / f"{unit}.d" / DROP_IN
        _refuse_overriding(unit, told, path, move.moved)
        restart = (*control, "restart", unit)
        reload = (*control, "daemon-reload")
        steps = (
            _drop_in(path, move.moved, runner, needs_root=not is_user),
            Run(reload, reload, needs_root=not is_user, undo_in_order=True),
            Run(restart, restart, needs_root=not is_user, undo_in_order=True, gone=NOT_THERE),
            WaitForEngine(move.kind, move.moved),
        )
        return Plan(steps, warnings=_warnings(move, told))


def _show(control: tuple[str, ...], unit: str, runner: Runner) -> dict[str, list[str]]:
    """Properties of a unit; each may stand several times."""
    argv = [*control, "show", unit, *(f"--property={name}" for name in _PROPERTIES)]
    try:
        text = runner.do(argv, timeout_s=20.0).out
    except CommandFailed as error:
        raise CannotTake(
            f"systemd does not tell about {unit}, so it is left alone. {error.sentence}"
        ) from None
    told: dict[str, list[str]] = {name: [] for name in _PROPERTIES}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name in told and value:
            told[name].append(value)
    if "loaded" not in told["LoadState"]:
        raise CannotTake(f"systemd knows no unit {unit}, so it is left alone. See `systemctl status {unit}`.")
    return told


def _refuse_other_programs(unit: str, told: dict[str, list[str]]) -> None:
    """Restart only what runs the engine: a cron job's engine belongs to cron's unit."""
    if not any("ollama" in line for line in told["ExecStart"]):
        raise CannotTake(
            f"The unit {unit} started it, but is not Ollama's own: pairproxy does not restart it. Have the "
            f"engine started with {VARIABLE} set to its private port there, and start `pairproxy up`."
        )


def _directory(control: tuple[str, ...], runner: Runner) -> Path:
    """Where drop-ins of the administrator, or of this person, belong: the first such on systemd's path."""
    try:
        text = runner.do([*control, "show", "--property=UnitPath", "--value"], timeout_s=20.0).out
    except CommandFailed as error:
        raise CannotTake(f"systemd does not tell where its units are. {error.sentence}") from None
    wanted = "/systemd/user" if "--user" in control else "/systemd/system"
    for word in text.split():
        if word.endswith(wanted) and not word.startswith("/run/"):
            return Path(word)
    raise CannotTake(f"systemd names no directory for drop-ins (it says {text.strip()[:200]!r}).")


def _refuse_overriding(unit: str, told: dict[str, list[str]], path: Path, port: int) -> None:
    """Raise CannotTake where something beats our drop-in."""
    for line in told["EnvironmentFiles"]:
        name = re.sub(r" \(ignore_errors=\w+\)$", "", line)
        if _sets_variable(Path(name)):
            raise CannotTake(
                f"{unit} reads {VARIABLE} from {name} (EnvironmentFile=), which beats every drop-in. Remove "
                f"that line there, or let it say {HOST}:{port}; then run `pairproxy takeover` again."
            )
    for text in " ".join(told["DropInPaths"]).split():
        if Path(text).name > DROP_IN and _sets_variable(Path(text)):
            raise CannotTake(
                f"{text} sets {VARIABLE} after {path.name} would. Remove that line, or give the file a name "
                "before `zz`; then run `pairproxy takeover` again."
            )


def _sets_variable(path: Path) -> bool:
    """Whether a file of settings sets the variable; one that only root reads is found out by the result."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return False
    lines = [line.strip() for line in text.splitlines()]
    return any(VARIABLE in line and not line.startswith(("#", ";")) for line in lines)


def _drop_in(path: Path, port: int, runner: Runner, *, needs_root: bool) -> WriteFile:
    content = f'{MARK}\n[Service]\nEnvironment="{VARIABLE}={HOST}:{port}"\n'
    step = write_file(path, content, runner, needs_root=needs_root)
    if step.before is None or not step.before.content.startswith(MARK.encode()):
        return step
    # Left by a home that is gone: to put it back would leave the engine at its private port for ever.
    if step.before.content != content.encode():
        raise CannotTake(
            f"{path} is left from an earlier takeover whose undo record is gone. Remove it with "
            f"`{runner.shown(['rm', str(path)], needs_root=needs_root)}`; then run `pairproxy takeover`."
        )
    return structs.replace(step, before=None)


def _warnings(move: Move, told: dict[str, list[str]]) -> tuple[str, ...]:
    """What a person has to agree to: other machines that reach the engine now."""
    variables = [word for line in told["Environment"] for word in _words(line)]
    old = next(
        (word.partition("=")[2] for word in reversed(variables) if word.startswith(f"{VARIABLE}=")), ""
    )
    if not move.owner.is_exposed:
        return ()
    where = f" ({VARIABLE}={old})" if old else ""
    text = (
        f"Other machines can reach this engine now{where}. After the takeover they cannot: it is on "
        "loopback only. Pair those machines instead, or do not take it over."
    )
    return (text,)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()
