"""What each stand-in does when it is called; stand_ins puts them on PATH.

lms        LM Studio's command: server status, stop, start; keeps http-server-config.json as LM Studio does
launchctl  the session's variables; managername, bootout
osascript  asks the app to quit, and returns before it has
open       starts the app with the session's variables; one that runs is left as it is
brew       Homebrew 6.0.15: --version; services info and restart, with the file of variables
taskkill, powershell  end and start the app of Windows
"""

import json
import os
import plistlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

STATE = Path(os.environ.get("STAND_INS", "."))
HOME = Path(os.environ.get("HOME", "."))
ROOT = Path(__file__).parents[2]
OLLAMA = [sys.executable, "-m", "tests.support.ollama_process", "serve"]
LM_STUDIO = [sys.executable, "-m", "tests.support.lmstudio_process"]
DEADLINE_S = 15.0
APP = """
trap 'kill $server 2>/dev/null; wait $server; exit 0' TERM
while :; do
  "$@" & server=$!
  mkdir -p "$FAKE_SUPPORT" && printf %s $server > "$FAKE_SUPPORT/ollama.pid"
  wait $server
  sleep 0.2
done
"""
"""The Ollama app: starts its server, again when it ended; ends it when it is asked to quit."""


def main(name: str) -> NoReturn:
    """Note the call; fail if it is its turn; do it."""
    argv = sys.argv[1:]
    with (STATE / "calls").open("a") as file:
        file.write(json.dumps([name, *argv]) + "\n")
    number = len((STATE / "calls").read_text().splitlines())
    failing = _known("fail", {"call": 0, "how": ""})
    is_its_turn = failing["call"] == number
    if is_its_turn and failing["how"] == "before":
        sys.exit(f"{name}: told to fail")
    status = PROGRAMS[name](argv)
    if is_its_turn:
        sys.exit(f"{name}: told to fail afterwards")
    sys.exit(status)


def lms(argv: list[str]) -> int:
    """LM Studio's command."""
    home = HOME / ".lmstudio"
    settings_path = home / ".internal" / "http-server-config.json"
    settings = json.loads(settings_path.read_text()) if settings_path.exists() else {}
    match argv:
        case ["server", "status", *_]:
            is_running = _is_alive("lmstudio")
            _say(json.dumps({"running": is_running, "port": settings.get("port")}))
            return 0
        case ["server", "stop"]:
            if not _is_alive("lmstudio"):
                return _no("The server is not running.")
            _end("lmstudio")
            return 0
        case ["server", "start", "--help"]:
            _say("Usage: server start [options]\n  -p, --port <port>\n  --cors")
            if not (STATE / "old-lms").exists():
                _say("  --bind <address>")
            return 0
        case ["server", "start", *options]:
            port, host, cors = _lms_options(options)
            if port == settings.get("port") and _is_alive("lmstudio"):
                return 0
            _end("lmstudio")
            told = {**settings, "port": port, "cors": cors == "cors", "networkInterface": host}
            settings_path.parent.mkdir(parents=True, exist_ok=True)
            settings_path.write_text(json.dumps(told, indent=2))
            _start("lmstudio", [*LM_STUDIO, str(port), host, cors], {})
            if _waits(lambda: _asks(port)):
                return 0
            return _no("Failed to verify the server is running. Please try to use another port.")
    return _no(f"error: unknown command {argv}")


def launchctl(argv: list[str]) -> int:
    """What launchd knows of this session."""
    variables = _known("launchd", {})
    match argv:
        case ["managername"]:
            _say(_known("session", "Aqua"))
        case ["getenv", name]:
            _say(variables.get(name, ""))
        case ["setenv", name, value]:
            _keep("launchd", {**variables, name: value})
        case ["unsetenv", name]:
            _keep("launchd", {key: value for key, value in variables.items() if key != name})
        case ["bootout", _]:
            return 3  # no such process: the agent ran and ended
        case _:
            return _no(f"Unrecognized subcommand: {argv}")
    return 0


def osascript(argv: list[str]) -> int:
    """The one script that is used: ask the app to quit."""
    if argv[:1] != ["-e"] or "com.electron.ollama" not in argv[1]:
        return _no("syntax error")
    if (STATE / "refuses-to-quit").exists():
        return _no("execution error: Not authorized to send Apple events to Ollama. (-1743)")
    _ask_to_end("app")
    return 0


def open_(argv: list[str]) -> int:
    """Start an app."""
    bundle = argv[argv.index("-a") + 1]
    _start_app(Path(bundle, "Contents", "MacOS", "Ollama"), _session())
    return 0


def brew(argv: list[str]) -> int:
    """Homebrew, of which only the service is there."""
    told = _known("brew", {})
    plist = HOME / "Library" / "LaunchAgents" / "homebrew.mxcl.ollama.plist"
    match argv:
        case ["--version"]:
            _say(f"Homebrew {told.get('version', '6.0.15')}\nHomebrew/homebrew-core (git revision abc)")
        case ["services", "info", "ollama", "--json"]:
            is_running = _is_alive("brew")
            pid = int((STATE / "brew.pid").read_text()) if is_running else None
            service = {"name": "ollama", "running": is_running, "loaded": is_running, "pid": pid}
            file = told.get("file", str(plist))
            _say(json.dumps([{**service, "user": told.get("user", "me"), "file": file, "registered": True}]))
        case ["services", "restart", "ollama"]:
            _end("brew")
            variables = {"OLLAMA_FLASH_ATTENTION": "1", **_brew_variables()}
            job = {"Label": "homebrew.mxcl.ollama", "EnvironmentVariables": variables, "KeepAlive": True}
            plist.parent.mkdir(parents=True, exist_ok=True)
            plist.write_bytes(plistlib.dumps(job))
            _start("brew", OLLAMA, variables)
        case _:
            return _no(f"Error: Unknown command: {argv}")
    return 0


def taskkill(argv: list[str]) -> int:
    """Ask the tray app to end."""
    if argv != ["/IM", "ollama app.exe"]:
        return _no(f"ERROR: Invalid argument/option - {argv}")
    if not _is_alive("app"):
        return _no('ERROR: The process "ollama app.exe" not found.', 128)
    _ask_to_end("app")
    return 0


def powershell(argv: list[str]) -> int:
    """Start the tray app with or without the variable."""
    script = argv[argv.index("-Command") + 1]
    set_to = re.match(r"Set-Item Env:OLLAMA_HOST '(.*?)'; ", script)
    started = re.search(r"Start-Process -FilePath '((?:[^']|'')+)' -ArgumentList 'hidden'$", script)
    if started is None or not (set_to or script.startswith("Remove-Item Env:OLLAMA_HOST ")):
        return _no("The term is not recognized.")
    variables = {"OLLAMA_HOST": set_to[1]} if set_to else {}
    _start_app(Path(started[1].replace("''", "'")), variables)
    return 0


PROGRAMS: dict[str, Any] = {
    "lms": lms, "launchctl": launchctl, "osascript": osascript, "open": open_, "brew": brew,
    "taskkill": taskkill, "powershell": powershell,
}  # fmt: skip


def _lms_options(options: list[str]) -> tuple[int, str, str]:
    port = int(options[options.index("--port") + 1])
    host = options[options.index("--bind") + 1] if "--bind" in options else "127.0.0.1"
    return port, host, "cors" if "--cors" in options else "none"


def _brew_variables() -> dict[str, str]:
    path = HOME / ".homebrew" / "services" / "ollama.env"
    if not path.is_file() or path.stat().st_mode & 0o022:
        return {}
    lines = [line.strip() for line in path.read_text().splitlines()]
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    return {key.strip(): value.strip() for key, value in pairs}


def _session() -> dict[str, str]:
    return {str(key): str(value) for key, value in _known("launchd", {}).items()}


def _start_app(program: Path, variables: dict[str, str]) -> None:
    if _is_alive("app"):
        return
    support = {"FAKE_SUPPORT": str(_known("support", str(STATE / "support")))}
    _start("app", [str(program), "-c", APP, str(program), *OLLAMA], {**variables, **support})


def _start(name: str, argv: list[str], variables: dict[str, str]) -> None:
    environment = {**os.environ, "OLLAMA_HOST": f"127.0.0.1:{os.environ['FAKE_USUAL_PORT']}"}
    process = subprocess.Popen(
        argv, env={**environment, **variables}, cwd=ROOT, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(STATE / f"{name}.err").open("ab"),
    )  # fmt: skip
    (STATE / f"{name}.pid").write_text(str(process.pid))
    with (STATE / "pids").open("a") as file:
        file.write(f"{process.pid}\n")


def _ask_to_end(name: str) -> None:
    if _is_alive(name):
        os.kill(int((STATE / f"{name}.pid").read_text()), signal.SIGTERM)


def _end(name: str) -> None:
    _ask_to_end(name)
    _waits(lambda: not _is_alive(name))


def _is_alive(name: str) -> bool:
    import psutil

    try:
        process = psutil.Process(int((STATE / f"{name}.pid").read_text()))
        return process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False


def _asks(port: int) -> bool:
    from pairproxy.takeover.asking import answers

    return answers("lmstudio", port)


def _waits(is_so: Any) -> bool:
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _known(name: str, otherwise: Any) -> Any:
    try:
        return json.loads((STATE / name).read_text())
    except FileNotFoundError:
        return otherwise


def _keep(name: str, told: Any) -> None:
    (STATE / name).write_text(json.dumps(told))


def _say(text: object) -> None:
    sys.stdout.write(f"{text}\n")


def _no(why: str, status: int = 1) -> int:
    sys.stderr.write(why + "\n")
    return status
