"""Moving the Ollama that `brew services` runs, by the file of variables that Homebrew reads for a service.

Homebrew 6.0.15 and later put `~/.homebrew/services/ollama.env` into the service's plist each time that it is
started (service.rb, effective_environment_variables), so it outlives upgrades; one that others may write is
skipped. Before, nothing outlived one: the plist is made anew by every restart, and launchctl's variables did
not reach the service. Not tried on a real Mac: tested against stand-ins.
"""

import json
import plistlib
import re
from pathlib import Path
from typing import Any

from pairproxy.takeover import ollama_host
from pairproxy.takeover.asking import HOST
from pairproxy.takeover.files import state_of
from pairproxy.takeover.moving import CannotTake, Move, Plan
from pairproxy.takeover.ollama_app import exposed
from pairproxy.takeover.places import home_of
from pairproxy.takeover.running import CommandFailed, Runner
from pairproxy.takeover.steps import Machine, Run, WaitForEngine, write_file

OLDEST = (6, 0, 15)
SERVICE = "ollama"
KEG_PLIST = Path("opt", SERVICE, f"homebrew.mxcl.{SERVICE}.plist")  # what the formula itself sets
BREW_S = 120.0  # `brew` itself takes seconds to start, and waits for the service to end
PRIVATE, LOOSE = 0o600, 0o022  # Homebrew skips a file that group or others may write


class Homebrew:
    """The service of the formula `ollama`, of this person."""

    name = "homebrew"

    def applies(self, move: Move) -> bool:
        """Whether it is the formula's program."""
        return move.kind == "ollama" and move.owner.kind == "homebrew"

    def plan(self, move: Move, machine: Machine) -> Plan:
        """Write the file of variables, restart the service. Raises CannotTake."""
        runner = machine.runner
        prefix = Path(re.split(r"/(?:Cellar|opt)/ollama", move.owner.executable)[0])
        brew = str(prefix / "bin" / "brew") if (prefix / "bin" / "brew").is_file() else "brew"
        _check_version(brew, runner)
        told = _service(brew, move, runner)
        path = variables_file(runner)
        state = state_of(path, runner)
        text = state.content.decode(errors="replace") if state is not None else ""
        installed = _variables_of(Path(str(told.get("file") or "")))
        _refuse_lost(installed, {*_told(text), *_variables_of(prefix / KEG_PLIST)})
        mode = PRIVATE if state is None else state.mode & ~LOOSE
        restart = (brew, "services", "restart", SERVICE)
        steps = (
            write_file(path, with_variable(text, f"{HOST}:{move.moved}"), runner, mode=mode),
            Run(restart, restart, undo_in_order=True, timeout_s=BREW_S),
            WaitForEngine(move.kind, move.moved),
        )
        note = "The service is restarted; models that are loaded are loaded anew by the next request."
        old = installed.get(ollama_host.VARIABLE, "")
        return Plan(steps, (note,), exposed(move.owner, old))


def variables_file(runner: Runner) -> Path:
    """Where Homebrew looks for this service's variables (bin/brew: HOMEBREW_USER_CONFIG_HOME)."""
    config = runner.environment.get("XDG_CONFIG_HOME")
    directory = Path(config, "homebrew") if config else home_of(runner) / ".homebrew"
    return directory / "services" / f"{SERVICE}.env"


def with_variable(text: str, value: str) -> str:
    """A file of variables with ours set, everything else as it was."""
    lines = [line for line in text.splitlines() if _key(line) != ollama_host.VARIABLE]
    return "\n".join([*lines, f"{ollama_host.VARIABLE}={value}", ""])


def _check_version(brew: str, runner: Runner) -> None:
    """Raise CannotTake if this Homebrew has no such file."""
    try:
        text = runner.do([brew, "--version"], timeout_s=BREW_S).out
    except CommandFailed as error:
        raise CannotTake(f"Homebrew does not answer. {error.sentence}") from None
    found = re.search(r"Homebrew (\d+)\.(\d+)\.(\d+)", text)
    if found is None or tuple(map(int, found.groups())) < OLDEST:
        name = found[0] if found is not None else "This Homebrew"
        raise CannotTake(
            f"{name} cannot keep a setting for a service, only {'.'.join(map(str, OLDEST))} and later can. "
            "Run `brew update`, then `pairproxy takeover` again."
        )


def _service(brew: str, move: Move, runner: Runner) -> dict[str, Any]:
    """What Homebrew says of the service. Raises CannotTake unless it is the owner of the port."""
    try:
        told = json.loads(runner.do([brew, "services", "info", SERVICE, "--json"], timeout_s=BREW_S).out)
        service = told[0]
        running, pid = service.get("running"), service.get("pid")
    except CommandFailed as error:
        raise CannotTake(f"Homebrew does not tell about its service. {error.sentence}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise CannotTake(
            "Homebrew does not tell about its service as pairproxy knows it. See "
            f"`brew services info {SERVICE}`."
        ) from None
    if str(service.get("file") or "").startswith("/Library/LaunchDaemons/") or service.get("user") == "root":
        raise CannotTake(
            "This service runs as root (`sudo brew services`), for which Homebrew keeps no settings. Run "
            f"`sudo brew services stop {SERVICE}` and `brew services start {SERVICE}`, then "
            "`pairproxy takeover` again."
        )
    if not running or (move.owner.pid is not None and pid not in (None, move.owner.pid)):
        raise CannotTake(
            "This `ollama serve` was not started by `brew services`. End it where it was started, run "
            f"`brew services start {SERVICE}`, then `pairproxy takeover` again."
        )
    return dict(service)


def _refuse_lost(installed: dict[str, str], kept: set[str]) -> None:
    """Raise CannotTake if a restart would drop what somebody wrote into the plist by hand."""
    lost = sorted(set(installed) - kept)
    if lost:
        raise CannotTake(
            f"Somebody wrote {', '.join(lost)} into the service's plist, and every `brew services restart` "
            f"makes that file anew. Move them to ~/.homebrew/services/{SERVICE}.env as NAME=value; then "
            "run `pairproxy takeover` again."
        )


def _variables_of(plist: Path) -> dict[str, str]:
    try:
        with plist.open("rb") as file:
            told = plistlib.load(file).get("EnvironmentVariables", {})
    except (OSError, ValueError, AttributeError, plistlib.InvalidFileException):
        return {}
    return {str(name): str(value) for name, value in told.items()} if isinstance(told, dict) else {}


def _told(text: str) -> list[str]:
    return [key for key in map(_key, text.splitlines()) if key]


def _key(line: str) -> str:
    """The variable that a line sets, as Homebrew reads it."""
    line = line.strip()
    return "" if line.startswith("#") or "=" not in line else line.partition("=")[0].strip()
