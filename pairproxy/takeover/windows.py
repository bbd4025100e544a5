r"""Moving the Ollama app of Windows, by the person's environment variable that Ollama's documentation names.

The installer puts the tray app and its server side by side (%LOCALAPPDATA%\Programs\Ollama); the app hands
its environment to the server. An update ends both by their names and starts the app again, with the variable.
Asked by its window to close (taskkill without /F), the app ends its server. Not tried on a real Windows:
tested against stand-ins.
"""

import ntpath
from pathlib import Path

from pairproxy.takeover import ollama_host
from pairproxy.takeover.asking import HOST
from pairproxy.takeover.elsewhere import WINDOWS_APP
from pairproxy.takeover.moving import CannotTake, Move, Plan
from pairproxy.takeover.ollama_app import exposed, is_of_app, refuse_exposed
from pairproxy.takeover.places import home_of
from pairproxy.takeover.registry import REG_SZ
from pairproxy.takeover.restarting import is_running
from pairproxy.takeover.running import Runner
from pairproxy.takeover.steps import Machine, Restart, SetVariable, WaitForEngine

_EXE = ".exe"


class WindowsApp:
    """The tray app and its server."""

    name = "windows-app"

    def applies(self, move: Move) -> bool:
        """Whether the app's server has the port."""
        return (
            move.kind == "ollama"
            and move.owner.kind == "app"
            and move.owner.executable.lower().endswith(_EXE)
        )

    def plan(self, move: Move, machine: Machine) -> Plan:
        """Set the variable, end the app and start it again. Raises CannotTake."""
        runner, variables = machine.runner, machine.variables
        if variables is None:
            raise CannotTake("This system keeps no environment variables of a person, as Windows does.")
        app = beside(move.owner.executable)
        directory = _directory(runner)
        if not is_of_app(directory, move.owner) or not is_running(app):
            raise CannotTake(
                "This `ollama serve` was not started by the Ollama app, so the app cannot move it. End it "
                "where it was started, start Ollama from the Start menu, and run `pairproxy takeover` again."
            )
        before = variables.get(ollama_host.VARIABLE)
        # What the app had: the person's own beats the machine's.
        old = before[0] if before is not None else variables.of_machine(ollama_host.VARIABLE)
        refuse_exposed(directory, move.owner, old or "")
        new = f"{HOST}:{move.moved}"
        steps = (
            SetVariable(ollama_host.VARIABLE, new, REG_SZ, before),
            Restart(
                stop=("taskkill", "/IM", WINDOWS_APP),
                start=start_with(app, new),
                start_again=start_with(app, old),
                executable=app,
                by_hand="Quit Ollama by its icon beside the clock, start it again, and run this again.",
            ),
            WaitForEngine(move.kind, move.moved),
        )
        return Plan(steps, _notes(before is None and old is not None), exposed(move.owner, old or ""))


def beside(server: str) -> str:
    """The tray app that belongs to a server."""
    if "\\" in server:
        return ntpath.join(ntpath.dirname(server), WINDOWS_APP)
    return str(Path(server).with_name(WINDOWS_APP))


def start_with(app: str, value: str | None) -> tuple[str, ...]:
    """The command that starts the app, hidden, with the variable set to ``value``; None: not set.

    A program started by us has our environment, which is older than the change; so it is told.
    """
    variable = f"Env:{ollama_host.VARIABLE}"
    told = f"Remove-Item {variable} -ErrorAction SilentlyContinue"
    if value is not None:
        told = f"Set-Item {variable} {_quoted(value)}"
    script = f"{told}; Start-Process -FilePath {_quoted(app)} -ArgumentList 'hidden'"
    return ("powershell", "-NoProfile", "-NonInteractive", "-Command", script)


def _quoted(text: str) -> str:
    """A literal of PowerShell: nothing in it is expanded. It also ends one at the typographic quotes."""
    for quote in "'\u2018\u2019\u201a\u201b":
        text = text.replace(quote, quote * 2)
    return f"'{text}'"


def _directory(runner: Runner) -> Path:
    """Where the app keeps its files."""
    told = runner.environment.get("LOCALAPPDATA")
    return (Path(told) if told else home_of(runner) / "AppData" / "Local") / "Ollama"


def _notes(is_of_machine: bool) -> tuple[str, ...]:
    stays = (
        f"{ollama_host.VARIABLE} stays set for you, as Windows starts the app with it: what obeys it (the "
        "command `ollama`, Ollama's Python client) asks the engine directly when started from now on, and is "
        "not distributed. `pairproxy doctor` tells of it."
    )
    notes = ["The Ollama app is ended and started again; its models are loaded anew when asked.", stays]
    if is_of_machine:
        notes.append(f"An administrator set {ollama_host.VARIABLE} for every user: yours beats it meanwhile.")
    return tuple(notes)
