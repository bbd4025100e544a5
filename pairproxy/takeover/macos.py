"""Moving the Ollama app of macOS, by the variable that Ollama's documentation names (launchctl setenv).

The variable reaches every program that is started while it is set, so it is set only until the server is seen
at its private port: the running app keeps it. A launch agent does the same at each log-in. An app that a
person starts again in between comes up at its old port, where the daemon sees it.

Facts, from Ollama's app (v0.33): it hands its environment to `ollama serve`; "Expose Ollama to the network"
beats OLLAMA_HOST; quit, it ends its server. Not tried on a real Mac: tested against stand-ins.
"""

import os
import plistlib
import shlex
from pathlib import Path

from pairproxy.takeover import ollama_host
from pairproxy.takeover.asking import HOST
from pairproxy.takeover.elsewhere import bundle_of
from pairproxy.takeover.moving import CannotTake, Move, Owner, Plan
from pairproxy.takeover.ollama_app import exposed, is_of_app, refuse_exposed
from pairproxy.takeover.places import home_of
from pairproxy.takeover.restarting import is_running
from pairproxy.takeover.running import CommandFailed, Runner
from pairproxy.takeover.steps import Machine, Restart, Run, Step, WaitForEngine, write_file

AGENT = "pairproxy.ollama-host"
APP_ID = "com.electron.ollama"  # kept from the time when the app was an Electron one
SUPPORT = Path("Library", "Application Support", "Ollama")
LOGIN_S = 120  # the agent keeps the variable set at most so long after log-in, for the app to start
QUIT = f'if application id "{APP_ID}" is running then tell application id "{APP_ID}" to quit'


class MacApp:
    """The Ollama app in its bundle."""

    name = "macos-app"

    def applies(self, move: Move) -> bool:
        """Whether the app's server has the port."""
        return move.kind == "ollama" and move.owner.kind == "app" and bool(bundle_of(move.owner.executable))

    def plan(self, move: Move, machine: Machine) -> Plan:
        """Set the variable, quit the app and open it again, unset the variable. Raises CannotTake."""
        runner, home, bundle = machine.runner, home_of(machine.runner), bundle_of(move.owner.executable)
        _check_session(runner)
        _check_app(move.owner, bundle, home)
        before = _variable(runner)
        refuse_exposed(home / SUPPORT, move.owner, before)
        return Plan(_steps(move, runner, bundle, before), _notes(bundle), exposed(move.owner, before))


def _check_session(runner: Runner) -> None:
    """Raise CannotTake where a variable would not reach the app: in a session over ssh."""
    try:
        name = runner.do(["launchctl", "managername"], timeout_s=10.0).out.strip()
    except CommandFailed as error:
        raise CannotTake(f"launchd does not answer. {error.sentence}") from None
    if name != "Aqua":
        raise CannotTake(
            f"This is no session at the Mac's own screen (launchd calls it {name!r}), so what is set here "
            "does not reach the Ollama app. Run `pairproxy takeover` in Terminal on the Mac itself."
        )


def _check_app(owner: Owner, bundle: str, home: Path) -> None:
    """Raise CannotTake unless the app runs this server: the command `ollama` is the same program."""
    if not is_of_app(home / SUPPORT, owner) or not is_running(executable(bundle)):
        raise CannotTake(
            "This `ollama serve` was not started by the Ollama app, so the app cannot move it. End it where "
            "it was started, open the app, and run `pairproxy takeover` again."
        )


def executable(bundle: str) -> str:
    """The app's own program in its bundle."""
    return f"{bundle}/Contents/MacOS/Ollama"


def _variable(runner: Runner) -> str:
    """The session's OLLAMA_HOST; empty if it is not set."""
    try:
        done = runner.run(["launchctl", "getenv", ollama_host.VARIABLE], timeout_s=10.0)
    except CommandFailed as error:
        raise CannotTake(f"launchd does not tell its variables. {error.sentence}") from None
    return done.out.strip() if done.is_ok else ""


def _steps(move: Move, runner: Runner, bundle: str, before: str) -> tuple[Step, ...]:
    setenv = ("launchctl", "setenv", ollama_host.VARIABLE, f"{HOST}:{move.moved}")
    put_back = _put_back(before)
    launch = ("open", "-g", "-j", "-a", bundle, "--args", "--fast-startup")
    agent = home_of(runner) / "Library" / "LaunchAgents" / f"{AGENT}.plist"
    return (
        Run(undo_with=("launchctl", "bootout", f"gui/{os.getuid()}/{AGENT}"), undo_may_fail=True),
        write_file(agent, agent_plist(move.moved, before), runner),
        Run(setenv, put_back),
        Restart(
            stop=("osascript", "-e", QUIT),
            start=launch,
            start_again=launch,
            executable=executable(bundle),
            by_hand="Allow your terminal to control it (System Settings, Privacy, Automation), or quit the "
            "app yourself; then run this again.",
        ),
        WaitForEngine(move.kind, move.moved),
        Run(put_back),
    )


def _put_back(before: str) -> tuple[str, ...]:
    if before:
        return ("launchctl", "setenv", ollama_host.VARIABLE, before)
    return ("launchctl", "unsetenv", ollama_host.VARIABLE)


def agent_plist(port: int, before: str) -> str:
    """The launch agent: at log-in, sets the variable until the app's server is there, then puts it back."""
    lines = [
        f"/bin/launchctl setenv {ollama_host.VARIABLE} {HOST}:{port}",
        f"n=0; while [ $n -lt {LOGIN_S} ] && ! /usr/bin/nc -z {HOST} {port} 2>/dev/null",
        "do n=$((n+1)); sleep 1; done",
        shlex.join(["/bin/launchctl", *_put_back(before)[1:]]),
    ]
    job = {"Label": AGENT, "ProgramArguments": ["/bin/sh", "-c", "\n".join(lines)], "RunAtLoad": True}
    return plistlib.dumps(job).decode()


def _notes(bundle: str) -> tuple[str, ...]:
    return (
        f"{bundle} is quit and opened again; a model that is loaded is loaded anew by the next request.",
        "A program started in the seconds while OLLAMA_HOST is set asks the engine directly: start it again.",
    )
