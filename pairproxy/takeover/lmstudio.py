"""Moving LM Studio's server, on every system, by its own command `lms`.

Its settings file is only read. `lms server start` forgets what it is not told: without --bind it listens on
loopback, without --cors no page may ask it; so both ways are told all three (lms, src/subcommands/server.ts).
"""

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from pairproxy.config import is_loopback
from pairproxy.takeover.asking import HOST
from pairproxy.takeover.moving import CannotTake, Move, Plan
from pairproxy.takeover.places import home_of
from pairproxy.takeover.running import CommandFailed, Runner
from pairproxy.takeover.steps import Machine, Restart, WaitForEngine

POINTER = ".lmstudio-home-pointer"
SETTINGS = Path(".internal", "http-server-config.json")
SETTINGS_BYTES = 64 * 1024  # a dozen keys
LMS_S = 60.0  # it looks five times, a second apart, whether the server answers
NOT_OURS = ("other-user", "container", "snap", "pairproxy")
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]{2,45}")


class ServerSettings(msgspec.Struct, frozen=True):
    """What LM Studio keeps of its server (http-server-config.json); its other keys do not matter here."""

    port: int | None = None
    cors: bool = False
    networkInterface: str = HOST  # noqa: N815 its name there


class LmStudio:
    """LM Studio, however it was started: app, `llmster`, a unit."""

    name = "lms"

    def applies(self, move: Move) -> bool:
        """Whether it is LM Studio that this person may command."""
        return move.kind == "lmstudio" and move.owner.kind not in NOT_OURS

    def plan(self, move: Move, machine: Machine) -> Plan:
        """Stop its server and start it at the private port. Raises CannotTake."""
        runner = machine.runner
        lms = find_lms(runner)
        _check_is_running(lms, move, runner)
        settings = read_settings(lmstudio_home(home_of(runner)))
        old_bind = _old_bind(settings, move)
        can_bind = "--bind" in _help(lms, runner)
        if not can_bind and not is_loopback(old_bind):
            raise CannotTake(
                "LM Studio serves to the network here, and this version of `lms` cannot change that. Turn "
                "off `Serve on Local Network` in LM Studio's server settings, or update it; then run "
                "`pairproxy takeover` again."
            )
        start = (lms, "server", "start", "--port")
        cors = ("--cors",) if settings.cors else ()
        steps = (
            Restart(
                stop=(lms, "server", "stop"),
                start=(*start, str(move.moved), *(("--bind", HOST) if can_bind else ()), *cors),
                start_again=(*start, str(move.usual), *(("--bind", old_bind) if can_bind else ()), *cors),
                timeout_s=LMS_S,
            ),
            WaitForEngine(move.kind, move.moved),
        )
        facts = {"cors": "true" if settings.cors else "false", "bind": old_bind}
        return Plan(steps, _notes(move), _warnings(old_bind), facts)


def find_lms(runner: Runner) -> str:
    """LM Studio's command. Raises CannotTake if it is not there."""
    home = lmstudio_home(home_of(runner))
    for path in (home / "bin" / "lms", home / "bin" / "lms.exe"):
        if path.is_file():
            return str(path)
    found = runner.which("lms")
    if found is not None:
        return found
    raise CannotTake(
        f"LM Studio is moved by its own command `lms`, which is not at {home / 'bin'} nor on PATH. Start LM "
        "Studio once, so that it installs the command; then run `pairproxy takeover` again."
    )


def lmstudio_home(home: Path) -> Path:
    """Where LM Studio keeps its files: as its pointer says, else the old place if it is there."""
    try:
        told = (home / POINTER).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        told = ""
    old = home / ".cache" / "lm-studio"
    if told:
        return Path(told)
    return old if old.is_dir() else home / ".lmstudio"


def read_settings(lm_home: Path) -> ServerSettings:
    """What its server was started with last. Raises CannotTake if that is not told: undoing needs it."""
    path = lm_home / SETTINGS
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(SETTINGS_BYTES), type=ServerSettings)
    except OSError as error:
        why = error.strerror or "not readable"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        why = "not as pairproxy knows it"
    raise CannotTake(
        f"LM Studio's server settings ({path}) tell how to put it back later, and they are: {why}. Start its "
        "server once in LM Studio, and run `pairproxy takeover` again."
    )


def _check_is_running(lms: str, move: Move, runner: Runner) -> None:
    """Raise CannotTake unless `lms` says that its server is the one at the port."""
    try:
        told = _object(runner.do([lms, "server", "status", "--json", "--quiet"], timeout_s=LMS_S).out)
    except CommandFailed as error:
        raise CannotTake(f"LM Studio's command does not answer. {error.sentence}") from None
    if told.get("running") is True and told.get("port") == move.usual:
        return
    where = f"at port {told['port']}" if told.get("running") is True and "port" in told else "not running"
    raise CannotTake(
        f"LM Studio says that its server is {where}, so what answers at port {move.usual} is left alone. "
        f"Start it there with `lms server start --port {move.usual}`, and run `pairproxy takeover` again."
    )


def _object(text: str) -> dict[str, Any]:
    """The object that `lms` printed, whatever it said before it."""
    for line in reversed(text.splitlines()):
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict):
            return told
    return {}


def _help(lms: str, runner: Runner) -> str:
    try:
        return runner.run([lms, "server", "start", "--help"], timeout_s=LMS_S).out
    except CommandFailed:
        return ""


def _old_bind(settings: ServerSettings, move: Move) -> str:
    """The address it listens on: as it is kept, unless the open sockets say that this is not so."""
    told = settings.networkInterface
    if not _ADDRESS.fullmatch(told):
        told = HOST
    if move.owner.is_exposed and is_loopback(told):
        return next(one for one in move.owner.hosts if not is_loopback(one))
    return told


def _notes(move: Move) -> tuple[str, ...]:
    note = (
        f"`lms server status` will name port {move.moved}, and LM Studio keeps it until `pairproxy release`. "
        "Its own SDKs find it at ports of their own and do not pass pairproxy."
    )
    return (note,)


def _warnings(old_bind: str) -> tuple[str, ...]:
    if is_loopback(old_bind):
        return ()
    warning = (
        f"Other machines can reach this LM Studio now (it serves on {old_bind}). After the takeover they "
        "cannot: it is on loopback only. Pair those machines instead, or do not take it over."
    )
    return (warning,)
